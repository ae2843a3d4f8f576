#!/usr/bin/env python3
"""python_call.py: what a call from Python costs beside the frame.

    FOVEA_LIBRARY=build/src/libfovea.so python3 bench/python_call.py [MODEL [SIDE]]

A frame is run by fovea_run alone, with everything that it is given made before, and in each of the ways that Python
has, in turns. Of many turns the median is told, in microseconds, and what is more than the frame's. The default
is a model of one block and a picture of 16x16 pixels, so that the difference is not lost in the frame.
"""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import numpy as np  # noqa: E402

import fovea  # noqa: E402
from fovea import _plan, _pixels  # noqa: E402

ROUNDS, SECONDS = 5, 2


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "synthetic:block-64x1x4"
    side = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    model = fovea.load(name, device=fovea.Device("cpu", threads=1))
    image = np.random.default_rng(1).integers(0, 256, (side, side, 3), np.uint8)
    rows = ["last_hidden_state"]
    plan = model.plan(image, outputs=rows)
    outputs = [np.empty(shape, np.float32) for shape in plan._shapes]
    places, frame = _plan._places(outputs), _pixels.planes(image, "rgb8", side)

    def alone():
        fovea._lib.fovea_run(plan, frame, places, len(places))
    ways = {"fovea_run alone": alone, "plan.run(image)": lambda: plan.run(image),
            "model(image)": lambda: model(image, outputs=rows, preprocess=False),
            "model(image).features": lambda: model(image, outputs=rows, preprocess=False).features,
            "model(image[..., ::-1])": lambda: model(image[..., ::-1], outputs=rows, preprocess=False),
            "model.run(image)": lambda: model.run(image, outputs=rows)}
    times = {way: [] for way in ways}
    for call in ways.values():
        call()
    end = time.perf_counter() + ROUNDS * SECONDS
    while time.perf_counter() < end:
        for way, call in ways.items():
            begin = time.perf_counter()
            call()
            times[way].append(time.perf_counter() - begin)
    least = statistics.median(times["fovea_run alone"])
    print("%s, %dx%d, %d turns, numpy %s, Python %s" % (name, side, side, len(times["model(image)"]),
                                                        np.__version__, sys.version.split()[0]))
    for way, seconds in times.items():
        middle = statistics.median(seconds)
        print("%-26s %10.1f us %+9.1f" % (way, middle * 1e6, (middle - least) * 1e6))


if __name__ == "__main__":
    main()
