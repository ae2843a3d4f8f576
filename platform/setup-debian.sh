#!/bin/sh
# setup-debian.sh: installs the Debian or Ubuntu packages that a script here needs, if any is
# missing.
#
#   sh platform/setup-debian.sh build|test|emulate|arm64|armhf|riscv64|musl|windows|libraries|
#                               clang|compilers|package|docs|mpi|plot|venv ...
#
# With everything there it does nothing and touches no network; on other systems it says what is
# needed, and whatever called it goes on. No package is ever removed: where an installation would need
# that (OpenCL drivers of another architecture take the native ones' place), it fails. arm64 and armhf
# are for cross builds; they add the architecture to dpkg's. Ubuntu has those packages on a server of
# their own, which has to be among the sources.
#
# A|B is A where the distribution offers it, else B: on Ubuntu 22.04 clang brings the sanitizers'
# libraries along, on arm64 the compiler for arm64 is gcc. A| is A or nothing: what tests of it say, they
# are skipped. Oclgrind has left Debian with version 13.
set -eu

# dpkg-dev: from it Meson knows where libraries lie; without it they would be installed to lib64, where
# neither the loader nor pkg-config nor CMake looks for them.
build='gcc libc6-dev dpkg-dev opencl-headers meson ninja-build pkgconf|pkg-config libjansson-dev libjpeg-dev libpng-dev
    libcurl4-openssl-dev libssl-dev'
test="$build g++ libcmocka-dev binutils python3 python3-numpy git clang clang-format libclang-rt-dev|clang cmake
    gcc-aarch64-linux-gnu|gcc libc6-dev-arm64-cross|libc6-dev ocl-icd-libopencl1 pocl-opencl-icd mesa-opencl-icd
    libclblast1 oclgrind| abigail-tools gnuplot-nox libswscale-dev libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev
    gstreamer1.0-tools gstreamer1.0-plugins-base gir1.2-gstreamer-1.0 python3-gi python3-pil
    libwebp-dev libtiff-dev"
emulate="$test qemu-user"
# Cross builds: tools of this machine, and libraries of the target. OpenCL's loader is one, drivers
# are not: pocl-opencl-icd of another architecture would remove this machine's compiler.
cross='binutils opencl-headers meson ninja-build pkgconf|pkg-config python3 python3-numpy qemu-user'
arm64="$cross gcc-aarch64-linux-gnu|gcc g++-aarch64-linux-gnu|g++ libjansson-dev:arm64 libjpeg-dev:arm64
    libpng-dev:arm64 libtiff-dev:arm64 libwebp-dev:arm64 libcmocka-dev:arm64 libstdc++6:arm64 ocl-icd-libopencl1:arm64"
armhf="$cross gcc-arm-linux-gnueabihf g++-arm-linux-gnueabihf libjansson-dev:armhf libjpeg-dev:armhf
    libpng-dev:armhf libtiff-dev:armhf libwebp-dev:armhf libcmocka-dev:armhf libstdc++6:armhf ocl-icd-libopencl1:armhf"
# Targets of which Debian 12 has compilers and no libraries: platform/cross/libraries.sh builds these.
libraries='cmake ninja-build pkgconf|pkg-config dpkg-dev patch'
riscv64="opencl-headers meson python3 python3-numpy qemu-user gcc-riscv64-linux-gnu g++-riscv64-linux-gnu $libraries"
musl="linux-libc-dev meson python3 python3-numpy musl-tools $libraries"
windows="meson python3 python3-numpy gcc-mingw-w64-x86-64-posix g++-mingw-w64-x86-64-posix wine64 $libraries"
clang='clang'
# Of GPU programs: clang with libclc of its own version, its linker, and Intel's (amd64 alone).
compilers='clang-15|clang-19|clang libclc-15|libclc-19|libclc| lld intel-opencl-icd|intel-ocloc|'
package='build-essential dpkg-dev debhelper dh-python lintian libwebp-dev libtiff-dev'
docs='doxygen'
mpi='libopenmpi-dev openmpi-bin'
plot='gnuplot-nox'
venv='python3-venv'

wanted=
architectures=
for purpose in "$@"; do
    case $purpose in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    emulate) wanted="$wanted $emulate" ;;
    arm64) wanted="$wanted $arm64" architectures="$architectures arm64" ;;
    armhf) wanted="$wanted $armhf" architectures="$architectures armhf" ;;
    riscv64) wanted="$wanted $riscv64" ;;
    musl) wanted="$wanted $musl" ;;
    windows) wanted="$wanted $windows" ;;
    libraries) wanted="$wanted $libraries" ;;
    clang) wanted="$wanted $clang" ;;
    compilers) wanted="$wanted $compilers" ;;
    package) wanted="$wanted $package" ;;
    docs) wanted="$wanted $docs" ;;
    mpi) wanted="$wanted $mpi" ;;
    plot) wanted="$wanted $plot" ;;
    venv) wanted="$wanted $venv" ;;
    *)
        echo "usage: setup-debian.sh build|test|emulate|arm64|armhf|riscv64|musl|windows|libraries|" \
            "clang|compilers|package|docs|mpi|plot|venv ..." >&2
        exit 1
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo "no dpkg here, so nothing is installed; by Debian's names this needs:" \
        $(printf '%s\n' $wanted | sort -u) >&2
    exit 0
fi
installed() { # package
    case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) in *' installed') ;; *) return 1 ;; esac
}

offered() { # package
    apt-cache policy "$1" | grep -q 'Candidate: [^(]'
}

# Packages to install. Of A|B the last one, where apt's lists know none of them yet.
find_missing() {
    for choice in $(printf '%s\n' $wanted | sort -u); do
        for package in $(echo "$choice" | tr '|' ' '); do
            installed "$package" && continue 2
            ! offered "$package" || break
        done
        case $choice in *'|') offered "$package" || continue ;; esac
        printf ' %s' "$package"
    done
}
missing=$(find_missing)
[ -n "$missing" ] || exit 0

echo "missing packages:$missing" >&2
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=sudo
else
    # Which packages there are is known once apt has the lists, so that this script is what to run.
    folder=$(cd "$(dirname "$0")" && pwd | sed "s/'/'\\\\''/g")
    echo "install them as root: sh '$folder/$(basename "$0")' $*" >&2
    exit 1
fi
for architecture in $architectures; do
    $as_root dpkg --add-architecture "$architecture" # nothing where it is known
done
wait='-o DPkg::Lock::Timeout=600'
# A server may have the lists of one architecture half renewed; what is then out of reach, the next line says.
$as_root apt-get $wait update -qq || true
missing=$(find_missing)
$as_root env DEBIAN_FRONTEND=noninteractive apt-get $wait install -y -qq --no-remove \
    --no-install-recommends $missing
