#!/bin/sh
# mask2former.sh: mIoU and time of a Mask2Former head on the two models of this folder, with softmax and with foveated
# attention. Each head is trained on its frozen model, on scenes of 504 pixels.
#
#   sh bench/digits/mask2former.sh
#
# BUILD names the build directory, THREADS the threads, STEPS the steps of each training (default 200). What it makes is
# in build/digits/mask2former; an existing head is not trained again.
set -eu
cd "$(dirname "$0")/../.."
build=$(sh bench/build.sh build src/cli/fovea bench/scenes)
folder=$build/digits/mask2former
mkdir -p "$folder"
for set in train:400:504 test:16:504 test:16:1008; do
    count=${set#*:}
    size=${count#*:}
    file=$folder/${set%%:*}-$size.safetensors
    [ -e "$file" ] ||
        gzip -dc bench/digits/digits.csv.gz | "$build/bench/scenes" "${set%%:*}" 7 0 "${count%:*}" "$size" "$file"
done
echo "| head trained with | attention | mIoU, 504 px | ms | mIoU, 1008 px | ms |"
echo "|---|---|---:|---:|---:|---:|"
for model in softmax linear; do
    out=$folder/$model
    [ -e "$out/model.safetensors" ] ||
        "$build/src/cli/fovea" adapt bench/digits/$model --stage 3 --head mask2former --data "$folder/train-504.safetensors" \
            --val "$folder/test-504.safetensors" --size 504 --crop none --batch 4 --steps "${STEPS:-200}" --lr 1e-3 \
            --warmup 10 --clip 1 --seed 1 --threads "${THREADS:-0}" -o "$out" >"$out.log" 2>&1
done
for row in softmax:softmax softmax:foveated linear:foveated; do
    out=$folder/$row
    for size in 504 1008; do
        "$build/src/cli/fovea" eval "$folder/${row%:*}" --attention "${row#*:}" --data "$folder/test-$size.safetensors" \
            --size $size --threads "${THREADS:-0}" -o "$out-$size.json" >"$out-$size.log" 2>&1
    done
    python3 - "$out" "$row" <<'TEXT'
import json
import sys
cells = sys.argv[2].replace("linear", "foveated").split(":")
for size in (504, 1008):
    found = json.load(open("%s-%d.json" % (sys.argv[1], size)))[0]
    cells += ["%.1f" % (100 * found["metrics"]["miou"]), "%.0f" % found["ms"]]
print("| %s |" % " | ".join(cells))
TEXT
done
