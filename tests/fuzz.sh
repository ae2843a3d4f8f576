#!/bin/sh
# fuzz.sh: looks for inputs that break the loader or the reader of wisdom, with libFuzzer and the
# sanitizers, for SECONDS_TO_FUZZ seconds each (120). TARGETS names them (safetensors wisdom). What it
# finds stays in the build directory as crash-*; add it to tests/data/fuzz.
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang >/dev/null 2>&1; then
    echo "no clang; platform/setup-debian.sh test installs it"
    exit 77
fi
build=${FUZZ_BUILD:-build-fuzz}
if [ ! -e "$build/build.ninja" ]; then
    CC=clang meson setup "$build" --buildtype debugoptimized -Db_sanitize=address,undefined \
        -Db_lundef=false -Dc_args=-fsanitize=fuzzer-no-link
fi
ninja -C "$build" src/libfovea.a
# link TARGET OUTPUT FLAGS...
link() {
    source=tests/fuzz_$1.c
    output=$2
    shift 2
    clang -std=c11 -g -O1 -D_POSIX_C_SOURCE=200809L "$@" -fno-sanitize-recover=all -Isrc -Iplatform \
        -Iinclude -I"$build/include" "$source" "$build/src/libfovea.a" -o "$output" \
        -ljansson -lm -lpthread
}
for target in ${TARGETS:-safetensors wisdom}; do
    link "$target" "$build/fuzz_$target" -fsanitize=fuzzer,address,undefined
    corpus=$build/corpus_$target
    mkdir -p "$corpus"
    seeds=
    [ "$target" = safetensors ] && seeds=tests/data/fuzz
    if [ "$target" = wisdom ]; then
        link wisdom "$build/seed_wisdom" -DFUZZ_MAIN -fsanitize=fuzzer-no-link,address,undefined
        "$build/seed_wisdom" --seed >"$corpus/seed"
    fi
    # shellcheck disable=SC2086
    FOVEA_WISDOM='' "$build/fuzz_$target" -max_total_time="${SECONDS_TO_FUZZ:-120}" -max_len=65536 \
        -timeout=10 -artifact_prefix="$build/" -print_final_stats=1 "$corpus" $seeds 2>&1 |
        tail -n 20 >"$build/fuzz_$target.log" || true
    cat "$build/fuzz_$target.log"
    # The last lines say so when it stopped for another reason than time.
    grep -q '^Done ' "$build/fuzz_$target.log"
done
