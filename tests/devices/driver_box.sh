#!/bin/sh
# driver_box.sh: a Debian that has OpenCL drivers of its own, for drivers.py. It mounts folders, so that it must be
# run by `unshare -m`: the mounts then end with it. It needs root and debootstrap.
#
#   unshare -m sh driver_box.sh RELEASE BOX make
#   unshare -m sh driver_box.sh RELEASE BOX run 'FOLDER ...' COMMAND...
#
# BOX is the folder of that Debian. `run` shows it these folders of the machine under the same paths.
# shellcheck disable=SC1091,SC2034
set -eu
release=$1 # fresh_box.sh reads it
box=$2
action=$3
shift 3
# open_box clears the shared folder below: each process has its own, so that several may run at a time.
[ ! -d "$box/srv" ] || mount -t tmpfs tmpfs "$box/srv"
. "$(dirname "$0")/../packages/fresh_box.sh"
open_box ocl-icd-libopencl1
case $action in
make)
    in_box apt-get update -qq
    # The drivers, and the libraries that the program is linked with.
    in_box apt-get install -y -qq --no-install-recommends pocl-opencl-icd mesa-opencl-icd mesa-vulkan-drivers \
        libjansson4 libjpeg62-turbo libpng16-16t64 libtiff6 libwebp7 libcurl4t64 libssl3t64
    ;;
run)
    for folder in $1; do
        mkdir -p "$box$folder"
        mount --bind "$folder" "$box$folder"
    done
    shift
    in_box "$@"
    ;;
esac
