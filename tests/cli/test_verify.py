#!/usr/bin/env python3
"""test_verify.py: `fovea verify`: all CPU kernels are run and correct, models are correct step by step, and
the errors of the kernels planted by planted_cpu.c are found.

    test_verify.py path/to/fovea path/to/fovea_planted

Standard library only.
"""
import json
import os
import subprocess
import sys

import expected
from expected import expect

MODEL = "synthetic:vit-ti16"


def run(exe, *arguments, plant="", code=0):
    env = dict(os.environ, FOVEA_PLANT=plant)
    p = subprocess.run([exe, "verify", *arguments], capture_output=True, text=True, env=env)
    expect("verify %s: exit %d, wanted %d: %s" % (" ".join(arguments), p.returncode, code, p.stderr),
           p.returncode == code)
    return p


def results(exe, *arguments, **how):
    return json.loads(run(exe, *arguments, "--json", **how).stdout)


def every_kernel(fovea, planted):
    seen = results(fovea)
    for k in seen["kernels"]:
        expect("%s is %s: %s" % (k["kernel"], k["status"], k["text"]), k["status"] == "ok")
        expect("%s: nothing compared" % k["kernel"], k["values"] > 0)
    expect("all usable kernels", len(seen["kernels"]) == seen["right"] > 100)
    expect("as a table", "0 are wrong, and no case reaches 0" in run(fovea, "--kernel", "layernorm").stdout)


def wrong_kernel(fovea, planted):
    seen = results(planted, "--kernel", "gemm_f32", plant="wrong", code=3)
    wrong = [k for k in seen["kernels"] if k["status"] != "ok"]
    expect("the planted kernel alone is wrong",
           [k["kernel"] for k in wrong] == ["gemm_f32_planted_wrong"])
    expect("in all cases, with a reason", wrong[0]["failed"] == wrong[0]["cases"] > 0 and
           "its reference" in wrong[0]["text"])


def damaged_cache(fovea, planted):
    """A planted kernel that overwrites an earlier row of its cache is found."""
    seen = results(planted, "--kernel", "softmax_scan", plant="cache", code=3)
    wrong = [k for k in seen["kernels"] if k["status"] != "ok"]
    expect("the kernel that damages its cache alone is wrong",
           [k["kernel"] for k in wrong] == ["softmax_scan_f32_planted_cache"])
    expect("for what it left in the cache", "state" in wrong[0]["text"])


def models(fovea, planted):
    for attention in ("softmax", "mala", "linear:exp+pola@1"):
        seen = results(fovea, MODEL, "--size", "64", "--attention", attention, "--compute", "f32")
        expect("nothing is wrong with %s" % attention, seen["wrong"] == 0 and not seen["first_wrong"])
        for s in seen["steps"]:
            expect("%s is right" % s["label"], s["right"] and s["nonfinite"] == 0)
            if "carried" in s:
                expect("%s is near the reference" % s["label"], s["carried"]["cosine"] > 0.999999)
    headroom(results(fovea, MODEL, "--size", "64", "--attention", "linear:elu1"),
             results(fovea, MODEL, "--size", "256", "--attention", "linear:elu1"))


def headroom(small, large):
    """States that are means keep their size, states that are sums grow with the tokens."""
    def of(seen, key):
        return seen["largest"][key]["size"]
    expect("a mean does not grow", of(large, "accumulated_mean") < 2 * of(small, "accumulated_mean"))
    expect("a sum does", of(large, "accumulated_sum") > 8 * of(small, "accumulated_sum"))
    for seen in small, large:
        top = seen["largest"]["accumulated_sum"]
        expect("headroom is to 65504", abs(top["headroom_f16"] * top["size"] - 65504) < 1)


def wrong_layer(fovea, planted):
    p = run(planted, MODEL, "--size", "64", "--compute", "f32", plant="wrong,chosen", code=3)
    expect("the first wrong layer is named", "step 1, embed, by gemm_f32_planted_wrong" in p.stderr)
    expect("and marked", "WRONG" in p.stdout)


def half_weights(fovea, planted):
    seen = results(fovea, MODEL, "--size", "64", "--dtype", "bf16")
    expect("rounded weights are right", seen["wrong"] == 0)
    last = [s for s in seen["steps"] if "carried" in s][-1]["carried"]["rel_l2"]
    expect("and seen against the reference: %g" % last, 1e-4 < last < 0.1)


def other_devices(fovea, planted):
    """Verifies some kernels of the first device that is not the CPU."""
    info = json.loads(subprocess.run([fovea, "info", "--json"], capture_output=True, text=True).stdout)
    ids = [d["id"] for d in info["devices"] if d["id"] != "cpu"]
    if not ids:
        print("no device but the CPU")
        return
    seen = results(fovea, "--device", ids[0], "--kernel", "layernorm")
    expect("they are right", seen["right"] > 0 and seen["wrong"] == 0)


def usage(fovea, planted):
    run(fovea, MODEL, "--kernel", "gemm", code=1)
    run(fovea, "--image", "x.png", code=1)
    run(fovea, "--kernel", "no such kernel", code=7)


def main():
    exes = [os.path.abspath(path) for path in sys.argv[1:3]]
    return expected.run((every_kernel, wrong_kernel, damaged_cache, models, wrong_layer, half_weights,
                         other_devices, usage), lambda test: test(*exes))


if __name__ == "__main__":
    sys.exit(main())
