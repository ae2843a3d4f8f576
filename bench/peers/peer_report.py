"""peer_report.py: what peers.py measured, as text or Markdown. A ratio above 1 says that Fovea is faster."""
import statistics

import peer_engines

MIB = 2 ** 20


def _median(case):
    return statistics.median(s for turn in case["seconds"] for s in turn)


def _ratio(case, fovea):
    """Median over the rounds of this engine's time by Fovea's in the same round."""
    pairs = zip(case["seconds"], fovea["seconds"])
    return statistics.median(statistics.median(a) / statistics.median(b) for a, b in pairs)


def _time(seconds):
    return "%.0f ms" % (seconds * 1e3) if seconds < 1 else "%.2f s" % seconds


class Size:
    """The results for one picture size."""

    def __init__(self, result, size):
        self.size, self.tokens = size, result["tokens"][str(size)]
        self.cases = {(c["peer"], c["attention"]): c for c in result["cases"] if c["size"] == size}
        self.good = {key: c for key, c in self.cases.items() if "error" not in c}

    def fovea(self, attention):
        return self.good.get(("fovea", attention))

    def best(self, attention):
        """The fastest of the others; None where there is none."""
        others = [c for (name, a), c in self.good.items() if a == attention and name != "fovea"]
        return min(others, key=_median, default=None)

    def row(self, peer):
        cells = [peer.about]
        for attention in peer_engines.ATTENTIONS:
            case, fovea = self.good.get((peer.name, attention)), self.fovea(attention)
            if case is None:
                failed = (peer.name, attention) in self.cases
                cells += ["fails" if failed else "", "", "", ""]
                continue
            cells += [_time(_median(case)),
                      "%.2f" % _ratio(case, fovea) if fovea and peer.name != "fovea" else "",
                      "%.0f" % (case["memory"]["run"] / MIB), "%.0f" % (case["memory"]["process"] / MIB)]
        return cells

    def verdicts(self):
        """Fovea against the best of the others: (what, ratio, who) of every comparison that was measured."""
        for mine, theirs in (("softmax", "softmax"), ("linear", "linear"), ("linear", "softmax")):
            fovea, best = self.fovea(mine), self.best(theirs)
            if fovea and best:
                about = peer_engines.peer(best["peer"]).about
                yield "%s against their %s" % (mine, theirs), _ratio(best, fovea), about
        for attention in peer_engines.ATTENTIONS:
            fovea = self.fovea(attention)
            others = [c for (name, a), c in self.good.items() if a == attention and name != "fovea"]
            if fovea and others:
                least = min(others, key=lambda c: c["memory"]["run"])
                ratio = least["memory"]["run"] / max(1, fovea["memory"]["run"])
                yield "memory with %s" % attention, ratio, peer_engines.peer(least["peer"]).about


HEAD = ["", "softmax", "ratio", "run MiB", "process MiB", "linear", "ratio", "run MiB", "process MiB"]


def _text_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()


def _markdown_table(rows):
    yield "| %s |" % " | ".join(rows[0])
    yield "|---%s" % ("|---:" * (len(rows[0]) - 1)) + "|"
    for row in rows[1:]:
        yield "| %s |" % " | ".join(row)


def _lines(result, table, title):
    environment = result["environment"]
    yield "%s, float32, %d threads on %s; %s" % (
        result["model"], result["threads"], environment["cpu"],
        ", ".join("%s %s" % (name, version) for name, version in environment["versions"].items()))
    for size in result["sizes"]:
        s = Size(result, size)
        yield ""
        yield title % "%d pixels, %d tokens" % (size, s.tokens)
        yield ""
        shown = [p for p in peer_engines.PEERS if any(key[0] == p.name for key in s.cases)]
        yield from table([HEAD] + [s.row(p) for p in shown])
        yield ""
        for what, ratio, who in s.verdicts():
            yield "%s: %.2f (%s)" % (what, ratio, who)
    yield ""
    worst = max((c["difference"] for c in result["cases"] if "difference" in c), default=0)
    yield "Results differ by %.1e of the largest value at most." % worst
    yield ("Ratio: their time by Fovea's in the same round, median. Run: memory while running, weights (%.0f MiB)"
           " and what was there before the model left out; process: its whole peak, loading included."
           % (result["weights"] / MIB))
    for missing, packages in result["missing"].items():
        yield "Not installed: %s (pip install %s)." % (missing, " ".join(packages))
    for c in result["cases"]:
        if "error" in c:
            yield "Fails: %s, %d pixels, %s: %s" % (c["peer"], c["size"], c["attention"], c["error"])


def text(result):
    return "\n".join(_lines(result, _text_table, "%s")) + "\n"


def markdown(result):
    return "\n".join(_lines(result, _markdown_table, "### %s")) + "\n"
