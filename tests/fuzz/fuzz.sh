#!/bin/sh
# fuzz.sh: looks for inputs that break what reads files, with libFuzzer and the sanitizers, for
# SECONDS_TO_FUZZ seconds each (60). TARGETS names them. No input may take 30 seconds, nor one
# allocation 600 MiB. What it finds stays in the build directory as crash-*; add it to the seeds of
# the target, see fuzz.h.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v clang >/dev/null 2>&1; then
    echo "no clang; platform/setup-debian.sh test installs it"
    exit 77
fi
build=${FUZZ_BUILD:-build-fuzz}
if [ ! -e "$build/build.ninja" ]; then
    CC=clang meson setup "$build" --buildtype debugoptimized -Db_sanitize=address,undefined \
        -Db_lundef=false -Dc_args=-fsanitize=fuzzer-no-link
fi
ninja -C "$build" src/libfovea.a src/cli/libcli.a
# link TARGET OUTPUT FLAGS... SOURCES...
link() {
    source=tests/fuzz/fuzz_$1.c
    output=$2
    shift 2
    # shellcheck disable=SC2046
    clang -std=c11 -g -O1 -D_POSIX_C_SOURCE=200809L -DCLI_PNG -DCLI_JPEG -fno-sanitize-recover=all \
        -I. -Isrc -Iinclude -I"$build/include" "$source" tests/fuzz/fuzz_files.c \
        "$@" "$build/src/cli/libcli.a" "$build/src/libfovea.a" -o "$output" -ljansson -lm -lpthread \
        $(pkg-config --libs libpng libjpeg) \
        $(for library in libwebp libtiff-4 libcurl libcrypto; do ! pkg-config --exists $library || pkg-config --libs $library; done)
}
for target in ${TARGETS:-annotations cache model operation pictures safetensors training video wisdom}; do
    case $target in
    annotations | operation | pictures | training | video) set -- tests/fuzz/fuzz_cli.c ;;
    *) set -- ;;
    esac
    link "$target" "$build/fuzz_$target" -fsanitize=fuzzer,address,undefined "$@"
    corpus=$build/corpus_$target
    mkdir -p "$corpus"
    if [ "$target" = safetensors ]; then
        seeds=tests/data/fuzz
    else
        link "$target" "$build/seed_$target" -fsanitize=fuzzer-no-link,address,undefined \
            tests/fuzz/fuzz_main.c "$@"
        seeds=$build/seeds_$target
        mkdir -p "$seeds"
        FOVEA_WISDOM='' "$build/seed_$target" --seeds "$seeds"
    fi
    FOVEA_WISDOM='' "$build/fuzz_$target" -max_total_time="${SECONDS_TO_FUZZ:-60}" -max_len=32768 \
        -timeout=30 -malloc_limit_mb=600 -dict=tests/fuzz/fuzz.dict -artifact_prefix="$build/" \
        -print_final_stats=1 "$corpus" "$seeds" 2>&1 | tail -n 20 >"$build/fuzz_$target.log" || true
    cat "$build/fuzz_$target.log"
    # The last lines give the reason if it stopped before its time.
    grep -q '^Done ' "$build/fuzz_$target.log"
done
