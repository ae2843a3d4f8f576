#!/usr/bin/env python3
"""test_convert_refused.py: python/convert.py refuses invalid files with one line, writes nothing and runs no code.

    test_convert_refused.py

Pickles that name functions and classes, or that are damaged, nested or circular; archives that are truncated, have
wrong sizes or decompress to more than they declare; indices and folders that name no file or too many.
"""
import json
import os
import pickle
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

import torch_archives as archives
from torch_archives import Storage, Tensor

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MEMORY, SECONDS = 1 << 30, 60
NAME = ("--architecture", "vit_base")


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


# Pickles that would make the file MARK, if anything of them ran.
TOUCH = text("touch MARK")
HOSTILE = {
    "os.system": (b"\x80\x02cposix\nsystem\n" + TOUCH + b"\x85R.", "posix.system"),
    "os.system, other name": (b"\x80\x02cos\nsystem\n" + TOUCH + b"\x85R.", "os.system"),
    "os.system among weights": (b"\x80\x02}" + text("a") + b"cos\nsystem\n" + TOUCH + b"\x85Rs.", "os.system"),
    "eval": (b"\x80\x02cbuiltins\neval\n" + text("open('MARK', 'w')") + b"\x85R.", "builtins.eval"),
    "exec of Python 2": (b"\x80\x02c__builtin__\nexec\n" + text("open('MARK', 'w')") + b"\x85R.", "__builtin__.exec"),
    "getattr": (b"\x80\x02cbuiltins\ngetattr\ncos\n_exit\n.", "builtins.getattr"),
    "a class of its own": (b"\x80\x02cevil\nThing\n)\x81}b.", "evil.Thing"),
    "a tensor of a class of its own": (b"\x80\x02ctorch._utils\n_rebuild_wrapper_subclass\n.", "save_pretrained"),
    "a name by the stack": (b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x0atouch MARK\x85R.", "posix.system"),
    "a name that is a list": (b"\x80\x04]\x8c\x06system\x93.", "damaged"),
    "a name inside a name": (b"\x80\x02ccollections\nOrderedDict.__init__.__globals__\n.", "OrderedDict.__init__"),
    "NEWOBJ_EX": (b"\x80\x04]]]\x92.", "NEWOBJ_EX"),
    "INST": (b"(S'touch MARK'\niposix\nsystem\n.", "not a file of torch.save"),
    "INST later": (b"\x80\x02(S'touch MARK'\niposix\nsystem\n.", "INST"),
    "OBJ": (b"\x80\x02(]" + TOUCH + b"o.", "OBJ"),
    "EXT1": (b"\x80\x02\x82\x01.", "EXT1"),
    "a text for an id": (b"\x80\x02P1\n.", "PERSID"),
    "a pickle inside": (b"\x80\x02ctorch.storage\n_load_from_bytes\nC\x01.\x85R.", "_load_from_bytes"),
    "a class of TorchScript": (b"\x80\x02c__torch__.clip\nThing\n)\x81}b.", "__torch__.clip.Thing"),
    "control characters": (b"\x80\x02c\x1b[2J\nx\n.", "?[2J.x"),
    "a call of a list": (b"\x80\x02])R.", "damaged"),
    "a call of a type": (b"\x80\x02ctorch\nFloatStorage\n)R.", "damaged"),
    "a tensor by another": (b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._tensor\n_rebuild_from_type_v2\n"
                            b"N)NtR.", "damaged"),
    "attributes of a list": (b"\x80\x02]}b.", "damaged"),
    "attributes of a type": (b"\x80\x02ctorch\nDoubleStorage\n}b.", "damaged"),
}
DEEP = 200000
DAMAGED = {
    "nothing": (b"\x80\x02.", "damaged"),
    "no end": (b"\x80\x02}", "damaged"),
    "an unknown instruction": (b"\x80\x02\xff.", "damaged"),
    "an empty stack": (b"\x80\x020.", "damaged"),
    "an empty stack for three": (b"\x80\x02N\x87.", "damaged"),
    "no mark": (b"\x80\x02]e.", "damaged"),
    "no such memo": (b"\x80\x02h\x07.", "damaged"),
    "items for a tuple": (b"\x80\x02)K\x01K\x01s.", "damaged"),
    "elements for a dictionary": (b"\x80\x02}K\x01a.", "damaged"),
    "half an item": (b"\x80\x02}(K\x01u.", "damaged"),
    "half a pair": (b"\x80\x02ccollections\nOrderedDict\n]K\x01a\x85R.", "damaged"),
    "a text that ends early": (b"\x80\x02X\xff\xff\xff\x7fabc.", "damaged"),
    "a text that is none": (b"\x80\x02X\x02\x00\x00\x00\xff\xfe.", "damaged"),
    "a long frame": (b"\x80\x04\x95" + b"\xff" * 8 + b"}.", "contains no weights"),
    "a long number": (b"\x80\x02\x8b\xff\xff\xff\x7f1.", "damaged"),
    "many digits": (b"\x80\x02I" + b"9" * 100000 + b"\n.", "damaged"),
    "a far memo": (b"\x80\x02}r\xff\xff\xff\xff.", "contains no weights"),
    "a list as a key": (b"\x80\x02}]K\x01s.", "a key that is a list"),
    "a deep key": (b"\x80\x02})" + b"\x85" * DEEP + b"K\x01s.", "a key that is a tuple"),
    "a key of 2^99 parts": (b"\x80\x02})" + b"2\x86" * 99 + b"K\x01s.", "a key that is a tuple"),
    "a set of 2^99 parts": (b"\x80\x02cbuiltins\nset\n])" + b"2\x86" * 99 + b"a\x85R.", "a key that is a tuple"),
    "a dictionary of 2^99 parts": (b"\x80\x02cbuiltins\ndict\n])" + b"2\x86" * 99 + b"N\x86a\x85R.",
                                   "a key that is a"),
    "a shape of 2^99 parts": (b"\x80\x02ctorch\nSize\n])" + b"2\x86" * 99 + b"a\x85R.", "contains a tuple"),
    "lists in lists": (b"\x80\x02" + b"]" * DEEP + b"a" * (DEEP - 1) + b".", "contains a list"),
    "a dictionary in itself": (b"\x80\x02}q\x00" + text("model") + b"h\x00s.", "contains no weights"),
    "wrappers in wrappers": (b"\x80\x02}q\x00(" + b"".join(text(k) + b"h\x00" for k in (
        "model", "ema", "teacher", "state_dict", "module", "model_ema")) + b"u.", "contains no weights"),
    "a list": (b"\x80\x02].", "contains a list"),
    "no tensors": (b"\x80\x02}" + text("lr") + b"K\x01s.", "its keys are lr"),
    "a whole module": (b"\x80\x02(" + text("module") + b"]NNtQ.", "a whole module"),
    "a storage of texts": (b"\x80\x02(" + text("storage") + text("x") + text("0") + text("cpu") + b"K\x01tQ.",
                           "damaged"),
    "a storage of -1": (b"\x80\x02(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") +
                        b"J\xff\xff\xff\xfftQ.", "damaged"),
}


