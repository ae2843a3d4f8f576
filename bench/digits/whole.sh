#!/bin/sh
# whole.sh: how much their authors' branch and gate improve pola, nala and focused: cosine of the patches with
# those of the softmax model of this folder after stage 1, mean and worst of 16 scenes that were held out.
#
#   sh bench/digits/whole.sh
#
# BUILD names the build directory, THREADS the threads. What it makes is in build/digits/whole.
set -eu
cd "$(dirname "$0")/../.."
build=$(sh bench/build.sh build src/cli/fovea bench/scenes)
folder=$build/digits/whole
mkdir -p "$folder"
for split in train:400 test:16; do
    [ -e "$folder/${split%:*}" ] ||
        gzip -dc bench/digits/digits.csv.gz |
        "$build/bench/scenes" "${split%:*}" 7 0 "${split#*:}" 504 "$folder/${split%:*}"
    rm -f "$folder/${split%:*}"/*_mask.pgm
done
echo "| attention | untrained | bare | whole |"
echo "|---|---:|---:|---:|"
for attention in pola nala focused; do
    for whole in "" --whole; do
        out=$folder/$attention$whole
        rm -rf "$out"
        "$build/src/cli/fovea" adapt bench/digits/softmax --stage 1 --attention $attention $whole \
            --data "$folder/train" --val "$folder/test" --size 504 --batch 8 --steps 200 --seed 1 \
            --threads "${THREADS:-0}" -o "$out" >"$out.log" 2>&1
    done
    python3 - $attention "$folder/$attention/validation.jsonl" "$folder/$attention--whole/validation.jsonl" <<'TEXT'
import json
import sys
lines = [[json.loads(line)["scores"][0] for line in open(path)] for path in sys.argv[2:]]
scores = [lines[0][0]] + [max(run, key=lambda score: score["mean"]) for run in lines]
print("| `%s` | %s |" % (sys.argv[1], " | ".join("%(mean).3f, %(worst).3f" % score for score in scores)))
TEXT
done
