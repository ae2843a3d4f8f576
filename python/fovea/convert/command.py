"""command.py: the command line of `fovea convert` and `python -m fovea.convert`.

    fovea convert CHECKPOINT FOLDER [--architecture NAME] [--weights KEY]

Makes a folder that Fovea runs of a checkpoint that it does not read:
FOLDER/model.safetensors, FOLDER/config.json and, where it is known,
FOLDER/preprocessor_config.json. FOLDER may be where the checkpoint lies.

CHECKPOINT is a file of torch.save (.bin, .pth, .pt, .ckpt), the
pytorch_model.bin.index.json of several, an archive of torch.jit.save (OpenAI's
CLIP), or a folder with one of them. It is read as data: no code of it runs, and
PyTorch is not needed. Or it is a folder of quantised safetensors, of which
float32 is made: int8 of torchao, bitsandbytes and compressed-tensors, FP8 with
a scale for each tensor, channel or block. Into another folder, and with numpy.

config.json is the one in the checkpoint's folder (or made from OpenCLIP's), or
--architecture says what the checkpoint holds:
    mavit-t, -s, -b, -l; nalaformer-xt, -t, -s, -b, -l; pola-swin-t, -s, -b,
    -b384; pola-pvt-t, -s, -m, -l;
    rf-detr-nano, -small, -medium, -base, -large-2026; rf-detr-seg-nano, -small, ..;
    depth_anything_v2_vits, _vitb, _vitl; depth_anything_v2_metric_hypersim_vits,
    ..; depth_anything_vits14, ..;
    a name of timm or torch.hub: vit_base_patch16_224, dinov2_vitb14,
    dinov3_vitb16; of OpenAI or OpenCLIP: ViT-B/32, ViT-B-32;
    a .json file with the constructor's fields and "model_type".
Of files of DINOv3's, RF-DETR's and Depth Anything's authors, under their own
names, neither is needed.
"convert CHECKPOINT NAME FOLDER" is short for it.

Training programs wrap their weights: of "model_ema", "ema", "teacher", "model",
"state_dict" and the like the first that exists is taken (--weights: another),
and a line says which; "module." and "backbone." before every name are dropped.
"""
import argparse
import os
import sys

from . import Refused, architectures, depth_anything, quantised, rf_detr, safetensors, torch_files, weights

USUAL = ("pytorch_model.bin", "pytorch_model.bin.index.json", "open_clip_pytorch_model.bin")
ENDINGS = (".bin", ".pth", ".pt", ".ckpt", ".pth.tar")
QUANTISED = ("model.safetensors", "model.safetensors.index.json")


def checkpoint_in(folder):
    """The checkpoint in a folder."""
    names = sorted(os.listdir(folder))
    found = [n for n in USUAL if n in names] or [n for n in names if n.endswith(ENDINGS)] or \
        [n for n in QUANTISED if n in names]
    if not found:
        raise Refused("%s contains no pytorch_model.bin, .pth or .pt file; give the file" % folder)
    if len(found) > 1 and found[0] not in USUAL + QUANTISED:
        raise Refused("%s contains %s; give one of them" % (folder, ", ".join(found)))
    return os.path.join(folder, found[0])


def same(a, b):
    return os.path.exists(b) and os.path.samefile(a, b)


def configuration(path, name, tensors, saved):
    """{file: bytes} to write next to the weights, and the weights themselves."""
    folder = os.path.dirname(path) or "."
    files = {} if name else architectures.files_of(folder)
    if files:
        return files, tensors
    preprocessor = None
    if depth_anything.NAME.fullmatch(name or "") or (not name and depth_anything.known(tensors)):
        with torch_files.about(path):
            config, preprocessor, tensors = depth_anything.configuration(name, path, tensors)
    else:
        config = architectures.by_name(name, tensors) if name else architectures.by_contents(tensors, saved, path)
    if not config:
        raise Refused("%s contains no config.json; give the model's architecture with --architecture NAME" % folder)
    if rf_detr.describes(config):
        with torch_files.about(path):
            config, preprocessor, tensors = rf_detr.configuration(config, tensors)
    files["config.json"] = architectures.text_of(config)
    if preprocessor:
        files["preprocessor_config.json"] = architectures.text_of(preprocessor)
    return files, tensors


