#!/usr/bin/env python3
"""lab.py: linear attention for a tiny vision transformer that segments scenes of handwritten digits.
Standard library only.

    lab.py BUILD models      trains the two models that bench/digits holds, from the seed, and stores them there
    lab.py BUILD linear      trains only the second model, from the existing first one
    lab.py BUILD ablation    the stages of ViT-AdaLA, one by one, over three seeds: a table
    lab.py BUILD demo        large scenes with both models: pictures, mIoU, time and memory

Everything is made in BUILD/digits, where an interrupted run continues; delete it to start over. THREADS
sets the threads.
"""
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys

import newborn

HERE = os.path.dirname(os.path.abspath(__file__))
ATTENTION = "linear:elu1"
SHIPPED_SEED, SEEDS = 1, (1, 2, 3)
# Sides of the scenes in pixels. The teacher is trained on COARSE ones first, which takes a third of the
# time; students are trained on SIZE; the shipped models are then trained on LARGE ones, and finally on those of DEMO.
SIZE = 504
COARSE = 336
LARGE = 2 * SIZE
SIZES = (252, 336, 504, 756, 1008, 1512)
DEMO, DEMO_SCENES = 2072, 8
TRAIN = {SIZE: 2000, COARSE: 3000, LARGE: 300, DEMO: 100}       # number of scenes
TEST, SWEEP = 100, 20               # number of scenes; SWEEP: the first scenes of TEST, at every size

# Options of `fovea adapt`: the softmax model in two steps, then the stages.
COMMON = {"crop": "none", "jitter": 0, "batch": 8, "lr-schedule": "cosine", "clip": 1, "dtype": "f16"}
FOLLOW = {"attention": ATTENTION, "loss": "squared"}
TASK = {"stage": 3, "classes": 11, "backbone-ratio": 1}
LEARN_COARSE = {**COMMON, **TASK, "size": COARSE, "steps": 2500, "lr": 6e-3, "warmup": 150}
LEARN_FINE = {**COMMON, **TASK, "size": SIZE, "steps": 1800, "lr": 5e-3, "warmup": 50}
STAGE = {
    1: {**COMMON, **FOLLOW, "stage": 1, "size": SIZE, "steps": 150, "lr": 3e-3, "warmup": 10},
    2: {**COMMON, **FOLLOW, "stage": 2, "size": SIZE, "steps": 3000, "lr": 4e-3, "warmup": 50},
    3: {**COMMON, **TASK, "size": SIZE, "steps": 400, "lr": 1e-3, "warmup": 20},
}
ENLARGE = {**COMMON, **TASK, "size": LARGE, "batch": 4, "steps": 300, "lr": 1e-3, "warmup": 10}
FINISH = {**COMMON, **TASK, "size": DEMO, "batch": 2, "lr": 1e-3, "warmup": 10}
SOFTMAX = {**FINISH, "steps": 100}
LINEAR = {**FINISH, "steps": 200, "attention": "foveated"}  # the default of `fovea linearise`
ROWS = ("teacher, softmax", "no adaptation", "stage 1 only", "stage 2 only", "both")


