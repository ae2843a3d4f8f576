#!/usr/bin/env python3
"""sla_gates.py: measures the time per token that SLA's gates add. The same language model with and without gates
generates tokens alternately, so that both are measured under the same conditions.

    FOVEA_LIBRARY=build/src/libfovea.so PYTHONPATH=python python3 bench/sla_gates.py
        [--pairs gla-340m,sla-gla-340m ..] [--tokens 1024,16384,65536] [--steps 30] [--weights f32]

Prints a Markdown table: the median time of a step after each number of tokens, and the median and quartiles of the
ratios of consecutive steps.
"""
import argparse
import time

import numpy as np

import fovea

PAIRS = ["gla-340m,sla-gla-340m", "gated-deltanet-340m,sla-gated-deltanet-340m"]


def step(sequence, tokens):
    sequence.seek(tokens)
    begin = time.perf_counter()
    sequence.feed([1])
    return time.perf_counter() - begin


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--pairs", nargs="+", default=PAIRS)
    options.add_argument("--tokens", default="1024,16384,65536")
    options.add_argument("--steps", type=int, default=30)
    options.add_argument("--weights", default="f32")
    o = options.parse_args()
    print("| without, with | after tokens | ms without | ms with | ratio |\n|---|---:|---:|---:|---:|")
    for pair in o.pairs:
        both = [fovea.Sequence(fovea.Model("synthetic:" + name), weights=o.weights) for name in pair.split(",")]
        for sequence in both:
            sequence.feed(list(range(8)))
        for tokens in map(int, o.tokens.split(",")):
            times = []
            for i in range(o.steps):  # the order alternates
                order = (0, 1) if i % 2 else (1, 0)
                taken = {which: step(both[which], tokens) for which in order}
                times.append((taken[0], taken[1]))
            t = np.array(times) * 1e3
            low, middle, high = np.percentile(t[:, 1] / t[:, 0], (25, 50, 75))
            print("| `%s` | %d | %.2f | %.2f | %.3f (%.3f to %.3f) |"
                  % (pair.replace(",", "`, `"), tokens, *np.median(t, 0), middle, low, high), flush=True)
        del both, sequence  # frees their memory


if __name__ == "__main__":
    main()
