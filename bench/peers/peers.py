#!/usr/bin/env python3
"""peers.py: the same model on Fovea and on other engines, compared.

    peers.py --model dinov2-b --size 518,1036          tables; progress on standard error
    peers.py --size 518 --precision f32                only the precision that all engines have
    peers.py --model depth-anything-s,rf-detr,vitpose-s --precision f32,default,int8
    peers.py --model mavit-t,pola-swin-t --official FOLDER      FOLDER has their authors' code
    peers.py --size 518 -o json -O r.json; peers.py --from r.json -o md

A DINOv2 has random weights from a seed, in a Hugging Face folder that Fovea and PyTorch read and the ONNX graphs
refer to. It runs once with softmax and once with linear attention (ELU + 1). The other models are for tasks, and
keep their own attention; bench/peers/task_models.py makes them. All engines get the same number of threads. They
run in float32, in their default precision, in bfloat16 and in int8, as far as they support these. In float32 all
must give the same numbers. For other precisions the report gives the cosines of an engine's rows with its own rows
in float32.

Each engine runs in a separate process for each precision, and all processes are in memory at once. In every round
they run one after the other, while the others are stopped. Engines that are not installed are named and left out;
bench/peers/peers.sh installs them. Fovea's library is the environment's FOVEA_LIBRARY, else the one in build/src.

Intel's server processors have AMX, which processors of edge devices do not have, and which Fovea does not use: with
--no-amx the kernel refuses it to all engines.

Exit status: 0; 1 when something is wrong with the command or Fovea fails; 3 when results differ.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile

import peer_engines
import peer_report
import task_models

HERE = os.path.dirname(os.path.abspath(__file__))
BOUND = 1e-3  # largest difference between results in float32, relative to the largest value
# least mean cosine between rows in other precisions and in float32; rounding errors alone stay
# above it
LEAST = 0.9
WRONG = 3     # exit status
NEEDED = 2    # times the memory of the largest engine so far that must be free to open another
# seconds; shorter runs are repeated within a turn, and the first run of a turn is not timed
SHORT = 1.0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [p.name for p in peer_engines.PEERS]

    def listed(known, of=str):
        def parse(text):
            values = [of(x) for x in text.split(",")]
            unknown = [x for x in values if known and x not in known]
            if unknown:
                raise argparse.ArgumentTypeError("%s: choose from %s" % (unknown[0], ", ".join(known)))
            return values
        return parse

    models = ["dinov2-s", "dinov2-b", "dinov2-l", "tiny", *task_models.TASKS]
    parser.add_argument("--model", type=listed(models), default=["dinov2-b"], metavar="NAME,...",
                        help="of " + ", ".join(models))
    parser.add_argument("--size", type=listed(None, int), metavar="N,...",
                        help="sides of pictures in pixels (518,1036; for a model of a task its own size)")
    parser.add_argument("--attention", type=listed(peer_engines.ATTENTIONS), metavar="NAME,...",
                        help="softmax,linear; a model of a task keeps its own, and linear adds Fovea with "
                             "linear attention")
    parser.add_argument("--precision", type=listed(peer_engines.PRECISIONS), metavar="NAME,...",
                        default=list(peer_engines.PRECISIONS),
                        help="f32, default (as the engine comes; not measured again where that is float32), bf16, "
                        "int8; all that an engine has")
    parser.add_argument("--peers", type=listed(names), default=names, metavar="NAME,...",
                        help="of " + ", ".join(names))
    parser.add_argument("--official", metavar="FOLDER", default="",
                        help="where checkouts of MALA and PolaFormer are, for mavit-t, pola-swin-t and pola-pvt-t")
    parser.add_argument("--no-amx", dest="amx", action="store_false", help="do not let engines use AMX")
    parser.add_argument("--threads", type=int, default=2, help="threads of each engine (%(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="number of rounds (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random weights and pictures")
    parser.add_argument("--folder", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "peers"),
                        help="folder for the models (build/peers)")
    parser.add_argument("--list", action="store_true", help="list the engines, and which of them are installed")
    parser.add_argument("--from", dest="earlier", metavar="FILE", help="show results of an earlier -o json")
    parser.add_argument("-o", "--output", choices=["text", "md", "json"], default="text")
    parser.add_argument("-O", "--output-file", metavar="FILE", help="file for the results instead of standard output")
    return parser.parse_args()


# ---- measuring ----

def environment():
    with open("/proc/cpuinfo") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return {"cpu": "%d x %s" % (os.cpu_count(), names[0] if names else platform.machine()),
            "system": platform.platform(), "python": platform.python_version(),
            "versions": {p.packages[0]: p.version() for p in peer_engines.PEERS
                         if p.name != "fovea" and not p.missing()}}


def attentions(options, p, task):
    """The attentions of an engine. The graph of a task's model has one."""
    if not task:
        return [a for a in options.attention or peer_engines.ATTENTIONS if a in p.attentions]
    linear = p.name == "fovea" and "linear" in (options.attention or [])
    return [a for a in (peer_engines.OWN, *(["linear"] if linear else [])) if a in p.attentions]


