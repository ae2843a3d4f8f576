"""Names of models: paths, synthetic ones, and those of the Hugging Face hub that are in its cache here."""
from __future__ import annotations

import os
import re
from typing import List, Optional, Union

from ._library import Error

_EIO = -3
_NAME = r"(?!.*\.(safetensors|json|bin|pth?|gguf|onnx)$)([\w-]+/)?\w[\w.-]*"  # not that of a file
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
# For names without an owner: the owner that is most likely meant.
_OWNERS = {"beit": "microsoft", "clip": "openai", "deit": "facebook", "dinov2": "facebook",
           "dinov3": "facebook", "ijepa": "facebook", "siglip": "google", "vit": "google"}


def find(name: Union[str, "os.PathLike[str]"]) -> str:
    """The argument for fovea_model_load: a path or a synthetic model unchanged, else the folder of OWNER/NAME,
    or of NAME alone, in the cache. Nothing is downloaded; the error names the command that downloads it."""
    path = os.fspath(name)
    if path.startswith("synthetic:") or os.path.exists(path) or not re.fullmatch(_NAME, path):
        return path
    owner, _, model = path.rpartition("/")
    found = _repositories(owner, model)
    if len(found) > 1:
        raise Error(_EIO, "%s: the cache contains %s; give one of them as OWNER/NAME" % (path, " and ".join(found)))
    full = found[0] if found else path if owner else _likely_owner(model) + "/" + model
    folder = _snapshot(full) if found else None
    if folder is None:
        raise Error(_EIO, "%s: no such file or folder, and %s in %s. To download a model of the Hugging Face hub, "
                          "run: pip install huggingface_hub && hf download %s config.json "
                          "preprocessor_config.json model.safetensors"
                    % (path, "incomplete" if found else "not", cache(), full))
    return folder


def cache() -> str:
    """The folder that huggingface_hub downloads to."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return os.path.expanduser(os.environ[variable])
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"), "huggingface")
    return os.path.join(os.path.expanduser(home), "hub")


def _repositories(owner: str, model: str) -> List[str]:
    """The OWNER/NAME of all models in the cache that have this name."""
    try:
        entries = sorted(os.listdir(cache()))
    except OSError:
        return []
    wanted = re.compile("models--(%s)--%s" % (re.escape(owner) if owner else ".+", re.escape(model)),
                        re.IGNORECASE)
    return [entry[len("models--"):].replace("--", "/") for entry in entries if wanted.fullmatch(entry)]


def _snapshot(full: str) -> Optional[str]:
    """The folder of a model's files: that of the branch `main`, else the newest complete one."""
    repository = os.path.join(cache(), "models--" + full.replace("/", "--"))
    snapshots = os.path.join(repository, "snapshots")
    folders = []
    try:
        with open(os.path.join(repository, "refs", "main"), encoding="ascii") as file:
            folders.append(os.path.join(snapshots, file.read().strip()))
    except OSError:
        pass
    if os.path.isdir(snapshots):
        others = (os.path.join(snapshots, entry) for entry in os.listdir(snapshots))
        folders += sorted(others, key=os.path.getmtime, reverse=True)
    return next((f for f in folders if _is_whole(f)), None)


def _is_whole(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "config.json")) and any(
        os.path.exists(os.path.join(folder, weights)) for weights in _WEIGHTS)


def _likely_owner(model: str) -> str:
    return _OWNERS.get(re.split(r"[-.]", model)[0], "OWNER")
