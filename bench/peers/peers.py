#!/usr/bin/env python3
"""peers.py: the same vision transformer on Fovea and on the engines that people use, side by side.

    peers.py --model dinov2-b --size 518,1036          tables; progress on standard error
    peers.py --size 518 --precision f32                what all have, and nothing else
    peers.py --size 518 -o json -O r.json; peers.py --from r.json -o md

The model is DINOv2 with random weights from a seed, in a Hugging Face folder that Fovea and PyTorch read and
the ONNX graphs refer to. All run it with as many threads, once with softmax and once with linear attention
(ELU + 1): with float32 asked for, as the engine comes, in bfloat16 and in int8, as far as it has these. In
float32 all must give the same numbers; the others are told by the cosines of their rows with those of the same
engine in float32. Each engine is a process of its own for each precision; in every round each has a turn, while
the others are stopped. All are in memory at once. Engines that are not installed are named and left out;
bench/peers/peers.sh installs them. Fovea is FOVEA_LIBRARY of the environment, else build/src beside.

Exit status: 0; 1 when something is wrong with the command or Fovea fails; 3 when results differ.
"""
import argparse
import json
import os
import platform
import sys
import tempfile

import peer_engines
import peer_report

HERE = os.path.dirname(os.path.abspath(__file__))
BOUND = 1e-3  # of the largest value: what results of float32 may differ by
LEAST = 0.9   # mean cosine of rows in other precisions with those of float32: below it they are no rounding
WRONG = 3     # exit status
ROOM = 2      # of the largest engine so far: memory that must be left to open another
SHORT = 1.0   # seconds; runs that are shorter are repeated in a turn, and the first of a turn is not timed


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

    parser.add_argument("--model", default="dinov2-b", choices=["dinov2-s", "dinov2-b", "dinov2-l", "tiny"])
    parser.add_argument("--size", type=listed(None, int), default=[518, 1036], metavar="N,...",
                        help="pixels of a side (%(default)s)")
    parser.add_argument("--attention", type=listed(peer_engines.ATTENTIONS), metavar="NAME,...",
                        default=list(peer_engines.ATTENTIONS), help="softmax,linear")
    parser.add_argument("--precision", type=listed(peer_engines.PRECISIONS), metavar="NAME,...",
                        default=list(peer_engines.PRECISIONS),
                        help="f32, default (as the engine comes; not measured again where that is float32), bf16, "
                        "int8; all that an engine has")
    parser.add_argument("--peers", type=listed(names), default=names, metavar="NAME,...",
                        help="of " + ", ".join(names))
    parser.add_argument("--threads", type=int, default=2, help="of each engine (%(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and picture")
    parser.add_argument("--folder", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "peers"),
                        help="where models are kept (build/peers)")
    parser.add_argument("--list", action="store_true", help="name the engines and what is installed")
    parser.add_argument("--from", dest="earlier", metavar="FILE", help="show results of an earlier -o json")
    parser.add_argument("-o", "--output", choices=["text", "md", "json"], default="text")
    parser.add_argument("-O", "--output-file", metavar="FILE", help="instead of standard output")
    return parser.parse_args()


# ---- measuring ----

def environment():
    with open("/proc/cpuinfo") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return {"cpu": "%d x %s" % (os.cpu_count(), names[0] if names else platform.machine()),
            "system": platform.platform(), "python": platform.python_version(),
            "versions": {p.packages[0]: p.version() for p in peer_engines.PEERS
                         if p.name != "fovea" and not p.missing()}}


def jobs(options, checkpoint, size):
    """Those of one size that can run, and {what lacks packages: them}."""
    found, missing = [], {}
    for p in map(peer_engines.peer, options.peers):
        if p.missing():
            missing[p.name] = p.missing()
            continue
        precisions = {name: None for name in map(p.measured, options.precision) if name}
        for name in [name for name in precisions if p.missing(name)]:
            missing["%s, %s" % (p.name, name)] = p.missing(name)
            del precisions[name]
        found += [peer_engines.Job(p.name, checkpoint.folder, size, attention, precision, options.threads)
                  for attention in options.attention if attention in p.attentions for precision in precisions]
    return found, missing


def say(text):
    print(text, file=sys.stderr, flush=True)


def prepared(options):
    """The folder of the model, and of the picture for each size."""
    import numpy as np
    import vit_checkpoint
    folder = os.path.join(options.folder, "%s-%d" % (options.model, options.seed))
    if not os.path.exists(os.path.join(folder, "config.json")):
        say("%s ..." % folder)
        vit_checkpoint.write(folder, options.model, options.seed)
    checkpoint = vit_checkpoint.Checkpoint(folder)
    pictures = {}
    for size in options.size:
        if size % checkpoint.patch:
            raise SystemExit("peers.py: %d is no multiple of %d, the patch size" % (size, checkpoint.patch))
        pictures[size] = os.path.join(folder, "pixels-%d.npy" % size)
        np.save(pictures[size], vit_checkpoint.picture(size, options.seed + size))
    return checkpoint, pictures


