#!/bin/sh
# tsan.sh: runs test_threads under ThreadSanitizer, which must report nothing, and then a planted
# race, which it must report.
#
#   tsan.sh BUILD     builds in BUILD/tsan
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1/tsan
[ -e "$build/build.ninja" ] || meson setup "$build" "$here/../.." --buildtype debugoptimized \
    -Db_sanitize=thread -Db_lundef=false >&2
ninja -C "$build" tests/plan/test_threads >&2
export FOVEA_WISDOM= FOVEA_RIGOR=estimate TSAN_OPTIONS=exitcode=66
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The sanitizer's memory layout does not support the address randomisation of newer kernels.
run() {
    if setarch -R true 2>/dev/null; then
        setarch -R "$build/tests/plan/test_threads" "$@"
    else
        "$build/tests/plan/test_threads" "$@"
    fi
}
verdict() { # name, whether it is as it should be
    if [ "$2" = 1 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1"
        grep -A 12 'WARNING: ThreadSanitizer' "$log" | head -n 60 || tail -n 20 "$log"
    fi
}

code=0
run >"$log" 2>&1 || code=$?
verdict 'threads, without a race' $((code == 0))
code=0
run --planted >"$log" 2>&1 || code=$?
grep -q 'ThreadSanitizer: data race' "$log" || code=0
verdict 'a race that is planted' $((code == 66))
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
