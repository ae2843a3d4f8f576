#!/bin/sh
# resolution.sh: DINOv2-L over resolution, softmax against linear attention: tables of time and peak
# memory and an SVG picture of both (after Fig. 9 of ViT-AdaLA, arXiv 2603.16063).
#
#   sh bench/resolution.sh       about twenty minutes on two fast cores, hours on a small board
#
# Results are kept in build/resolution, a file for each model and size, and an interrupted run resumes
# from them; delete the folder to start over. BUILD names the build directory, MODEL and SIZES another
# model and other sizes, THREADS the threads.
set -eu
cd "$(dirname "$0")/.."
build=$(sh bench/build.sh "build plot" src/cli/fovea)
model=${MODEL:-synthetic:dinov2-l}
folder=$build/resolution
mkdir -p "$folder"
set --
for size in $(echo "${SIZES:-252,364,518,742,1022,1274,1540}" | tr , ' '); do
    result=$folder/$(echo "$model" | tr / -)-$size.jsonl
    set -- "$@" "$result"
    [ -e "$result" ] && continue
    echo "$size x $size ..." >&2
    # Each attention gets at least three runs, however long they take.
    "$build/src/cli/fovea" bench model "$model" --size "$size" --attention softmax,linear:elu1 \
        --time 15 --warmup 0 ${THREADS:+--threads "$THREADS"} -o jsonl -O "$result.part"
    mv "$result.part" "$result"
done
cat "$@" >"$folder/results.jsonl"
"$build/src/cli/fovea" bench --from "$folder/results.jsonl" -o md -O "$folder/resolution.md"
python3 bench/report.py "$folder/results.jsonl" "$folder/resolution.svg" >>"$folder/resolution.md"
cat "$folder/resolution.md"
printf '\n%s\n%s\n' "$folder/resolution.svg" "$folder/resolution.md" >&2
