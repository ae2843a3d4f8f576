#!/bin/sh
# setup-debian.sh: installs the Debian or Ubuntu packages that a script here needs, if any is missing.
#
#   sh platform/setup-debian.sh build|test|emulate|blas|plot ...
#
# With everything there it does nothing and touches no network.
set -eu

build='gcc libc6-dev opencl-headers meson ninja-build pkg-config libjansson-dev libturbojpeg0-dev libpng-dev'
test="$build g++ libcmocka-dev binutils python3 python3-numpy git clang clang-format libclang-rt-dev
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross ocl-icd-libopencl1 pocl-opencl-icd mesa-opencl-icd
    libclblast1 oclgrind gnuplot-nox"
emulate="$test qemu-user"
blas='libopenblas0-pthread'
plot='gnuplot-nox'

wanted=
for purpose in "$@"; do
    case $purpose in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    emulate) wanted="$wanted $emulate" ;;
    blas) wanted="$wanted $blas" ;;
    plot) wanted="$wanted $plot" ;;
    *)
        echo "usage: setup-debian.sh build|test|emulate|blas|plot ..." >&2
        exit 1
        ;;
    esac
done

missing=
for package in $(printf '%s\n' $wanted | sort -u); do
    state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    case $state in
    *' installed') ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

echo "missing packages:$missing" >&2
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=sudo
else
    echo "install them as root: apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
