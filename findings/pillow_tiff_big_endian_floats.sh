#!/bin/sh
# Pillow 12.3.0 and 13.0.0: a big-endian TIFF of floats that is compressed is read with the bytes of
# each number in the wrong order, without an error.
#
# The same picture uncompressed is read rightly, and so is the compressed one in little-endian order.
# tifffile reads all four alike. Depth maps and elevation models come as such
# files.
#
#   sh findings/pillow_tiff_big_endian_floats.sh      exit 0: it is still so
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/read.py" <<'PYTHON'
import sys
import numpy as np
import PIL
import tifffile
from PIL import Image

want = np.linspace(0.5, 60, 48, dtype=np.float32).reshape(6, 8)
right = {}
for order in "<", ">":
    for compression in None, "zlib":
        path = "%s/%s.tif" % (sys.argv[1], "picture")
        tifffile.imwrite(path, want, byteorder=order, compression=compression)
        with Image.open(path) as picture:
            got = np.asarray(picture, np.float32)
        right[order, compression] = np.array_equal(got, want)
        print("Pillow %s, %s-endian, %s: %s; tifffile %s" % (
            PIL.__version__, "little" if order == "<" else "big", compression or "uncompressed",
            "right" if right[order, compression] else "%g where %g is stored" % (got[0, 1], want[0, 1]),
            "right" if np.array_equal(tifffile.imread(path), want) else "wrong"))
sys.exit([right[k] for k in (("<", None), ("<", "zlib"), (">", None), (">", "zlib"))]
         != [True, True, True, False])
PYTHON
for version in 12.3.0 13.0.0; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet "pillow==$version" numpy tifffile==2025.10.16 imagecodecs==2025.8.2
    "$folder/$version/bin/python" "$folder/read.py" "$folder"
done
