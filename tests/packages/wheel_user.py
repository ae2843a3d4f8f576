#!/usr/bin/env python3
"""wheel_user.py MODEL: runs five lines as a user of an installed wheel would write them, and compares the result with
that of transformers: the golden file io.safetensors in the model's folder.

Needs only numpy and the installed package: nothing else is installed where it runs.
"""
import json
import os
import struct
import sys

import numpy as np
import fovea

WITHIN = 1e-5  # of the largest value


def golden(path):
    with open(path, "rb") as file:
        blob = file.read()
    n, = struct.unpack("<Q", blob[:8])
    for name, about in json.loads(blob[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = (8 + n + at for at in about["data_offsets"])
            yield name, np.frombuffer(blob[begin:end], "<f4").reshape(about["shape"])


folder = sys.argv[1]
tensors = dict(golden(os.path.join(folder, "io.safetensors")))
model = fovea.load(folder)
got, want = model(tensors["input"][0])["last_hidden_state"], tensors["last_hidden_state"][0]
error = abs(got.astype(np.float64) - want).max() / abs(want).max()
print("%s of %s, numpy %s: error %.1e of the largest value" % (fovea.version(), fovea.__file__, np.__version__,
                                                               error))
sys.exit(not error <= WITHIN)