def lie(path, name, **changes):
    """Changes the size of a record in the archive's table."""
    with zipfile.ZipFile(path, "a") as z:
        z._didModify = True
        for field, value in changes.items():
            setattr(z.getinfo(name), field, value)


class Tests:
    def __init__(self, folder):
        self.folder, self.counts = folder, [0, 0]
        with open(self.path("evil.py"), "w") as f:
            f.write("open('MARK', 'w')\nclass Thing: pass\n")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def put(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())

    def refused(self, what, words, *arguments, out="out"):
        """The command prints one line with these words, and does nothing else."""
        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

        env = dict(os.environ, PYTHONPATH=self.folder)
        try:
            p = subprocess.run([sys.executable, "-S", os.path.join(ROOT, "python", "convert.py"), *arguments],
                               capture_output=True, text=True, cwd=self.folder, env=env, preexec_fn=limits,
                               timeout=SECONDS)
            said, status = p.stderr, p.returncode
        except subprocess.TimeoutExpired:
            said, status = "took longer than %d s" % SECONDS, 0
        one_line = said.startswith("fovea convert: ") and said.count("\n") == 1 and said[:-1].isprintable()
        files = os.listdir(self.path(out)) if out and os.path.exists(self.path(out)) else []
        ran = os.path.exists(self.path("MARK"))
        good = status == 7 and one_line and words in said and len(said) < 1200 and not files and not ran
        self.counts[not good] += 1
        if not good:
            print("FAIL %s: exit %d, wanted %r, wrote %s%s: %s" %
                  (what, status, words, files, ", code ran" if ran else "", said[-400:]), flush=True)

    def file(self, what, words, *arguments):
        self.refused(what, words, "x.pth", "out", *(arguments or NAME))