def jobs(options, model, folder, size):
    """The engines for one size that can run, and {missing packages: engines that lack them}."""
    found, missing = [], {}
    for p in map(peer_engines.peer, options.peers):
        if p.missing():
            missing[p.name] = p.missing()
            continue
        precisions = {name: None for name in map(p.measured, options.precision) if name}
        for name in [name for name in precisions if p.missing(name)]:
            missing["%s, %s" % (p.name, name)] = p.missing(name)
            del precisions[name]
        task = model if model in task_models.TASKS else ""
        found += [peer_engines.Job(p.name, folder, size, attention, precision, options.threads, task,
                                   options.official, options.amx)
                  for attention in attentions(options, p, task) for precision in precisions]
    return found, missing


def say(text):
    print(text, file=sys.stderr, flush=True)


class Model:
    """The inputs of a measurement: a checkpoint, and a picture for each size."""

    def __init__(self, options, name):
        self.name, self.task = name, task_models.TASKS.get(name)
        self.folder = os.path.join(options.folder, "%s-%d" % (name, options.seed))
        self.sizes = options.size or ([self.task.size] if self.task else [518, 1036])
        (self._of_a_task if self.task else self._alone)(options)

    def _alone(self, options):
        import vit_checkpoint
        if not os.path.exists(os.path.join(self.folder, "config.json")):
            say("%s ..." % self.folder)
            vit_checkpoint.write(self.folder, self.name, options.seed)
        checkpoint = vit_checkpoint.Checkpoint(self.folder)
        for size in self.sizes:
            if size % checkpoint.patch:
                raise SystemExit("peers.py: %d is not a multiple of %d, the patch size" % (size, checkpoint.patch))
        self.bytes = checkpoint.bytes
        self.tokens = {str(size): checkpoint.tokens(size) for size in self.sizes}
        self._picture = vit_checkpoint.picture

    def _of_a_task(self, options):
        lacks = self.task.missing(options.official)
        if lacks:
            raise SystemExit("peers.py: %s needs %s" % (self.name, ", ".join(lacks)))
        for size in self.sizes:
            if not os.path.exists(task_models.graph(self.folder, size)):
                say("%s ..." % task_models.graph(self.folder, size))
                made = subprocess.run([sys.executable, task_models.__file__, self.name, self.folder, str(size),
                                       options.official], stdout=subprocess.DEVNULL)
                if made.returncode:
                    raise SystemExit("peers.py: %s could not be made" % self.name)
        self.bytes = os.path.getsize(os.path.join(self.folder, "model.safetensors"))
        self.tokens = {}
        self._picture = lambda size, seed: task_models.picture(self.name, size, seed)

    def picture(self, size, seed):
        """The path of the picture's pixels."""
        import numpy as np
        path = os.path.join(self.folder, "pixels-%d.npy" % size)
        np.save(path, self._picture(size, seed + size))
        return path


def available():
    """Free memory in bytes."""
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))


def opened(job, picture, scratch, needed):
    """A case and its process. The process is None if the engine fails, or if less than `room` bytes are free."""
    import peer_process
    case = {"peer": job.peer, "size": job.size, "attention": job.attention, "precision": job.precision}
    name = "%s, %s, %s" % (job.peer, job.attention, peer_engines.PRECISIONS[job.precision])
    try:
        if available() < needed:
            raise peer_process.Failed("not enough memory for it; name fewer at once with --precision and --peers")
        process = peer_process.Process(job, picture, scratch)
    except peer_process.Failed as e:
        case["error"] = str(e)
        say("  %s: %s" % (name, e))
        return case, None
    case.update(process.opened, seconds=[])
    say("  %s: opened in %.1f s, first run %.2f s" % (name, case["open_s"], case["first_s"]))
    return case, process


