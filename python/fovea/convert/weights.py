"""weights.py: finds the weights inside the containers that training programs save, and in shards."""
import json
import os

from . import Refused, safetensors, torch_files

# The keys under which training programs store weights, averaged ones first, the ones that averages
# are made from last.
WRAPPERS = ("model_ema", "ema_model", "ema_state_dict", "state_dict_ema", "model_ema_state_dict", "ema_weights",
            "params_ema", "ema", "averaged_model", "swa_model", "shadow", "teacher", "target_encoder",
            "target_network", "model", "model_state_dict", "state_dict", "params", "network", "net", "module",
            "student")
NESTED = 4  # most levels of nested containers
# Prefixes that wrappers of modules add to all names.
PREFIXES = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_forward_module.", "backbone.")
COUNTERS = {"n_averaged"}  # keys that averaging stores with the weights
# Limits for the size of views of the same values: relative to the files' size, and a minimum for
# small files.
EXPANSION, SMALL = 8, 16 << 20


def tensors_in(saved):
    return {k: v for k, v in saved.items() if isinstance(v, torch_files.Tensor) and isinstance(k, str)}


def order_of(saved):
    """The order of keys. MMEngine saves the averages as state_dict, and the original weights as ema_state_dict."""
    if "message_hub" not in saved:
        return WRAPPERS
    return (*(k for k in WRAPPERS if k != "ema_state_dict"), "ema_state_dict")


def sets_of(saved, depth=NESTED):
    """Yields (keys joined by points, {name: tensor}) for each set of weights in a dictionary, the best first."""
    if not isinstance(saved, dict) or depth == 0:
        return
    for key in order_of(saved):
        for keys, inner in sets_of(saved.get(key), depth - 1):
            yield key + (keys and "." + keys), inner
    own = tensors_in(saved)
    if own:
        yield "", own


def inside(saved, key):
    """The value for a key, or for keys joined by points."""
    if key in saved:
        return saved[key]
    for part in key.split("."):
        saved = saved.get(part) if isinstance(saved, dict) else None
    return saved


def of_saved(saved, key, path):
    """({name: tensor}, a line for the user or None) from what was saved in the file `path`; `key` selects one
    of several sets of weights."""
    if not isinstance(saved, dict):
        raise Refused("%s contains a %s instead of a dictionary of weights" % (path, type(saved).__name__))
    found = list(sets_of(inside(saved, key) if key else saved))
    if not found:
        keys = ", ".join("%.40s" % k for k in list(saved)[:12] if isinstance(k, str)) or "none"
        raise Refused("%s contains no weights%s; its keys are %s (choose one with --weights KEY)" %
                      (path, " under %s" % key if key else "", keys))
    (taken, tensors), *others = found
    others = [keys for keys, inner in others if keys and len(inner) > 1]
    line = "%s: uses the weights of %s, not those of %s (--weights KEY selects others)" % (
        path, taken, ", ".join(others[:4])) if others and not key else None
    return tensors, line


def bare(tensors):
    """The tensors, without the prefixes that all names have."""
    again = True
    while again:
        again = False
        for prefix in PREFIXES:
            inner = {k[len(prefix):]: v for k, v in tensors.items() if k.startswith(prefix)}
            if inner and set(tensors) - {prefix + k for k in inner} <= COUNTERS:
                tensors, again = inner, True
    return tensors


def shards_of(index):
    """{tensor: file} of an index; the files are in the index's folder."""
    try:
        with open(index, encoding="utf-8") as f:
            places = json.load(f)["weight_map"]
        plain = all(os.path.basename(name) == name and name not in ("", ".", "..") for name in places.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        plain = False
    if not plain:
        raise Refused('%s: "weight_map" must name files in the same folder' % index)
    return places


def load(path, key=None):
    """({name: tensor}, everything that was saved, a line for the user or None) of a file of torch.save, or of
    the shards of an index. The line says which of several sets of weights was used."""
    places = shards_of(path) if path.endswith(".json") else {}
    files = [os.path.join(os.path.dirname(path), name) for name in sorted(set(places.values()))] or [path]
    tensors, line = {}, None
    for file in files:
        saved = torch_files.load(file)
        more, line = of_saved(saved, key, file)
        twice = sorted(set(more) & set(tensors))
        if twice:
            raise Refused("%s: tensor %.80s is in two files" % (path, twice[0]))
        tensors.update(more)
    for name in places:
        if name not in tensors:
            raise Refused("%s: tensor %.80s is not in %s" % (path, name, places[name]))
    total, most = sum(t.size for t in tensors.values()), sum(map(os.path.getsize, files))
    if total > EXPANSION * most + SMALL:
        raise Refused("%s: the tensors have %d bytes, but the files only %d; the tensors are views of the same values"
                      % (path, total, most))
    return bare(tensors), {} if places else saved, line


def load_quantised(path):
    """{name: tensor} of a safetensors file, or of those of an index."""
    if not path.endswith(".json"):
        return safetensors.read(path)
    places, tensors = shards_of(path), {}
    for name in sorted(set(places.values())):
        tensors.update(safetensors.read(os.path.join(os.path.dirname(path), name)))
    missing = sorted(set(places) - set(tensors))
    if missing:
        raise Refused("%s: tensor %.80s is not in %s" % (path, missing[0], places[missing[0]]))
    return tensors
