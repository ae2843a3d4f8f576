#!/bin/sh
# floors.sh: whole models compared with the sum of the lower bounds of their steps, in the same rounds:
# a product or softmax takes its time when run alone, any other step that of moving its operands once.
#
#   sh bench/floors.sh                          MAViT-T on 224x224 and 2048x512 pixels; a minute or two
#   sh bench/floors.sh MODEL SIZE [options]     as `fovea bench floors` takes them
#
# BUILD names the build directory.
set -eu
cd "$(dirname "$0")/.."
build=$(sh bench/build.sh build src/cli/fovea)
if [ $# -ge 2 ]; then
    model=$1
    size=$2
    shift 2
    exec "$build/src/cli/fovea" bench floors "$model" --size "$size" "$@"
fi
for size in 224 2048x512; do
    "$build/src/cli/fovea" bench floors synthetic:mavit-t --size $size
    echo
done
