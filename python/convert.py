#!/usr/bin/env python3
"""convert.py: .pth, .pt and .bin files of PyTorch as folders that Fovea runs.

    convert.py CHECKPOINT FOLDER [--architecture NAME] [--weights KEY]

CHECKPOINT is a file of torch.save, the pytorch_model.bin.index.json of several, an archive of torch.jit.save
(OpenAI's CLIP), or a folder with one of them. It is read as data: no code of it runs, and PyTorch is not needed.
Writes FOLDER/model.safetensors, FOLDER/config.json and, where it is known, FOLDER/preprocessor_config.json.
FOLDER may be where the checkpoint lies.

config.json is that beside the checkpoint (or made of OpenCLIP's), or --architecture says what the checkpoint holds:
    mavit-t, -s, -b, -l; nalaformer-xt, -t, -s, -b, -l; pola-swin-t, -s, -b, -b384; pola-pvt-t, -s, -m, -l;
    rf-detr-nano, -small, -medium, -base, -large-2026;
    a name of timm or torch.hub: vit_base_patch16_224, dinov2_vitb14, dinov3_vitb16; of OpenAI or OpenCLIP: ViT-B/32, ViT-B-32;
    a .json file with the constructor's fields and "model_type".
Of files of DINOv3's and RF-DETR's authors neither is needed.
"convert.py CHECKPOINT NAME FOLDER" is short for it.

Training programs wrap their weights: of "model_ema", "ema", "teacher", "model", "state_dict" and the like the first
that is there is taken (--weights: another); "module." and "backbone." before every name are dropped.
"""
import argparse
import os
import sys

from converter import Refused, architectures, rf_detr, safetensors, torch_files, weights
from converter.architectures import MODELS  # noqa: F401: the tests make checkpoints of these

USUAL = ("pytorch_model.bin", "pytorch_model.bin.index.json", "open_clip_pytorch_model.bin")
ENDINGS = (".bin", ".pth", ".pt")


def checkpoint_in(folder):
    """The checkpoint of a folder."""
    names = sorted(os.listdir(folder))
    found = [n for n in USUAL if n in names] or [n for n in names if n.endswith(ENDINGS)]
    if not found:
        raise Refused("%s: no pytorch_model.bin, .pth or .pt file is there" % folder)
    if len(found) > 1 and found[0] not in USUAL:
        raise Refused("%s: %s are there; name one of them" % (folder, ", ".join(found)))
    return os.path.join(folder, found[0])


def same(a, b):
    return os.path.exists(b) and os.path.samefile(a, b)


def configuration(path, name, tensors, saved):
    """{file: bytes} to write beside the weights, and these."""
    folder = os.path.dirname(path) or "."
    files = {} if name else architectures.beside(folder)
    if files:
        return files, tensors
    config = architectures.by_name(name, tensors) if name else architectures.by_contents(tensors, saved, path)
    if not config:
        raise Refused("%s: no config.json is there; --architecture NAME says what the checkpoint holds" % folder)
    preprocessor = None
    if rf_detr.describes(config):
        with torch_files.about(path):
            config, preprocessor, tensors = rf_detr.configuration(config, tensors)
    files["config.json"] = architectures.text_of(config)
    if preprocessor:
        files["preprocessor_config.json"] = architectures.text_of(preprocessor)
    return files, tensors


def convert(checkpoint, folder, name=None, key=None):
    """What was written, as a line."""
    if not os.path.exists(checkpoint):
        raise Refused("%s: no such file or folder" % checkpoint)
    path = checkpoint_in(checkpoint) if os.path.isdir(checkpoint) else checkpoint
    home = os.path.dirname(path) or "."
    if name and same(home, folder) and os.path.exists(os.path.join(home, "config.json")):
        raise Refused("%s: has a config.json; leave out %s, or name another folder" % (folder, name))
    tensors, saved = weights.load(path, key)
    files, tensors = configuration(path, name, rf_detr.bare(tensors), saved)
    os.makedirs(folder, exist_ok=True)
    safetensors.write(os.path.join(folder, "model.safetensors"), tensors)
    for file, data in files.items():
        if not same(home, folder) or not os.path.exists(os.path.join(folder, file)):
            with open(os.path.join(folder, file), "wb") as f:
                f.write(data)
    return "%s: %d tensors, %.2fM numbers" % (folder, len(tensors), sum(t.count for t in tensors.values()) / 1e6)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage="convert.py CHECKPOINT FOLDER [--architecture NAME] [--weights KEY]")
    parser.add_argument("checkpoint")
    parser.add_argument("name", nargs="?")
    parser.add_argument("folder")
    parser.add_argument("--architecture", metavar="NAME")
    parser.add_argument("--weights", metavar="KEY")
    given = parser.parse_args(argv)
    try:
        print(convert(given.checkpoint, given.folder, given.architecture or given.name, given.weights))
    except (Refused, OSError) as e:
        text = "%s: %s" % (e.filename, e.strerror) if isinstance(e, OSError) else str(e)
        text = "".join(c if c.isprintable() else "?" for c in text)
        raise SystemExit("convert.py: " + text) from None


if __name__ == "__main__":
    main(sys.argv[1:])