def rounds(running, count, weights):
    """Measures: every round runs all engines, and their order is rotated from round to round."""
    for i in range(count if running else 0):
        shift = i % len(running)
        for case, process in running[shift:] + running[:shift]:
            last = case["seconds"][-1][-1] if case["seconds"] else case["first_s"]
            runs = max(1, min(5, int(SHORT / last)))
            answer = process.turn(runs, warm=last < SHORT)
            case["seconds"].append(answer["seconds"])
            case["memory"] = {"process": answer["highest"]}
            if case["precision"] == "f32":  # other precisions have weights of other sizes
                case["memory"]["run"] = max(0, answer["running"] - case["before"] - weights)
        say("  round %d of %d" % (i + 1, count))


def difference(rows, want):
    """The largest difference, relative to the largest value."""
    import numpy as np
    if rows.shape != want.shape or not np.isfinite(rows).all():
        return 1.0
    return float(abs(rows - want).max() / abs(want).max())


def cosine(rows, want):
    """The cosine of each row with the expected one: mean and worst; -1 if rows are not numbers."""
    import numpy as np
    if rows.shape != want.shape or not np.isfinite(rows).all():
        return {"mean": -1.0, "worst": -1.0}
    rows, want = rows.astype(np.float64), want.astype(np.float64)
    cosines = (rows * want).sum(1) / np.sqrt((rows * rows).sum(1) * (want * want).sum(1))
    return {"mean": float(cosines.mean()), "worst": float(cosines.min())}


def compare(running, model, size):
    """Compares float32 results with those of the first engine, and other results with those of the same engine
    in float32."""
    import numpy as np
    rows = {}
    for case, process in running:
        got = np.load(process.rows)
        rows[case["peer"], case["attention"], case["precision"]] = model.task.compared(got, size) if model.task else got
    first = {}
    for case, _ in running:
        peer, attention, precision = case["peer"], case["attention"], case["precision"]
        mine, own = rows[peer, attention, precision], rows.get((peer, attention, "f32"))
        if precision == "f32" and model.task and model.task.ranked:
            # With random weights scores are nearly equal, so that engines choose different queries
            # even in float32.
            case["cosine"] = cosine(mine, first.setdefault(attention, mine))
        elif precision == "f32":
            case["difference"] = difference(mine, first.setdefault(attention, mine))
        elif own is not None:
            case["cosine"] = cosine(mine, own)


def measure(options, name):
    model = Model(options, name)
    _, missing = jobs(options, name, model.folder, model.sizes[0])
    result = {"model": name, "threads": options.threads, "seed": options.seed, "sizes": model.sizes,
              "amx": options.amx, "environment": environment(), "weights": model.bytes, "tokens": model.tokens,
              "missing": missing, "cases": []}
    for size in model.sizes:
        say("%s, %d pixels" % (name, size))
        running = []
        with tempfile.TemporaryDirectory() as scratch:
            try:
                largest = 0
                picture = model.picture(size, options.seed)
                for job in jobs(options, name, model.folder, size)[0]:
                    case, process = opened(job, picture, scratch, NEEDED * largest)
                    result["cases"].append(case)
                    if process:
                        running.append((case, process))
                        largest = max(largest, case["highest"])
                compare(running, model, size)
                rounds(running, options.rounds, model.bytes)
            finally:
                for _, process in running:
                    process.close()
    return result


# ---- the program ----

def main():
    options = arguments()
    if options.list:
        for p in peer_engines.PEERS:
            missing = p.missing()
            state = "not installed: " + ", ".join(missing) if missing else p.version()
            print(("%-20s %-40s %s" % (p.name, p.about, state)).rstrip())
        return 0
    if options.earlier:
        with open(options.earlier) as f:
            results = json.load(f)
    else:
        results = [measure(options, name) for name in options.model]
    if options.output == "json":
        shown = json.dumps(results, indent=1) + "\n"
    else:
        form = {"text": peer_report.text, "md": peer_report.markdown}[options.output]
        shown = "\n".join(map(form, results))
    with open(options.output_file, "w") if options.output_file else os.fdopen(os.dup(1), "w") as f:
        f.write(shown)
    cases = [c for result in results for c in result["cases"]]
    if any(c["peer"] == "fovea" and "error" in c for c in cases):
        return 1
    wrong = (c.get("difference", 0) > BOUND or c.get("cosine", {"mean": 1})["mean"] < LEAST for c in cases)
    return WRONG if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
