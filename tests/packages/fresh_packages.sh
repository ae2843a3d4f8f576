#!/bin/sh
# fresh_packages.sh: installs Debian packages into a Debian that has nothing, as the README says, purges them, and
# runs their own tests there by autopkgtest.
#
#   sh tests/packages/fresh_packages.sh BUILD [bookworm|trixie|sid [FOLDER]]
#
# BUILD is the build-debian-ARCHITECTURE of platform/package/debian.sh. FOLDER is such a Debian, else debootstrap
# makes one there, or in a folder that goes at the end. Needs root, autopkgtest, and a network for Debian's packages.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:?usage: fresh_packages.sh BUILD [bookworm|trixie|sid [FOLDER]]}" && pwd)
release=${2:-bookworm}
box=${3:-}
. "$here/tests/packages/fresh_box.sh"
. "$here/tests/verdict.sh"
if ! command -v autopkgtest >/dev/null; then
    echo "fresh_packages.sh needs autopkgtest (apt-get install autopkgtest)" >&2
    exit 77
fi
open_box apt-utils
cp "$build"/packages/*.deb "$work"
cp "$here/tests/data/picture_wide.ppm" "$work/picture.ppm"
cat >"$work/install.sh" <<'TEXT'
set -eu
cd "$1"
apt-get update -qq
apt-get install -y -qq --no-install-recommends ./*.deb
fovea run synthetic:vit-ti16 picture.ppm
python3 -c 'import fovea, numpy as np
print(fovea.load("synthetic:vit-ti16")(np.zeros((64, 64, 3), np.uint8)).labels[0])'
apt-get purge -y -qq $(for deb in *.deb; do dpkg-deb -f "$deb" Package; done)
# Fails if the purge left a file with Fovea's name outside this folder. Files that dependencies leave behind
# (users, groups, systemd's settings) are not Fovea's.
! find / -xdev -path "$1" -prune -o -iname '*fovea*' -print | grep .
TEXT
status=0
in_box sh "$inside/install.sh" "$inside" || status=1
verdict 'installed, run and purged without a trace' $status
umount "$box/proc" # autopkgtest has its own

status=0
autopkgtest "$build"/packages/*.deb "$build"/*.dsc -- chroot "$box" || status=1
verdict autopkgtest $status
verdicts
