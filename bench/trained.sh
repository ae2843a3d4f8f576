#!/bin/sh
# trained.sh: linearises a ViT with trained weights, and shows before and after: a table, features side by
# side, time and memory; build/trained/linearised.jpg is README's picture.
#
#   sh bench/trained.sh          the first time it fetches 200 MB into build/trained, then it takes BUDGET,
#                                10min, and some minutes of measuring
#
# PHOTOS names a folder of photographs, as many as possible; otherwise those of Debian's wallpaper packages
# and of scikit-image's wheel are taken, some fifty. MODEL names another model, BUDGET the time to train,
# OPTIONS further options of `fovea linearise`, BUILD the build directory. Nothing that is fetched becomes
# part of Fovea. An interrupted run continues when it is run again.
set -eu
cd "$(dirname "$0")/.."
build=$(sh bench/build.sh "build venv" src/cli/fovea)
folder=$build/trained
sh bench/trained_fetch.sh "$folder"
if [ -z "${PHOTOS:-}" ] && [ ! -d "$folder/wallpapers" ]; then
    part=$folder/wallpapers.part
    rm -rf "$part"
    mkdir -p "$part/packages" "$part/photos"
    (cd "$part/packages" && apt-get download lomiri-wallpapers-16.04 lomiri-wallpapers-20.04 \
        ukui-wallpapers mate-backgrounds) >&2
    for package in "$part"/packages/*.deb; do
        dpkg-deb -x "$package" "$part/packages/${package##*/}.files"
    done
    find "$part/packages" -type f -name '*.jp*g' -exec cp {} "$part/photos" \;
    cp "$folder"/photos/* "$part/photos"
    mv "$part/photos" "$folder/wallpapers"
    rm -rf "$part"
fi
# shellcheck disable=SC2086
"$build/src/cli/fovea" linearise "${MODEL:-$folder/trained}" --data "${PHOTOS:-$folder/wallpapers}" \
    -o "$folder/result" --budget "${BUDGET:-10min}" --resume ${OPTIONS:-}
"$folder/venv/bin/python" -m pip install --quiet pillow >&2
exec "$folder/venv/bin/python" bench/trained_picture.py "$build/src/cli/fovea" \
    "${MODEL:-$folder/trained}" "$folder/result" bench/scene.jpg "$folder/linearised.jpg" 1036
