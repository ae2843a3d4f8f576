#!/bin/sh
# test_static.sh: a static program in a system that has nothing else: no loader, no libraries, no
# /proc, no /dev.
#
#   test_static.sh FOVEA
set -eu
. "$(dirname "$0")/../verdict.sh"
program=$1
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
cp "$program" "$box/fovea"
if [ "$(id -u)" = 0 ]; then
    enter=chroot
elif unshare -r true 2>/dev/null; then
    enter='unshare -r chroot'
else
    echo 'neither root, nor a user namespace of its own'
    exit 77
fi
inside() {
    env -i PATH="$PATH" $enter "$box" /fovea "$@"
}

status=0
if readelf -lW "$program" | grep INTERP; then status=1; fi
verdict 'it asks for no loader' $status

status=0
inside info >"$box/info" || status=1
grep -q '^cpu  ' "$box/info" || status=1
verdict 'info' $status

# Computes the features of a picture of 64 x 48 pixels.
awk 'BEGIN { printf "P6\n64 48\n255\n"; for (i = 0; i < 3 * 64 * 48; i++) printf "%c", 33 + i % 90 }' >"$box/a.ppm"
status=0
inside run synthetic:dinov2-s --size 56 --attention linear:elu1 a.ppm --json >"$box/run.json" || status=1
grep -q '"schema"' "$box/run.json" || status=1
verdict 'run' $status

# Reads a frame from standard input, which the library must leave to the program.
awk 'BEGIN { printf "YUV4MPEG2 W64 H48 F1:1 C420\nFRAME\n"; for (i = 0; i < 64 * 48 * 3 / 2; i++) printf "%c", 33 + i % 90 }' \
    >"$box/a.y4m"
status=0
inside run synthetic:dinov2-s --size 56 --attention linear:elu1 - --json <"$box/a.y4m" >"$box/run.json" || status=1
grep -q '"schema"' "$box/run.json" || status=1
verdict 'run of standard input' $status

status=0
inside verify synthetic:dinov2-s --size 56 --attention linear:elu1 >"$box/verify" || status=1
verdict 'verify' $status
verdicts
