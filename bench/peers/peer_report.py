"""peer_report.py: what peers.py measured, as text or Markdown. A ratio above 1 says that Fovea is faster."""
import statistics

import peer_engines

MIB = 2 ** 20


def _median(case):
    return statistics.median(s for turn in case["seconds"] for s in turn)


def _ratio(case, fovea):
    """Median over the rounds of this engine's time divided by Fovea's in the same round."""
    pairs = zip(case["seconds"], fovea["seconds"])
    return statistics.median(statistics.median(a) / statistics.median(b) for a, b in pairs)


def _time(seconds):
    return "%.0f ms" % (seconds * 1e3) if seconds < 1 else "%.2f s" % seconds


def _precision(peer, case):
    """The name of the case in a table."""
    words = peer_engines.PRECISIONS
    name = words[case["precision"]]
    if case["precision"] == "f32" and "default" not in peer.precisions:
        return "%s, %s" % (name, words["default"])
    says = {"default": "%s: %s", "int8": "%s, else %s"}.get(case["precision"])
    return says % (name, case["says"]) if says and case.get("says") else name


class Table:
    """The results for one picture size and one attention."""

    def __init__(self, result, size, attention):
        self.cases = {(c["peer"], c["precision"]): c for c in result["cases"]
                      if c["size"] == size and c["attention"] == attention}

    def case(self, peer, precision):
        """The result of an engine; None if it has none, or failed."""
        case = self.cases.get((peer.name, peer.measured(precision)), {"error": ""})
        return None if "error" in case else case

    def fovea(self, precision):
        return self.case(peer_engines.peer("fovea"), precision)

    def others(self, precisions):
        cases = (self.case(p, precision) for p in peer_engines.PEERS if p.name != "fovea"
                 for precision in precisions)
        return [c for c in cases if c]

    def rows(self):
        for peer in peer_engines.PEERS:
            for precision in peer_engines.PRECISIONS:
                case = self.cases.get((peer.name, precision))
                if case:
                    yield [peer.about, _precision(peer, case), *self._cells(case)]

    def _cells(self, case):
        if "error" in case:
            return ["fails"] + [""] * 5
        fovea, memory, cosine = self.fovea(case["precision"]), case["memory"], case.get("cosine")
        return [_time(_median(case)),
                "%.2f" % _ratio(case, fovea) if fovea and case["peer"] != "fovea" else "",
                "%.5f" % cosine["mean"] if cosine else "", "%.5f" % cosine["worst"] if cosine else "",
                "%.0f" % (memory["run"] / MIB) if "run" in memory else "", "%.0f" % (memory["process"] / MIB)]


HEAD = ["", "precision", "time", "ratio", "cosine", "worst row", "run MiB", "process MiB"]
WORDS = 2  # number of columns with text, which precede those with numbers
# Fovea's precision, and those of the others that it is compared with.
RIVALS = (("f32", ("f32",)), ("default", ("default",)), ("bf16", ("default", "bf16")), ("int8", ("int8",)))


def _verdicts(tables):
    """Fovea compared with the best of the others: (what, ratio, engine) for every comparison that was measured."""
    words = peer_engines.PRECISIONS
    for mine, theirs in (("softmax", "softmax"), ("linear", "linear"), ("linear", "softmax"),
                         (peer_engines.OWN, peer_engines.OWN), ("linear", peer_engines.OWN)):
        shown = []
        for kind, rivals in RIVALS:
            fovea = mine in tables and tables[mine].fovea(kind)
            best = min(tables[theirs].others(rivals) if theirs in tables else [], key=_median, default=None)
            if not fovea or not best or (fovea, best) in shown:
                continue
            shown.append((fovea, best))
            how = words[kind] if kind in rivals[:1] else "%s against %s" % (
                words[kind], " or ".join(words[r] for r in rivals))
            yield ("%s against their %s, %s" % (mine, theirs, how), _ratio(best, fovea),
                   peer_engines.peer(best["peer"]).about)
    for attention, table in tables.items():
        exact = table.fovea("f32")
        for kind in ("bf16", "int8"):
            fovea = table.fovea(kind)
            if exact and fovea:
                yield "%s, %s against float32" % (attention, words[kind]), _ratio(exact, fovea), "Fovea's own"
    for attention, table in tables.items():
        fovea, others = table.fovea("f32"), table.others(["f32"])
        if fovea and others:
            least = min(others, key=lambda c: c["memory"]["run"])
            ratio = least["memory"]["run"] / max(1, fovea["memory"]["run"])
            yield "memory with %s, float32" % attention, ratio, peer_engines.peer(least["peer"]).about


def _text_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (c.ljust(w) if i < WORDS else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths)))
        yield "  ".join(cells).rstrip()


def _markdown_table(rows):
    yield "| %s |" % " | ".join(rows[0])
    yield "|%s%s" % ("---|" * WORDS, "---:|" * (len(rows[0]) - WORDS))
    for row in rows[1:]:
        yield "| %s |" % " | ".join(row)


def _seen(result, size, attention):
    tokens = result["tokens"].get(str(size))
    words = ["" if attention == peer_engines.OWN else attention, "%d pixels" % size,
             "%d tokens" % tokens if tokens else ""]
    return ", ".join(filter(None, words))


def _lines(result, table, title):
    environment = result["environment"]
    yield "%s, %d threads on %s%s; %s" % (
        result["model"], result["threads"], environment["cpu"], "" if result["amx"] else ", without AMX",
        ", ".join("%s %s" % (name, version) for name, version in environment["versions"].items()))
    for size in result["sizes"]:
        tables = {attention: Table(result, size, attention)
                  for attention in (*peer_engines.ATTENTIONS, peer_engines.OWN)}
        tables = {attention: t for attention, t in tables.items() if t.cases}
        for attention, t in tables.items():
            yield ""
            yield title % _seen(result, size, attention)
            yield ""
            yield from table([HEAD, *t.rows()])
        yield ""
        for what, ratio, who in _verdicts(tables):
            yield "%s: %.2f (%s)" % (what, ratio, who)
    yield ""
    differences = [c["difference"] for c in result["cases"] if "difference" in c]
    if differences:
        yield "Results of float32 differ by %.1e of the largest value at most." % max(differences)
    yield "Ratio: their time by Fovea's of the same kind in the same round, median."
    yield ("Cosine: of the rows of the output with those of the same engine in float32, mean; "
           "weights and picture are random.")
    yield ("Run: memory while running, weights (%.0f MiB) and what was there before the model left out; "
           "process: its whole peak, loading included." % (result["weights"] / MIB))
    for missing, packages in result["missing"].items():
        yield "Not installed: %s (pip install %s)." % (missing, " ".join(packages))
    for c in result["cases"]:
        if "error" in c:
            yield "Fails: %s, %d pixels, %s, %s: %s" % (c["peer"], c["size"], c["attention"], c["precision"],
                                                        c["error"])


def text(result):
    return "\n".join(_lines(result, _text_table, "%s")) + "\n"


def markdown(result):
    return "\n".join(_lines(result, _markdown_table, "### %s")) + "\n"
