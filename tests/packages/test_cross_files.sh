#!/bin/sh
# test_cross_files.sh: every cross file is one that Meson reads, with what a build asks it for. No
# compiler of the target is needed.
set -eu
files=$(cd "$(dirname "$0")/../../platform/cross" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
passed=0
failed=0
cat >"$root/meson.build" <<'TEXT'
project('asks')
assert(host_machine.system() in ['linux', 'android', 'windows'])
assert(host_machine.cpu_family() in ['aarch64', 'arm', 'riscv64', 'x86_64'])
assert(host_machine.endian() == 'little')
assert(meson.is_cross_build())
foreach path : meson.get_external_property('pkg_config_libdir')
    assert(path.startswith('/'))
endforeach
TEXT

try() { # name, options: passes when Meson takes the file and the questions above
    name=$1
    shift
    if (cd "$root" && rm -rf out && meson setup out "$@") >"$root/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        tail -n 5 "$root/log"
    fi
}

for file in "$files"/*.ini; do
    try "$(basename "$file")" --cross-file "$file"
    # If a file does not name a tool, Meson would use the build machine's.
    for tool in c cpp ar nm objdump strip size pkgconfig; do
        if ! grep -q "^$tool = " "$file"; then
            failed=$((failed + 1))
            echo "FAIL $(basename "$file"): no $tool"
        fi
    done
done
# As android-arm64.ini documents, a second file changes the paths.
printf "[constants]\nndk = '/elsewhere/ndk'\nprefix = '/elsewhere/target'\n" >"$root/mine.ini"
echo "assert(meson.get_external_property('pkg_config_libdir') == ['/elsewhere/target/lib/pkgconfig'])" \
    >>"$root/meson.build"
try "android-arm64.ini with a file after it" --cross-file "$files/android-arm64.ini" \
    --cross-file "$root/mine.ini"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