def available():
    """Bytes of memory."""
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))


def opened(job, picture, scratch, room):
    """A case and its process; without one where the engine fails, or less than `room` bytes are left."""
    import peer_process
    case = {"peer": job.peer, "size": job.size, "attention": job.attention, "precision": job.precision}
    name = "%s, %s, %s" % (job.peer, job.attention, peer_engines.PRECISIONS[job.precision])
    try:
        if available() < room:
            raise peer_process.Failed("no memory is left for it: name fewer at once by --precision and --peers")
        process = peer_process.Process(job, picture, scratch)
    except peer_process.Failed as e:
        case["error"] = str(e)
        say("  %s: %s" % (name, e))
        return case, None
    case.update(process.opened, seconds=[])
    say("  %s: opened in %.1f s, first run %.2f s" % (name, case["open_s"], case["first_s"]))
    return case, process


def rounds(running, count, weights):
    """Turns, all engines in each round, the order moved by one from round to round."""
    for i in range(count if running else 0):
        shift = i % len(running)
        for case, process in running[shift:] + running[:shift]:
            last = case["seconds"][-1][-1] if case["seconds"] else case["first_s"]
            runs = max(1, min(5, int(SHORT / last)))
            answer = process.turn(runs, warm=last < SHORT)
            case["seconds"].append(answer["seconds"])
            case["memory"] = {"process": answer["highest"]}
            if case["precision"] == "f32":  # in others weights have other sizes
                case["memory"]["run"] = max(0, answer["running"] - case["before"] - weights)
        say("  round %d of %d" % (i + 1, count))


def difference(rows, want):
    """The largest one, by the largest value."""
    import numpy as np
    if rows.shape != want.shape or not np.isfinite(rows).all():
        return 1.0
    return float(abs(rows - want).max() / abs(want).max())


def cosine(rows, want):
    """Of each row with the one that is wanted: the mean and the worst; -1 for results that are none."""
    import numpy as np
    if rows.shape != want.shape or not np.isfinite(rows).all():
        return {"mean": -1.0, "worst": -1.0}
    rows, want = rows.astype(np.float64), want.astype(np.float64)
    cosines = (rows * want).sum(1) / np.sqrt((rows * rows).sum(1) * (want * want).sum(1))
    return {"mean": float(cosines.mean()), "worst": float(cosines.min())}


def compare(running):
    """Results of float32 with those of the first engine, others with those of the same engine in float32."""
    import numpy as np
    rows = {(case["peer"], case["attention"], case["precision"]): np.load(process.rows)
            for case, process in running}
    first = {}
    for case, _ in running:
        peer, attention, precision = case["peer"], case["attention"], case["precision"]
        mine, own = rows[peer, attention, precision], rows.get((peer, attention, "f32"))
        if precision == "f32":
            case["difference"] = difference(mine, first.setdefault(attention, mine))
        elif own is not None:
            case["cosine"] = cosine(mine, own)


def measure(options):
    checkpoint, pictures = prepared(options)
    _, missing = jobs(options, checkpoint, options.size[0])
    result = {"model": options.model, "threads": options.threads, "seed": options.seed, "sizes": options.size,
              "environment": environment(), "weights": checkpoint.bytes,
              "tokens": {str(size): checkpoint.tokens(size) for size in options.size},
              "missing": missing, "cases": []}
    for size in options.size:
        say("%d pixels" % size)
        running = []
        with tempfile.TemporaryDirectory() as scratch:
            try:
                largest = 0
                for job in jobs(options, checkpoint, size)[0]:
                    case, process = opened(job, pictures[size], scratch, ROOM * largest)
                    result["cases"].append(case)
                    if process:
                        running.append((case, process))
                        largest = max(largest, case["highest"])
                compare(running)
                rounds(running, options.rounds, checkpoint.bytes)
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
            result = json.load(f)
    else:
        result = measure(options)
    shown = {"text": peer_report.text, "md": peer_report.markdown,
             "json": lambda r: json.dumps(r, indent=1) + "\n"}[options.output](result)
    with open(options.output_file, "w") if options.output_file else os.fdopen(os.dup(1), "w") as f:
        f.write(shown)
    if any(c["peer"] == "fovea" and "error" in c for c in result["cases"]):
        return 1
    wrong = (c.get("difference", 0) > BOUND or c.get("cosine", {"mean": 1})["mean"] < LEAST
             for c in result["cases"])
    return WRONG if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