def pickles(t):
    """Hostile pickles in a zip archive; some also as the magic number or as the weights of an old file."""
    for name, (data, words) in {**HOSTILE, **DAMAGED}.items():
        if name != "INST":  # which no protocol precedes
            archives.write_zip(t.path("x.pth"), data)
            t.file(name, words)
    for name in ("os.system", "eval", "a class of its own", "INST", "INST later"):
        data, words = HOSTILE[name]
        t.put("x.pth", data)
        t.file(name + ", alone", words)
        t.put("x.pth", archives.legacy_head() + data)
        t.file(name + ", old", "INST" if name == "INST" else words)
    archives.write_zip(t.path("x.pth"), b"\x80\x02cos\nsystem\n" + TOUCH + b"\x85R.", more=["constants.pkl"])
    t.file("os.system, TorchScript", "os.system")
    # A valid header, followed by a hostile list of keys.
    data, _ = archives.pickled({"a": 1}, legacy=True)
    t.put("x.pth", archives.legacy_head() + data + HOSTILE["os.system"][0])
    t.file("os.system for keys", "posix.system")


def tensors(t):
    """Invalid views, and tensors that are larger than the file."""
    three = Storage(np.arange(3, dtype=np.float32))
    for name, tensor, words in (
            ("beyond its storage", Tensor(three, 0, (4,), (1,)), "damaged"),
            ("beyond by its offset", Tensor(three, 3, (1,), (1,)), "damaged"),
            ("beyond by its strides", Tensor(three, 0, (2, 2), (2, 1)), "damaged"),
            ("a negative offset", Tensor(three, -1, (1,), (1,)), "damaged"),
            ("a negative stride", Tensor(three, 2, (3,), (-1,)), "damaged"),
            ("a negative dimension", Tensor(three, 0, (-1,), (1,)), "damaged"),
            ("a dimension of half", Tensor(three, 0, (0.5,), (1,)), "damaged"),
            ("a dimension beyond 63 bits", Tensor(three, 0, (1 << 70,), (0,)), "damaged"),
            ("fewer strides", Tensor(three, 0, (1, 1), (1,)), "damaged"),
            ("a shape that is none", Tensor(three, 0, "12", "12"), "damaged"),
            ("nine dimensions", Tensor(three, 0, (1,) * 9, (1,) * 9), "9 dimensions"),
            ("a terabyte of one value", Tensor(three, 0, (1 << 38,), (0,)), "views of the same values")):
        for form, save in (("zip", archives.save), ("old", archives.save_legacy)):
            save(t.path("x.pth"), {"a": tensor})
            t.file("%s, %s" % (name, form), words)
    same = Tensor(np.zeros(1 << 18, np.float32))
    archives.save(t.path("x.pth"), {"a%d" % i: same for i in range(1000)})
    t.file("one storage a thousand times", "views of the same values")
    one, other = (archives.Module() for _ in range(2))
    one.a, other.a = other, one
    archives.save_script(t.path("x.pth"), one)
    t.file("modules in one another", "contain one another")
    at = archives.Module()
    for _ in range(60):
        above = archives.Module()
        above.a, above.b = at, at
        at = above
    archives.save_script(t.path("x.pth"), at)
    t.file("modules of 2^60 places", "contain one another")


