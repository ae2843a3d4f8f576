#!/bin/sh
# macos_sdk.sh: a folder that compilers take for a macOS SDK: headers, and stubs of the system's library,
# to compile and link by. They are those of the Zig compiler, from PyPI's ziglang; C++'s library and
# frameworks are not among them.
#
#   macos_sdk.sh FOLDER
#
# Existing files are not fetched again. Needs python3-venv (platform/setup-debian.sh macos) and a
# network.
set -eu
sdk=${1:?usage: macos_sdk.sh FOLDER}
[ ! -e "$sdk/usr/lib/libSystem.tbd" ] || exit 0
version=0.13.0 # newer ones name architectures that LLVM 14 does not know
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
python3 -m venv "$new/venv" >&2
"$new/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$new" "ziglang==$version" >&2
python3 - "$new"/ziglang-*.whl "$new" <<'TEXT'
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if name.startswith(("ziglang/lib/libc/darwin/", "ziglang/lib/libc/include/any-macos-any/")):
            wheel.extract(name, sys.argv[2])
TEXT
mkdir -p "$sdk/usr/lib"
rm -rf "$sdk/usr/include"
mv "$new/ziglang/lib/libc/include/any-macos-any" "$sdk/usr/include"
for name in c m pthread dl; do # all of them are one library
    ln -sf libSystem.tbd "$sdk/usr/lib/lib$name.tbd"
done
mv "$new/ziglang/lib/libc/darwin/libSystem.tbd" "$sdk/usr/lib"