class Lab:
    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.folder = os.path.join(self.build, "digits")
        os.makedirs(self.folder, exist_ok=True)
        self.threads = os.environ.get("THREADS", "0")  # 0: all

    def exe(self, name):
        return os.path.join(self.build, "src/cli/fovea" if name == "fovea" else "bench/" + name)

    def path(self, name):
        return os.path.join(self.folder, name)

    def draw(self, split, first, count, size, out):
        """Writes scenes to `out`, a .safetensors or a folder."""
        with gzip.open(os.path.join(HERE, "digits.csv.gz")) as rows:
            subprocess.run([self.exe("scenes"), split, "0", str(first), str(count), str(size), out],
                           input=rows.read(), check=True)

    def scenes(self, split, count, size):
        out = self.path("%s-%dx%d.safetensors" % (split, count, size))
        if not os.path.exists(out):
            self.draw(split, 0, count, size, out)
        return out

    def adapt(self, name, model, seed, settings, **more):
        """The folder of the model that `fovea adapt` makes from `model`; makes it if necessary."""
        out = self.path("%s-%d" % (name, seed))
        if not os.path.exists(out + ".done"):
            options = {**settings, **more, "seed": seed, "output": out}
            options["data"] = self.scenes("train", TRAIN[options["size"]], options["size"])
            if self.threads != "0":
                options["threads"] = self.threads
            command = [self.exe("fovea"), "adapt", model, "--resume"]
            for option, value in options.items():
                command += ["--" + option, str(value)]
            subprocess.run(command, check=True)
            open(out + ".done", "w").close()
        return out

    def teacher(self, seed):
        born = self.path("newborn-%d" % seed)
        newborn.write(seed, born)
        return self.adapt("teacher", self.adapt("coarse", born, seed, LEARN_COARSE), seed, LEARN_FINE)

    def both(self, teacher, seed):
        first = self.adapt("stage1", teacher, seed, STAGE[1])
        return first, self.adapt("both", first, seed, STAGE[2], teacher=teacher)

    def score(self, model, attention, files):
        text = subprocess.run([self.exe("score"), model, attention, self.threads, *files],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        return [json.loads(line) for line in text.splitlines()]


# ---- what is shipped ----

def ship(name, made):
    out = os.path.join(HERE, name)
    os.makedirs(out, exist_ok=True)
    for file in ("config.json", "preprocessor_config.json", "model.safetensors"):
        shutil.copyfile(os.path.join(made, file), os.path.join(out, file))
    print(out)


def models(lab):
    large = lab.adapt("softmax-large", lab.teacher(SHIPPED_SEED), SHIPPED_SEED, ENLARGE)
    ship("softmax", lab.adapt("softmax", large, SHIPPED_SEED, SOFTMAX))
    linear(lab)


def linear(lab):
    ship("linear", lab.adapt("linear", os.path.join(HERE, "softmax"), SHIPPED_SEED, LINEAR))


# ---- the ablation ----

def variants(lab, seed):
    """[(row, model, attention)]"""
    teacher = lab.teacher(seed)
    first, both = lab.both(teacher, seed)
    second = lab.adapt("stage2", teacher, seed, STAGE[2])
    models = (teacher, teacher, first, second, both)
    return [(row, model, ATTENTION if i else "softmax") for i, (row, model) in enumerate(zip(ROWS, models))]


def measure(lab):
    """{(row, whether stage 3 followed): {size or "test": mIoU of every seed, in percent}}"""
    files = {"test": lab.scenes("test", TEST, SIZE)}
    files.update((size, lab.scenes("test", SWEEP, size)) for size in SIZES)
    found = {}
    for seed in SEEDS:
        for i, (row, model, attention) in enumerate(variants(lab, seed)):
            tuned = lab.adapt("tuned%d" % i, model, seed, STAGE[3], attention=attention)
            for key in ((row, False), (row, True)):
                values = found.setdefault(key, {name: [] for name in files})
                results = lab.score(tuned if key[1] else model, attention, list(files.values()))
                for name, told in zip(files, results):
                    values[name].append(100 * told["miou"])
    return found


def spread(values):
    return "%.1f (%.1f to %.1f)" % (statistics.mean(values), min(values), max(values))


def report(found):
    yield "mIoU in percent, %d scenes of %d pixels: mean over %d seeds (least to most)" % (TEST, SIZE, len(SEEDS))
    yield ""
    yield "| | as it is | with stage 3 after it |"
    yield "|---|---:|---:|"
    for row in ROWS:
        yield "| %s | %s | %s |" % (row, spread(found[row, False]["test"]), spread(found[row, True]["test"]))
    yield ""
    yield "With stage 3, all of it at %d pixels, at other sizes (%d scenes):" % (SIZE, SWEEP)
    yield ""
    yield "| pixels | " + " | ".join(map(str, SIZES)) + " |"
    yield "|---|" + "---:|" * len(SIZES)
    for row in ROWS:
        yield "| %s | %s |" % (row, " | ".join(spread(found[row, True][size]) for size in SIZES))


def ablation(lab):
    found = measure(lab)
    with open(lab.path("ablation.json"), "w") as f:
        json.dump({"%s%s" % (row, ", stage 3" if tuned else ""): values
                   for (row, tuned), values in found.items()}, f, indent=1)
    text = "\n".join(report(found)) + "\n"
    with open(lab.path("ablation.md"), "w") as f:
        f.write(text)
    print(text, end="")


# ---- the demo ----

def demo(lab):
    folder, packed = lab.path("demo"), lab.scenes("test", DEMO_SCENES, DEMO)
    lab.draw("test", 0, 1, DEMO, folder)
    picture = os.path.join(folder, "0000.ppm")
    print("\nhandwritten digits in %d scenes of %d x %d pixels, segmented by a ViT of %.1f MB:\n"
          % (DEMO_SCENES, DEMO, DEMO, os.path.getsize(os.path.join(HERE, "softmax", "model.safetensors")) / 1e6))
    print("%-10s %8s %10s %10s" % ("attention", "mIoU", "ms a scene", "plan MiB"))
    for name, attention in (("softmax", "softmax"), ("linear", LINEAR["attention"])):
        model = os.path.join(HERE, name)
        told, = lab.score(model, "own", [packed])
        print("%-10s %6.1f %% %10.1f %10.1f" % (attention, 100 * told["miou"], told["ms"],
                                               told["activation_bytes"] / 2**20), flush=True)
        subprocess.run([lab.exe("fovea"), "run", model, picture, "--size", str(DEMO), "--overlay",
                        os.path.join(folder, name + ".png"), "--json"], stdout=subprocess.DEVNULL, check=True)
    print("\nClasses laid over the first: %s/softmax.png, %s/linear.png" % (folder, folder))


WHAT = {"models": models, "linear": linear, "ablation": ablation, "demo": demo}


def main(build, what):
    WHAT[what](Lab(build))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in WHAT:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
