"""weights.py: the weights out of what training programs wrap around them, and out of shards."""
import json
import os

from . import Refused, torch_files

# What training programs call the weights, averaged ones before the others.
WRAPPERS = ("model_ema", "ema_model", "ema_state_dict", "state_dict_ema", "ema", "teacher", "target_encoder", "model",
            "state_dict", "module")
NESTED = 4  # wrappers in one another
# What wrapping a module puts before all of its names.
PREFIXES = ("module.", "_orig_mod.", "backbone.")
COUNTERS = {"n_averaged"}  # which averaging puts beside them
# What views of the same values may take: times the files' bytes, and more of small files.
EXPANSION, SMALL = 8, 16 << 20


def tensors_in(saved):
    return {k: v for k, v in saved.items() if isinstance(v, torch_files.Tensor) and isinstance(k, str)}


def unwrapped(saved, depth=NESTED):
    """The dictionary of weights in a dictionary, or None."""
    if not isinstance(saved, dict) or depth == 0:
        return None
    for key in WRAPPERS:
        inner = unwrapped(saved.get(key), depth - 1)
        if inner:
            return inner
    return tensors_in(saved)


def of_saved(saved, key, path):
    """{name: tensor} of what was saved in the file `path`; `key`: which set of several."""
    if not isinstance(saved, dict):
        raise Refused("%s: it holds no dictionary of weights, but a %s" % (path, type(saved).__name__))
    found = unwrapped(saved.get(key) if key else saved)
    if not found:
        keys = ", ".join("%.40s" % k for k in list(saved)[:12] if isinstance(k, str)) or "none"
        raise Refused("%s: no weights in it%s; its keys are %s (--weights KEY takes one)" %
                      (path, " under %s" % key if key else "", keys))
    return found


def bare(tensors):
    """Without the prefixes that stand before all names."""
    again = True
    while again:
        again = False
        for prefix in PREFIXES:
            inner = {k[len(prefix):]: v for k, v in tensors.items() if k.startswith(prefix)}
            if inner and set(tensors) - {prefix + k for k in inner} <= COUNTERS:
                tensors, again = inner, True
    return tensors


def shards_of(index):
    """{tensor: file}, of files that lie beside the index."""
    try:
        with open(index, encoding="utf-8") as f:
            places = json.load(f)["weight_map"]
        plain = all(os.path.basename(name) == name and name not in ("", ".", "..") for name in places.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        plain = False
    if not plain:
        raise Refused('%s: "weight_map" must name files of the same folder' % index)
    return places


def load(path, key=None):
    """{name: tensor} of a file of torch.save, or of the shards of an index; and all that was saved in the file."""
    places = shards_of(path) if path.endswith(".json") else {}
    files = [os.path.join(os.path.dirname(path), name) for name in sorted(set(places.values()))] or [path]
    tensors = {}
    for file in files:
        saved = torch_files.load(file)
        more = of_saved(saved, key, file)
        twice = sorted(set(more) & set(tensors))
        if twice:
            raise Refused("%s: tensor %.80s is in two files" % (path, twice[0]))
        tensors.update(more)
    for name in places:
        if name not in tensors:
            raise Refused("%s: tensor %.80s is not in %s" % (path, name, places[name]))
    total, most = sum(t.size for t in tensors.values()), sum(map(os.path.getsize, files))
    if total > EXPANSION * most + SMALL:
        raise Refused("%s: %d bytes of tensors from %d of files: views of the same values" % (path, total, most))
    return bare(tensors), {} if places else saved
