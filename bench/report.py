#!/usr/bin/env python3
"""report.py: draws results of `fovea bench` and `fovea eval` by size, and logs of `fovea adapt`.

    report.py today.jsonl picture.svg      # the file is written by -o json or jsonl
    report.py OUT/log.jsonl loss.svg

For every attention that was timed with softmax it prints the size from which it is faster. Needs gnuplot.
"""
import json
import math
import subprocess
import sys

SIZES = "width", "height", "tokens"
STYLE = """set terminal svg size 1080,470 font "sans-serif,13" noenhanced rounded background rgb "white"
set border 3
set grid y lc rgb "#dddddd" lt 1
set key outside bottom center horizontal Left reverse
set tics nomirror out scale 0.5
set linetype 1 lc rgb "#0072b2"
set linetype 2 lc rgb "#d55e00"
set linetype 3 lc rgb "#009e73"
set linetype 4 lc rgb "#cc79a7"
set linetype 5 lc rgb "#e69f00"
set linetype 6 lc rgb "#56b4e9"
"""
MS, MIB = "time, ms", "peak memory without the weights, MiB"


def read(path):
    """The objects in a file: one per line, or one array."""
    with open(path) as f:
        text = f.read()
    found = json.loads(text) if text[:1] == "[" else [json.loads(line) for line in text.splitlines() if line]
    if not found or not all(isinstance(x, dict) for x in found):
        raise ValueError("%s: no results of bench or eval, and no log of adapt" % path)
    return found


def extent(result):
    p = result["params"]
    return p["width"] * p["height"] if "width" in p else p.get("tokens", 0)


def size_name(result):
    p = result["params"]
    if "width" not in p:
        return "%d" % p["tokens"]
    return "%d\u00b2" % p["width"] if p["width"] == p["height"] else "%d\u00d7%d" % (p["width"], p["height"])


def setting(result, *without):
    return {k: v for k, v in result["params"].items() if k not in without}


def series_of(results):
    """{name: results sorted by size}. A name consists of the attention and of the other settings that differ between
    results. Of two results for the same case the later one is used."""
    keys = {k for r in results for k in r["params"]}
    varied = sorted(k for k in keys if k not in SIZES and len({json.dumps(r["params"].get(k)) for r in results}) > 1)
    series = {}
    for r in results:
        p = r["params"]
        words = [p.get("attention") or p["what"]] + ["%s %s" % (k, p.get(k)) for k in varied if k != "attention"]
        series.setdefault(", ".join(words), {})[extent(r)] = r
    return {name: [own[x] for x in sorted(own)] for name, own in series.items()}


# ---- the size from which an attention is faster than softmax ----


def crossover(softmax, own):
    """A sentence about an attention's results, compared with softmax's times by size; None: they have no size
    in common."""
    leads = [(extent(r), softmax[extent(r)] / r["p50_ms"]) for r in own if extent(r) in softmax]
    if not leads:
        return None
    unit = "pixels" if "width" in own[0]["params"] else "tokens"
    slower = [i for i, (_, lead) in enumerate(leads) if lead < 1]
    if not slower:
        return "faster than softmax from %d %s or fewer" % (leads[0][0], unit)
    last = slower[-1]
    if last + 1 == len(leads):
        return "slower than softmax up to %d %s" % (leads[-1][0], unit)
    (below, low), (above, high) = leads[last], leads[last + 1]
    at = below * (above / below) ** (math.log(low) / (math.log(low) - math.log(high)))
    return "faster than softmax from about %d %s (between %d and %d)" % (at, unit, below, above)


def crossovers(series):
    for name, own in series.items():
        if own[0]["params"].get("attention", "softmax") == "softmax":
            continue
        like = setting(own[0], "attention", *SIZES)
        softmax = {extent(r): r["p50_ms"] for other in series.values() for r in other
                   if r["params"].get("attention") == "softmax" and setting(r, "attention", *SIZES) == like}
        said = crossover(softmax, own)
        if said:
            yield "%s: %s" % (name, said)


# ---- gnuplot's language ----


def quoted(text):
    """A quoted string for gnuplot. Results may come from any file, so nothing in them may end the line or
    become a command in backquotes."""
    plain = "".join(" " if c < " " else "'" if c == "`" else c for c in text)
    return '"%s"' % plain.replace("\\", "\\\\").replace('"', '\\"')


