"""run_lengths.py: masks as COCO's tools store them. Standard library only."""


def unpacked(counts):
    """Decodes COCO's compressed run lengths: pixels outside and inside of the mask in turn, column by column."""
    runs, at = [], 0
    while at < len(counts):
        value, shift, more = 0, 0, True
        while more:
            c = ord(counts[at]) - 48
            value |= (c & 31) << shift
            more, at, shift = bool(c & 32), at + 1, shift + 5
            if not more and c & 16:
                value |= -1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
    return runs
