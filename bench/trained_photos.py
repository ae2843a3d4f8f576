#!/usr/bin/env python3
"""trained_photos.py: copies the colour photographs of scikit-image's wheel to a folder.

    trained_photos.py WHEEL FOLDER
"""
import os
import sys
import zipfile

NAMES = ["astronaut.png", "chelsea.png", "coffee.png", "hubble_deep_field.jpg", "ihc.png", "motorcycle_left.png",
         "motorcycle_right.png", "retina.jpg", "rocket.jpg"]

wheel, folder = sys.argv[1:]
part = folder + ".part"
os.makedirs(part, exist_ok=True)
with zipfile.ZipFile(wheel) as z:
    for name in NAMES:
        with open(os.path.join(part, name), "wb") as f:
            f.write(z.read("skimage/data/" + name))
os.rename(part, folder)
