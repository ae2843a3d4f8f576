"""names.py: names of attentions, for a model or block by block, as `fovea --attention` accepts them."""
import collections
import re

MAPS = ("elu1", "relu", "exp", "softplus", "softmax")  # of linear
MALA_MAPS = ("elu1", "relu", "exp")
# those without a choice of feature map
ALONE = ("pola", "nala", "nala-paper", "hedgehog", "focused")
MARGIN, MARGIN_MOST = 4, 64  # of foveated, in tokens: default and maximum

# kind: softmax, foveated, linear, mala, mala-paper or one of ALONE; map: feature map of linear,
# mala and mala-paper; gated: whether the name begins with "sla-"; margin: of foveated, in tokens
Name = collections.namedtuple("Name", "kind map gated margin")


def attentions():
    """All names without the prefix sla-, which all of them accept except softmax and foveated."""
    mala, paper = ([kind] + [kind + ":" + m for m in MALA_MAPS[1:]] for kind in ("mala", "mala-paper"))
    return ["softmax", *("linear:" + m for m in MAPS), *mala, *ALONE, *paper, "foveated"]


def _unknown(text):
    return ValueError("attention %r is not supported; choose %s, foveated:4 with 1 to %d tokens of "
                      "margin; all but softmax and foveated may have the prefix sla-"
                      % (text, ", ".join(attentions()), MARGIN_MOST))


def parse(text):
    """Parses "linear:elu1", "sla-mala", "foveated:4" and so on to a Name. ValueError lists the names."""
    gated = text.startswith("sla-")
    kind, _, chosen = text[4 * gated:].partition(":")
    chosen = "elu1" if chosen == "elu+1" else chosen
    if kind == "foveated" and not gated:
        margin = chosen if ":" in text else str(MARGIN)
        if re.fullmatch("[0-9]{1,3}", margin) and 1 <= int(margin) <= MARGIN_MOST:
            return Name(kind, None, False, int(margin))
    elif kind in ("linear", "mala", "mala-paper"):
        if (chosen or "elu1") in (MAPS if kind == "linear" else MALA_MAPS):
            return Name(kind, chosen or "elu1", gated, 0)
    elif kind in ALONE and ":" not in text or text == "softmax":
        return Name(kind, None, gated, 0)
    raise _unknown(text)


def plain(text):
    """A name as Fovea writes it: "linear" is "linear:elu1"."""
    name = parse(text)
    base = name.kind
    if name.kind == "foveated" and name.margin != MARGIN:
        base += ":%d" % name.margin
    if name.kind in ("linear", "mala-paper") or name.map not in (None, "elu1"):
        base += ":" + name.map
    return "sla-" * name.gated + base


def _range(piece, text, blocks):
    """The range of blocks for "3", "0-3" or "8-"."""
    parts = re.fullmatch("([0-9]{1,6})(-([0-9]{1,6})?)?", text)
    if not parts:
        raise ValueError("attention %r: blocks must be a number, a range such as 0-3, or 8- for all from "
                         "8 on" % piece)
    first = int(parts[1])
    last = first if parts[2] is None else blocks - 1 if parts[3] is None else int(parts[3])
    if not first <= last < blocks:
        raise ValueError("attention %r: the model's blocks are 0 to %d" % (piece, blocks - 1))
    return range(first, last + 1)


def of_blocks(attention, blocks):
    """One name per block, from a list or from a text such as "mala+softmax@0-3+nala@8-"."""
    if not isinstance(attention, str):
        names = [plain(name) for name in attention]
        if len(names) != blocks:
            raise ValueError("there are %d attentions, but %d blocks" % (len(names), blocks))
        return names
    first, *others = re.split(r"\+(?![0-9])", attention)
    if "@" in first:
        raise ValueError("attention %r: the first name applies to all blocks, so it cannot have an @" % first)
    names = [plain(first)] * blocks
    for piece in others:
        name, at, where = piece.partition("@")
        if not at:
            raise ValueError("attention %r: a name after '+' must list its blocks; write %s@0-3"
                             % (piece, piece))
        for i in _range(piece, where, blocks):
            names[i] = plain(name)
    return names


def joined(names):
    """The text for one name per block: the most frequent name, then the others with their blocks."""
    names = [plain(name) for name in names]
    base = max(names, key=names.count)
    text, i = base, 0
    while i < len(names):
        end = i
        while end + 1 < len(names) and names[end + 1] == names[i]:
            end += 1
        if names[i] != base:
            text += "+%s@%d" % (names[i], i) + ("-%d" % end if end > i else "")
        i = end + 1
    return text
