#!/bin/sh
# fuzz.sh: looks for inputs that break the loader, with libFuzzer and the sanitizers, for SECONDS_TO_FUZZ
# seconds (120). What it finds stays in the build directory as crash-*; add it to tests/data/fuzz.
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
clang -std=c11 -g -O1 -D_POSIX_C_SOURCE=200809L -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=all -Isrc -Iplatform -Iinclude -I"$build/include" \
    tests/fuzz_safetensors.c "$build/src/libfovea.a" -o "$build/fuzz_safetensors" \
    -ljansson -lm -lpthread
mkdir -p "$build/corpus"
"$build/fuzz_safetensors" -max_total_time="${SECONDS_TO_FUZZ:-120}" -max_len=65536 -timeout=10 \
    -artifact_prefix="$build/" -print_final_stats=1 "$build/corpus" tests/data/fuzz 2>&1 | tail -n 20 \
    >"$build/fuzz.log" || true
cat "$build/fuzz.log"
# The last lines say so when it stopped for another reason than time.
grep -q '^Done ' "$build/fuzz.log"