def panel(title, curves, linear=False):
    """curves: [(name or None, style, [(x, y)])]. On a logarithmic axis only positive values are drawn."""
    blocks, drawn, heights = [], [], []
    for i, (name, style, points) in enumerate(curves):
        points = [(x, y) for x, y in points if linear or y > 0]
        if not points:
            continue
        blocks.append("$curve%d << EOD\n%sEOD\n" % (i, "".join("%.9g %.9g\n" % p for p in points)))
        drawn.append("$curve%d with %s %s" % (i, style, "title " + quoted(name) if name else "notitle"))
        heights += [y for _, y in points]
    if not drawn:
        raise ValueError("%s: nothing to draw" % title)
    low, high = min(heights), max(heights)
    margin = 0.08 * (high - low) + 1e-6
    ends = (low - margin, high + margin) if linear else (low / 1.5, high * 1.5)
    scale = "unset logscale y\nset ytics nomirror autofreq\n" if linear else \
        "set logscale y\nset ytics nomirror (%s)\n" % ", ".join("%de%d" % (d, p) for p in range(-6, 9) for d in (1, 2, 5))
    return "%sset format y \"%%g\"\n%sset yrange [%.9g:%.9g]\nset title %s\nplot %s\n" % (
        "".join(blocks), scale, *ends, quoted(title), ", ".join(drawn))


def page(title, axis, panels):
    return "set multiplot layout 1,%d title %s\n%s%sunset multiplot\n" % (
        len(panels), quoted(title), axis, "".join(panels))


def over_sizes(results, title, panels):
    """Draws curves over sizes. panels: [(title, function that gets the value from a result, one that gets the value
    announced by the plan or None, whether the axis is linear)]"""
    if not all(extent(r) for r in results) or len({r["params"].get("what") for r in results}) > 1:
        raise ValueError("cannot draw these results; give models, blocks, attentions or evaluations of "
                         "given sizes, one kind at a time")
    series = series_of(results)
    tics = ", ".join("%s %d" % (quoted(size_name(r)), extent(r)) for r in results)
    xs = [extent(r) for r in results]
    axis = "set logscale x\nset xtics nomirror rotate by -30 (%s)\nset xrange [%g:%g]\nset xlabel %s\n" % (
        tics, min(xs) / 1.15, max(xs) * 1.15, quoted("pixels" if "width" in results[0]["params"] else "tokens"))
    drawn = []
    for at, (name, of, promised, linear) in enumerate(panels):
        curves = []
        for i, (series_name, own) in enumerate(series.items(), 1):
            curves.append((None if at else series_name, "linespoints lw 2 pt 7 ps 0.5 lc %d" % i,
                           [(extent(r), of(r)) for r in own]))
            if promised:
                curves.append((None if i > 1 else "promised by the plan", "lines lw 1.5 dt 2 lc %d" % i,
                               [(extent(r), promised(r)) for r in own]))
        drawn.append(panel(name, curves, linear))
    return page(title, axis, drawn), list(crossovers(series)) if "p50_ms" in results[0] else []


def of_bench(results):
    first, env = results[0]["params"], results[0]["env"]

    def promised(r):
        return (r["peak_bytes"]["promised"] - r["peak_bytes"].get("weights", 0) * ("model" in r["params"])) / 2**20
    title = "%s: %s, %s" % (first.get("model") or first["what"], env["name"], env["isa"])
    return over_sizes(results, title, [(MS, lambda r: r["p50_ms"], None, False),
                                       (MIB, lambda r: r["peak_bytes"]["resident"] / 2**20, promised, False)])


def of_eval(results):
    first = next(k for k, v in results[0]["metrics"].items() if isinstance(v, (int, float)))
    title = "%s on %s, %d pictures" % (results[0]["params"]["model"], results[0]["params"]["data"],
                                       results[0]["pictures"])
    return over_sizes(results, title, [(first, lambda r: r["metrics"][first], None, True),
                                       (MS, lambda r: r["ms"], None, False)])


def of_log(lines):
    steps = [line for line in lines if "step" in line and "loss" in line]
    window = len(steps) // 50 if len(steps) > 250 else 5 if len(steps) > 10 else 1
    means = [sum(s["loss"] for s in steps[max(0, i + 1 - window):i + 1]) / min(window, i + 1)
             for i in range(len(steps))]
    at = [s["step"] for s in steps]
    return page("", "set xlabel \"step\"\n", [
        panel("loss", [("each step", "lines lc 6", list(zip(at, (s["loss"] for s in steps)))),
                       ("mean of %d steps" % window, "lines lw 2 lc 1", list(zip(at, means)))]),
        panel("learning rate", [(None, "lines lw 2 lc 2", [(s["step"], s["lr"]) for s in steps])], linear=True)]), []


def main(path, picture):
    found = read(path)
    bench, judged = ([r for r in found if r.get("schema") == schema] for schema in ("fovea.bench/1", "fovea.eval/1"))
    text, said = of_bench(bench) if bench else of_eval(judged) if judged else of_log(found)
    for line in said:
        print(line)
    script = STYLE + "set output %s\n" % quoted(picture) + text
    try:
        subprocess.run(["gnuplot"], input=script, text=True, check=True)
    except OSError:
        raise ValueError("gnuplot cannot be started; is gnuplot-nox installed?") from None


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except (ValueError, KeyError, OSError, subprocess.CalledProcessError) as e:
        sys.exit("report.py: %s" % e)