def write(folder, tensors, files, kept):
    """Writes the folder; `kept`: whether existing files stay."""
    os.makedirs(folder, exist_ok=True)
    safetensors.write(os.path.join(folder, "model.safetensors"), tensors)
    for file, data in files.items():
        if not kept or not os.path.exists(os.path.join(folder, file)):
            with open(os.path.join(folder, file), "wb") as f:
                f.write(data)


def of_torch(path, folder, name, key):
    """(tensors, files, lines) of a file of PyTorch."""
    home = os.path.dirname(path) or "."
    if name and same(home, folder) and os.path.exists(os.path.join(home, "config.json")):
        raise Refused("%s already has a config.json; leave out %s, or choose another folder" % (folder, name))
    tensors, saved, line = weights.load(path, key)
    files, tensors = configuration(path, name, rf_detr.bare(tensors), saved)
    config = quantised.config_of(files["config.json"], os.path.join(home, "config.json"))
    with torch_files.about(path):
        made = quantised.dequantised(tensors, config)
    if made and quantised.described(config):
        elsewhere(home, folder)
        files["config.json"] = architectures.text_of(quantised.without(config))
    return made or tensors, files, [line] if line else []


def elsewhere(home, folder):
    """Refuses an output folder in which the quantised files, or files that describe them, would be overwritten."""
    if same(home, folder):
        raise Refused("%s: the quantised files would be overwritten; choose another folder" % folder)


def of_quantised(path, folder, name, key):
    """Does the same for a quantised safetensors file."""
    home = os.path.dirname(path) or "."
    present = {} if name else architectures.files_of(home)
    elsewhere(home, folder)
    if key:
        raise Refused("%s: --weights is only for PyTorch's files; leave it out" % path)
    tensors = weights.load_quantised(path)
    config = quantised.config_of(present.get("config.json", b"{}"), os.path.join(home, "config.json"))
    with torch_files.about(path):
        made = quantised.dequantised(tensors, config)
    if not made and not name:
        raise Refused("%s is safetensors and not quantised, so it needs no conversion; run it as it is" % path)
    if name:
        files, made = configuration(path, name, made or tensors, {})
    else:
        files = dict(present, **{"config.json": architectures.text_of(quantised.without(config))})
    if not present and not name:
        raise Refused("%s contains no config.json; give the model's architecture with --architecture NAME" % home)
    return made, files, []


def convert(checkpoint, folder, name=None, key=None):
    """Converts, and returns lines that say what was written."""
    if not os.path.exists(checkpoint):
        raise Refused("%s: no such file or folder; check the name" % checkpoint)
    path = checkpoint_in(checkpoint) if os.path.isdir(checkpoint) else checkpoint
    read = of_quantised if path.endswith((".safetensors", ".safetensors.index.json")) else of_torch
    tensors, files, lines = read(path, folder, name, key)
    write(folder, tensors, files, same(os.path.dirname(path) or ".", folder))
    numbers = sum(t.count for t in tensors.values()) / 1e6
    return lines + ["%s: %d tensors, %.2fM numbers" % (folder, len(tensors), numbers)]


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print("fovea convert: %s; see fovea convert --help" % message, file=sys.stderr)
        sys.exit(1)


def main(argv: "list[str]") -> None:
    parser = Parser(prog="fovea convert", description=__doc__[__doc__.index("Makes a folder"):],
                    formatter_class=argparse.RawDescriptionHelpFormatter,
                    usage="fovea convert CHECKPOINT FOLDER [--architecture NAME] [--weights KEY]")
    parser.add_argument("checkpoint")
    parser.add_argument("name", nargs="?")
    parser.add_argument("folder")
    parser.add_argument("--architecture", metavar="NAME")
    parser.add_argument("--weights", metavar="KEY")
    given = parser.parse_args(argv)
    try:
        for line in convert(given.checkpoint, given.folder, given.architecture or given.name, given.weights):
            print(line)
    except (Refused, OSError) as e:
        text = "%s: %s" % (e.filename, e.strerror) if isinstance(e, OSError) else str(e)
        text = "".join(c if c.isprintable() else "?" for c in text)
        print("fovea convert: " + text, file=sys.stderr)
        sys.exit(7)