def archives_(t):
    """Archives and old files that are truncated, damaged, compressed, or have wrong sizes."""
    saved = {"model": {"a": Tensor(np.arange(999, dtype=np.float32)), "b": Tensor(np.arange(9, dtype=np.int64))}}
    for form, save in (("zip", archives.save), ("old", archives.save_legacy)):
        save(t.path("x.pth"), saved)
        with open(t.path("x.pth"), "rb") as f:
            whole = f.read()
        for n in (1, 3, 30, 100, len(whole) // 2, len(whole) - 40, len(whole) - 1):
            t.put("x.pth", whole[:n])
            t.file("%d of %d bytes, %s" % (n, len(whole), form), "x.pth: ")
    archives.save(t.path("x.pth"), saved)
    with open(t.path("x.pth"), "rb") as f:
        whole = bytearray(f.read())
    whole[whole.index(np.arange(99, dtype=np.float32).tobytes()) + 40] ^= 1
    t.put("x.pth", bytes(whole))
    t.file("a bit that fell over", "CRC")
    for name, changes, words in (("longer", {"file_size": 1 << 40, "compress_size": 1 << 40}, "claims"),
                                 ("longer than packed", {"file_size": 1 << 40}, "claims"),
                                 ("packed longer", {"compress_size": 1 << 40}, "claims"),
                                 ("shorter", {"file_size": 8, "compress_size": 8}, "data/0"),
                                 ("elsewhere", {"header_offset": 7}, "cannot be read"),
                                 ("encrypted", {"flag_bits": 1}, "encrypted"),
                                 ("of another method", {"compress_type": 99}, "compressed")):
        archives.save(t.path("x.pth"), {"a": Tensor(np.arange(9, dtype=np.float32))})
        lie(t.path("x.pth"), "archive/data/0", **changes)
        t.file("a record " + name, words if words != "data/0" else "x.pth: ")
    archives.write_zip(t.path("x.pth"), *archives.pickled({"a": Tensor(np.zeros(1 << 22, np.float32))}),
                       method=zipfile.ZIP_DEFLATED)
    t.file("a compressed archive", "compressed")
    data, storages = archives.pickled({"a": Tensor(np.zeros(9, np.float32))})
    archives.write_zip(t.path("x.pth"), data)
    t.file("no storage", "data/0 is missing")
    archives.write_zip(t.path("x.pth"), data, [Storage(np.zeros(8, np.float32))])
    t.file("a short storage", "32 bytes instead of 36")
    with zipfile.ZipFile(t.path("x.pth"), "w") as z:
        z.writestr("a/data.pkl", data)
        z.writestr("a/byteorder", "big")
    t.file("big-endian", "big-endian")
    with zipfile.ZipFile(t.path("x.pth"), "w") as z:
        z.writestr("word/document.xml", "")
    t.file("another zip", "without data.pkl")
    for name, head, words in (("another magic", archives.legacy_head(magic=7), "not from torch.save"),
                              ("another version", archives.legacy_head(version=7), "a version of torch.save"),
                              ("big-endian, old", archives.legacy_head(little=False), "big-endian")):
        t.put("x.pth", head + data)
        t.file(name, words)
    data, _ = archives.pickled({"a": Tensor(np.zeros(9, np.float32))}, legacy=True)
    for name, tail in (("another count", struct.pack("<q", 10) + bytes(40)),
                       ("a negative count", struct.pack("<q", -9)),
                       ("too few values", struct.pack("<q", 9) + bytes(35))):
        t.put("x.pth", archives.legacy_head() + data + pickle.dumps(["0"], 2) + tail)
        t.file(name + ", old", "truncated")
    t.put("x.pth", archives.legacy_head() + data + pickle.dumps([], 2))
    t.file("no storage, old", "0 bytes instead of 36")
    for name, data, words in (("an empty file", b"", "not a file of torch.save"),
                              ("a text", b"hello", "not a file of torch.save"),
                              ("a safetensors file", struct.pack("<Q", 2) + b"{}", "not a file of torch.save"),
                              ("a pointer", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull")):
        t.put("x.pth", data)
        t.file(name, words)


def indices(t):
    """Shards that are not in the folder of their index, or not those that the index names."""
    one, other = ({k: Tensor(np.zeros(3, np.float32))} for k in "ab")
    os.mkdir(t.path("hub"))
    for name, saved in (("1.bin", one), ("2.bin", other), ("3.bin", one)):
        archives.save(t.path("hub", name), saved)
    for name, index, words in (
            ("a shard elsewhere", {"a": "../x.pth"}, "same folder"),
            ("a shard at the root", {"a": "/etc/passwd"}, "same folder"),
            ("a folder for a shard", {"a": ".."}, "same folder"), ("a number for a shard", {"a": 7}, "same folder"),
            ("no shard", {"a": ""}, "same folder"), ("a list of shards", ["1.bin"], "same folder"),
            ("a missing shard", {"a": "9.bin"}, "hub/9.bin: No such file"),
            ("a missing tensor", {"c": "1.bin"}, "c is not in 1.bin"),
            ("a tensor twice", {"a": "1.bin", "b": "3.bin"}, "in two files")):
        t.put("hub/pytorch_model.bin.index.json", json.dumps({"weight_map": index}))
        t.refused(name, words, "hub", "out", *NAME)
    for name, index in (("no JSON", "{"), ("a list for an index", "[]"), ("a deep index", "[" * 100000)):
        t.put("hub/pytorch_model.bin.index.json", index)
        t.refused(name, "same folder", "hub/pytorch_model.bin.index.json", "out", *NAME)


def folders(t):
    """A folder must make clear which file to convert, and which model that is."""
    good = {"a": Tensor(np.zeros(3, np.float32))}
    archives.save(t.path("x.pth"), good)
    t.refused("no config", "--architecture NAME", "x.pth", "out")
    t.refused("an unknown name", "pola-pvt-t", "x.pth", "pola-x", "out")
    for name in ("depth_anything_v2_vitg", "swin_tiny_patch4_window7_224", "convnext_base"):
        t.refused("a name that nothing runs", "is unknown; choose", "x.pth", name, "out")
    t.refused("no Depth Anything", "it is not a Depth Anything", "x.pth", "depth_anything_v2_vits", "out")
    archives.save(t.path("d.pth"), {k: Tensor(np.zeros((384, 1), np.float32)) for k in (
        "pretrained.patch_embed.proj.weight", "depth_head.scratch.output_conv1.weight")})
    t.refused("a Depth Anything of no version", "depth_anything_v2_vits", "d.pth", "out")
    t.refused("no such file", "no such file", "y.pth", "out", *NAME)
    t.refused("no such .json", "y.json", "x.pth", "y.json", "out")
    t.put("x.json", "[]")
    t.refused("a .json without a type", "model_type", "x.pth", "x.json", "out")
    t.refused("no such key", "under optimizer", "x.pth", "out", *NAME, "--weights", "optimizer")
    os.mkdir(t.path("empty"))
    t.refused("an empty folder", "no pytorch_model.bin", "empty", "out", *NAME)
    for name in ("1.pth", "2.pt"):
        os.makedirs(t.path("two"), exist_ok=True)
        archives.save(t.path("two", name), good)
    t.refused("two files", "1.pth, 2.pt", "two", "out", *NAME)
    os.remove(t.path("two", "2.pt"))
    t.put("two/config.json", "{}")
    t.refused("another config in place", "has a config.json", "two", "two", *NAME, out=None)
    os.remove(t.path("two", "config.json"))
    for name, vision, words in (("ResNet", {"image_size": 2, "layers": [1, 2], "width": 64}, "patch_size"),
                                ("CoCa", {"image_size": 2, "attentional_pool": True}, "attentional_pool"),
                                ("no sizes", {}, "image_size"), ("a text", "x", "TypeError")):
        t.put("two/open_clip_config.json", json.dumps({"model_cfg": {"vision_cfg": vision}}))
        t.refused("OpenCLIP's " + name, words, "two", "out")
    t.put("two/open_clip_config.json", "[" * 100000)
    t.refused("OpenCLIP's deep one", "open_clip_config.json", "two", "out")
    shutil.rmtree(t.path("out"), ignore_errors=True)
    shutil.copy(t.path("x.pth"), t.path("out"))
    t.refused("a file for a folder", "out: File exists", "x.pth", "out", *NAME, out=None)


def rf_detr(t):
    """The settings that rfdetr stores in addition to weights must exist, and be supported by Fovea."""
    def floats(*shape):
        return Tensor(np.zeros(shape, np.float32))

    patches = "backbone.0.encoder.encoder.embeddings.patch_embeddings.projection.weight"
    model = {patches: floats(6, 3, 7, 7), "class_embed.weight": floats(3, 4), "query_feat.weight": floats(10, 4),
             "refpoint_embed.weight": floats(10, 4)}
    says = {"encoder": "dinov2_windowed_small", "out_feature_indexes": [1, 3], "num_windows": 2, "hidden_dim": 4,
            "dec_layers": 2, "sa_nheads": 2, "ca_nheads": 2, "dec_n_points": 2, "num_queries": 5}
    deep = ()
    for _ in range(99):
        deep = (deep, deep)

    def refused(name, words, more=(), **changes):
        archives.save(t.path("x.pth"), {"model": dict(model, **dict(more)), "args": dict(says, **changes)})
        t.refused("RF-DETR, " + name, "x.pth: " + words, "x.pth", "out")

    for name, saved in (("nothing", {}), ("arguments of training", {"args": {"lr": 1}}),
                        ("a text", {"args": "encoder"}), ("a list", {"args": [says]}),
                        ("another class", {"args": {}, "model_name": "RFDETRHuge"})):
        archives.save(t.path("x.pth"), {"model": model, **saved})
        t.refused("RF-DETR beside " + name, "rf-detr-small", "x.pth", "out")
    for name in ("dinov2_small", "dinov2_windowed_giant", "vit_tiny", "aimv2_windowed_small",
                 "dinov2_windowed_windowed_small", ""):
        refused("encoder " + name, '"encoder" of RF-DETR is ' + name, encoder=name)
    for name, value in (("a number", 7), ("deep", deep), ("a tensor", floats(3)), ("a list", ["dinov2"])):
        refused("encoder that is " + name, '"encoder" of RF-DETR is ', encoder=value)
    for key, value, words in (("projector_scale", ["P3", "P5"], "is P3, P5; only P4"),
                              ("two_stage", False, "is False; only True"),
                              ("projector_scale", deep, "is a tuple; only P4"), ("bbox_reparam", False, "is False"),
                              ("lite_refpoint_refine", False, "is False"), ("layer_norm", False, "is False"),
                              ("rms_norm", True, "is True"), ("decoder_norm", "Identity", "is Identity; only LN")):
        refused(key, '"%s" of RF-DETR %s' % (key, words), **{key: value})
    for key, value in (("num_queries", "5"), ("num_queries", 0), ("num_queries", True), ("dec_layers", -1),
                       ("hidden_dim", 1 << 70), ("num_windows", 2.0), ("sa_nheads", deep), ("num_select", "all"),
                       ("resolution", [512, 512]), ("positional_encoding_size", False), ("patch_size", (14, 14))):
        refused(key, '"%s" of RF-DETR must be a positive whole number' % key, **{key: value})
    for value in ("12", [], [1, "3"], [deep], [-1], {}, 3):
        refused("out_feature_indexes", '"out_feature_indexes" of RF-DETR must be', out_feature_indexes=value)
    for key in ("num_windows", "hidden_dim", "ca_nheads", "dec_n_points"):
        refused("no " + key, '"%s" of RF-DETR is missing' % key, **{key: None})
    refused("no blocks", '"out_feature_indexes" of RF-DETR must be', out_feature_indexes=None)
    refused("too many queries", '"num_queries" of RF-DETR is 11', num_queries=11)
    refused("a row of queries", "tensor query_feat.weight has 1 dimensions", {"query_feat.weight": floats(10)})
    refused("a row of references", "tensor refpoint_embed.weight has 1", {"refpoint_embed.weight": floats(10)})
    refused("a row of patches", "tensor %s has 2" % patches, {patches: floats(6, 147)})
    refused("masks without a head", '"segmentation_head" of RF-DETR is set, but tensor', segmentation_head=True)
    mlp = "segmentation_head.query_features_block.layers.0.weight"
    refused("ratio of masks", '"mask_downsample_ratio" of RF-DETR must be', {mlp: floats(4, 4)}, mask_downsample_ratio=0)
    refused("a row of the MLP for masks", "tensor %s has 1" % mlp, {mlp: floats(4)})
    for name, words in (("segmentation_head.bias", "a head for masks without tensor " + mlp),
                        ("keypoint_embed.layers.0.weight", "a head for key points"),
                        ("backbone.0.encoder.base_model.model.encoder.x", "LoRA's adapters"),
                        ("backbone.0.projector.stages_sampling.0.0.0.weight", "a projector of other scales"),
                        ("backbone.0.cross_attn_projector.stages.0.1.bias", "two projectors")):
        refused(name, "it has " + words, {name: floats(1)})
    archives.save(t.path("x.pth"), {"a": floats(3)})
    t.refused("no RF-DETR", "it is not an RF-DETR: tensor", "x.pth", "out", "--architecture", "rf-detr-small")
    archives.save(t.path("x.pth"), {k: v for k, v in model.items() if k != patches})
    t.refused("RF-DETR without patches", "projection.weight is missing", "x.pth", "rf-detr-nano", "out")


def main():
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(folder)
        for test in (pickles, tensors, archives_, indices, rf_detr, folders):
            test(t)
    print("%d passed, %d failed, 0 skipped" % tuple(t.counts))
    return 1 if t.counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
