#!/usr/bin/env python3
"""test_convert.py: python/convert.py converts valid checkpoints.

    test_convert.py path/to/fovea

However the weights are stored, shared, wrapped, named and split into files, the result must be a folder with the
same weights, bit by bit, that runs; known constructors must make checkpoints of the published sizes.
test_convert_refused.py tests invalid checkpoints. PyTorch is not needed.
"""
import argparse
import collections
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types

import numpy as np

import test_polaformer as pola
import test_pyramid
import torch_archives as archives
from torch_archives import Storage, Tensor

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
GOLDEN = os.path.join(ROOT, "tests", "data", "golden", "models")
sys.path.append(os.path.join(ROOT, "python", "fovea"))  # the package `fovea` around it loads the library
from convert import architectures  # noqa: E402: it is in another folder

PUBLISHED = {"mavit-t": 16.45, "mavit-s": 27.14, "nalaformer-xt": 6.14, "nalaformer-t": 15.91, "nalaformer-s": 25.65,
             "pola-swin-t": 29.29, "pola-swin-s": 50.60, "pola-swin-b": 89.14, "pola-pvt-t": 12.92,
             "pola-pvt-s": 23.16, "pola-pvt-m": 39.97, "pola-pvt-l": 54.37}
BUFFERS = ("attn_mask", "_index", "running_mean", "running_var", "RoPE.angle")
BACKBONE = "backbone.0.encoder.encoder."
FORMS = {"zip": archives.save, "legacy": archives.save_legacy}


class Counter:
    """A random generator that only counts."""

    def standard_normal(self, shape):
        return np.broadcast_to(np.float32(0), shape)

    def uniform(self, low, high, shape):
        return np.broadcast_to(np.float32(0), shape)


class Tests:
    def __init__(self, exe, folder):
        self.exe, self.folder, self.counts = exe, folder, [0, 0]
        self.rng = np.random.default_rng(3)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def note(self, what, bad):
        self.counts[bool(bad)] += 1
        if bad:
            print("FAIL %s: %s" % (what, bad), flush=True)

    def random(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def command(self, *arguments):
        return subprocess.run([sys.executable, os.path.join(ROOT, "python", "convert.py"), *arguments],
                              capture_output=True, text=True, cwd=self.folder)

    def convert(self, what, *arguments):
        """Runs the command; returns whether it succeeded."""
        p = self.command(*arguments)
        self.note(what, p.stderr if p.returncode else None)
        return p.returncode == 0

    def run(self, model, image):
        """The outputs of the model for an image, as the bytes of a file."""
        p = subprocess.run([self.exe, "run", model, image, "--compute", "f32", "-o", self.path("out.safetensors")],
                           capture_output=True, text=True, cwd=self.folder)
        if p.returncode:
            return p.stderr
        with open(self.path("out.safetensors"), "rb") as f:
            return f.read()


def tensors_of(weights, prefix=""):
    return {prefix + k: Tensor(v) for k, v in weights.items()}


def differs(folder, weights):
    """Names the tensors of a written folder that differ from `weights`, bit by bit; None if all are equal."""
    got = pola.load(os.path.join(folder, "model.safetensors"))
    if set(got) != set(weights):
        return "other tensors: %s" % sorted(set(got) ^ set(weights))[:4]
    bad = [k for k in got if got[k].shape != np.shape(weights[k]) or got[k].tobytes() != weights[k].tobytes()]
    return "other values: %s" % bad[:4] if bad else None


def published(t):
    """The number of parameters of a checkpoint with 1000 classes."""
    makers = {"pola_pvt": pola.make_pvt, "pola_swin": pola.make_swin}
    for name, millions in PUBLISHED.items():
        config = dict(architectures.MODELS[name], num_classes=1000, layerscales=[True] * 4)
        tensors = makers.get(config["model_type"], test_pyramid.checkpoint)(Counter(), config)
        got = sum(math.prod(v.shape) for k, v in tensors.items() if not k.endswith(BUFFERS)) / 1e6
        t.note("size of " + name, None if abs(got - millions) < 0.005 else "%.3fM, not %.2fM" % (got, millions))


def wrappers(t):
    """A paper's checkpoint, wrapped as training programs save it, gives the results of its definition."""
    config = pola.swin_config()
    weights = pola.make_swin(t.rng, config)
    other = {k: v + 1 for k, v in weights.items()}
    inner, worse = tensors_of(weights), tensors_of(other)
    with open(t.path("own.json"), "w") as f:
        json.dump(config, f)
    image = t.random(1, 3, 32, 32)
    pola.save(t.path("io.safetensors"), {"input": image})
    want = pola.define(config, weights, image[0])["logits"]
    step = {"state": {0: {"step": Tensor(np.float32(1)), "exp_avg": Tensor(t.random(3))}},
            "param_groups": [{"lr": 1}]}
    cases = {
        "bare": inner,
        "ordered": collections.OrderedDict(inner),
        "parameters": {k: Tensor(v, parameter=True) for k, v in weights.items()},
        "model": {"model": inner, "epoch": 3, "optimizer": step, "args": argparse.Namespace(lr=1e-3, names=["a"]),
                  "scaler": collections.defaultdict(dict), "best": {1, 2}, "done": None, "acc": 0.5},
        "counted": {"epoch": Tensor(np.int64(3)), "model": inner},
        "state_dict": {"state_dict": inner, "meta": {"classes": ("a", "b")}},
        "averaged": {"model": worse, "model_ema": inner},
        "ema": {"model": worse, "ema": inner},
        "settings of ema": {"model": inner, "ema": {"decay": 0.9}},
        "teacher": {"student": worse, "teacher": inner},
        "target_encoder": {"encoder": worse, "target_encoder": inner, "predictor": worse},
        "parallel": {"state_dict": tensors_of(weights, "module.")},
        "nested": {"model_ema": {"module": inner, "decay": 0.9}},
        "backbone": {"teacher": tensors_of(weights, "module.backbone.")},
        "compiled": tensors_of(weights, "_orig_mod.module."),
        "student": {"student": inner},
        "MMEngine's, which has the average in the other place": {
            "message_hub": {}, "state_dict": inner,
            "ema_state_dict": dict(tensors_of(other, "module."), steps=Tensor(np.int64(7)))},
        "another program's": {"state_dict": worse, "ema_state_dict": inner},
        "BasicSR's": {"params": worse, "params_ema": inner},
        "fully sharded": tensors_of(weights, "_fsdp_wrapped_module."),
        "swa": dict(tensors_of(weights, "module."), n_averaged=Tensor(np.int64(7))),
    }
    for name, saved in cases.items():
        for form, save in FORMS.items():
            what = "%s, %s" % (name, form)
            save(t.path("x.pth"), saved)
            shutil.rmtree(t.path("out"), ignore_errors=True)
            if t.convert(what, "x.pth", "own.json", "out"):
                t.note("weights of " + what, differs(t.path("out"), weights))
    archives.save(t.path("x.pth"), {"model": inner, "model_ema": worse})
    if t.convert("chosen", "x.pth", "out", "--architecture", "own.json", "--weights", "model"):
        t.note("weights chosen", differs(t.path("out"), weights))
    p = t.command("x.pth", "out", "--architecture", "own.json")
    said = "uses the weights of model_ema, not those of model (--weights" in p.stdout
    t.note("choice said", None if said else p.stdout)
    p = t.command("x.pth", "out", "--architecture", "own.json", "--weights", "model")
    t.note("choice told", None if p.stdout.count("\n") == 1 else p.stdout)
    archives.save(t.path("x.pth"), {"epoch": 3, "of": {"ema": {"module": inner}, "model": worse}})
    if t.convert("chosen inside", "x.pth", "own.json", "out", "--weights", "of.ema.module"):
        t.note("weights chosen inside", differs(t.path("out"), weights))
    archives.save(t.path("x.pth"), dict(tensors_of(weights, "backbone."), **{"head.weight": Tensor(t.random(2, 2))}))
    if t.convert("a prefix of some", "x.pth", "own.json", "some"):
        got = pola.load(t.path("some", "model.safetensors"))
        kept = set(got) == {"backbone." + k for k in weights} | {"head.weight"}
        t.note("names of some", None if kept else sorted(got))
    p = t.run("out", "io.safetensors")
    e = p if isinstance(p, str) else pola.error(pola.load(t.path("out.safetensors"))["logits"][0], want)
    t.note("run of a paper's", None if not isinstance(e, str) and e <= pola.TOLERANCE else e)


def layouts(t):
    """Types, views and shared storages: the written file must have the expected raw bytes."""
    rows, shared = t.random(40, 30), Storage(t.random(200))
    flat = shared.values
    maps = t.random(5, 6, 4, 3)  # memory of a 4 x 3 x 5 x 6 in rows of channels
    cases = {
        "float32": (Tensor(rows), "F32", rows),
        "transposed": (Tensor(Storage(rows), 0, (30, 40), (1, 30)), "F32", rows.T),
        "part": (Tensor(Storage(rows), 95, (6, 5), (30, 3)), "F32", rows[3:9, 5:20:3]),
        "shared a": (Tensor(shared, 0, (10, 10), (10, 1)), "F32", flat[:100].reshape(10, 10)),
        "shared b": (Tensor(shared, 100, (100,), (1,)), "F32", flat[100:]),
        "tied": (Tensor(shared, 0, (10, 10), (10, 1)), "F32", flat[:100].reshape(10, 10)),
        "expanded": (Tensor(Storage(rows), 7, (3, 4), (0, 0)), "F32", np.full((3, 4), rows[0, 7])),
        "expanded rows": (Tensor(Storage(rows), 0, (3, 30), (0, 1)), "F32", np.tile(rows[0], (3, 1))),
        "channels last": (Tensor(Storage(maps), 0, (4, 3, 5, 6), (3, 1, 72, 12)), "F32", maps.transpose(2, 3, 0, 1)),
        "scalar": (Tensor(np.float32(3.5)), "F32", np.float32(3.5)),
        "scalar inside": (Tensor(shared, 7, (), ()), "F32", flat[7]),
        "empty": (Tensor(Storage(rows), 0, (0, 4), (4, 1)), "F32", np.zeros((0, 4), np.float32)),
        "float64": (Tensor(rows.astype(np.float64)), "F64", rows.astype(np.float64)),
        "half": (Tensor(rows.astype(np.float16)), "F16", rows.astype(np.float16)),
        "bfloat16": (Tensor((rows.view(np.uint32) >> 16).astype(np.uint16)), "BF16",
                     (rows.view(np.uint32) >> 16).astype(np.uint16)),
        "bfloat16 transposed": (Tensor(Storage(np.arange(6, dtype=np.uint16)), 0, (3, 2), (1, 3)), "BF16",
                                np.arange(6, dtype=np.uint16).reshape(2, 3).T),
    }
    for kind, name in ((np.int64, "I64"), (np.int32, "I32"), (np.int16, "I16"), (np.int8, "I8"), (np.uint8, "U8"),
                       (np.bool_, "BOOL")):
        values = np.arange(7).astype(kind)
        cases[name] = (Tensor(values), name, values)
        cases[name + " reversed halves"] = (Tensor(Storage(values), 1, (3,), (2,)), name, values[1::2])
    for form, save in FORMS.items():
        save(t.path("x.pt"), {k: v[0] for k, v in cases.items()})
        if not t.convert("layouts, " + form, "x.pt", "vit_base", "layouts"):
            continue
        with open(t.path("layouts", "model.safetensors"), "rb") as f:
            blob = f.read()
        n = int.from_bytes(blob[:8], "little")
        head = json.loads(blob[8:8 + n])
        for name, (_, kind, want) in cases.items():
            got, raw = head.get(name, {}), np.ascontiguousarray(want).tobytes()
            begin, end = got.get("data_offsets", (0, 0))
            same = got.get("dtype") == kind and got.get("shape") == list(np.shape(want))
            same = same and blob[8 + n + begin:8 + n + end] == raw
            aligned = not raw or begin % want.dtype.itemsize == 0
            t.note("%s, %s" % (name, form), None if same and aligned else got)
        t.note("tensors, " + form, None if len(head) == len(cases) + 1 and len(blob) == 8 + n + max(
            v["data_offsets"][1] for k, v in head.items() if k != "__metadata__") else sorted(head))


def folders(t):
    """Folders of the hub, in one file or in shards, converted in place or elsewhere, run like their safetensors."""
    for name in ("vit-01", "dinov2-03", "dinov2-with-registers-03", "clip-vision-02", "siglip-02"):
        own, hub = os.path.join(GOLDEN, name), t.path("hub-" + name)
        weights = pola.load(os.path.join(own, "model.safetensors"))
        image = os.path.join(own, "io.safetensors")
        want = t.run(own, image)
        os.mkdir(hub)
        shutil.copy(os.path.join(own, "config.json"), hub)
        with open(os.path.join(hub, "preprocessor_config.json"), "w") as f:
            f.write('{"do_resize": false}')
        archives.save(os.path.join(hub, "training_args.bin"), {"no": "weights"})
        file = os.path.join(hub, "pytorch_model.bin")
        archives.save(file, tensors_of(weights))
        if t.convert(name, hub, "of-" + name):
            t.note("weights of " + name, differs(t.path("of-" + name), weights))
            t.note("run of " + name, None if t.run("of-" + name, image) == want else "not as its safetensors")
        for kept in ("config.json", "preprocessor_config.json"):
            with open(os.path.join(hub, kept), "rb") as a, open(t.path("of-" + name, kept), "rb") as b:
                t.note("%s of %s" % (kept, name), None if a.read() == b.read() else "another")
        command = re.search('"fovea convert (.*?)"', str(t.run(hub, image)))
        t.note("the command for " + name, None if command else "is not said")
        if command and t.convert(name + " in place", *command.group(1).split()):
            t.note("run in place of " + name, None if t.run(hub, image) == want else "not as its safetensors")
        os.remove(file)
        os.remove(os.path.join(hub, "model.safetensors"))
        names = sorted(weights)
        places = {k: "pytorch_model-0000%d-of-00002.bin" % (1 + (i > len(names) // 2)) for i, k in enumerate(names)}
        for form, save in FORMS.items():
            for shard in set(places.values()):
                save(os.path.join(hub, shard), tensors_of({k: weights[k] for k in names if places[k] == shard}))
            with open(file + ".index.json", "w") as f:
                json.dump({"metadata": {}, "weight_map": places}, f)
            if t.convert("shards of %s, %s" % (name, form), *([hub] if form == "zip" else [file + ".index.json"]),
                         "of-shards"):
                t.note("weights of shards of " + name, differs(t.path("of-shards"), weights))


def clip_tower(rng):
    """A tower in OpenAI's names; a width of 64 is one head."""
    def some(*shape):
        return (rng.standard_normal(shape) * 0.2).astype(np.float32)

    tower = {"class_embedding": some(64), "positional_embedding": some(5, 64), "conv1.weight": some(64, 3, 8, 8),
             "proj": some(64, 16)}
    norms = {"ln_pre": 64, "ln_post": 64}
    for i in range(2):
        block = "transformer.resblocks.%d." % i
        norms.update({block + "ln_1": 64, block + "ln_2": 64})
        for stem, rows, cols in (("attn.in_proj_", 192, 64), ("attn.out_proj.", 64, 64), ("mlp.c_fc.", 256, 64),
                                 ("mlp.c_proj.", 64, 256)):
            tower[block + stem + "weight"], tower[block + stem + "bias"] = some(rows, cols), some(rows)
    for stem, n in norms.items():
        tower[stem + ".weight"], tower[stem + ".bias"] = 1 + some(n), some(n)
    return {"visual." + k: v for k, v in tower.items()}


def clips(t):
    """OpenAI's TorchScript archives and OpenCLIP's files run with the GELU that their models were trained with."""
    tower = clip_tower(t.rng)
    facts = {"input_resolution": np.int64(16), "context_length": np.int64(77)}
    image = t.path("clip.safetensors")
    pola.save(image, {"input": t.random(1, 3, 16, 16)})
    want = {}
    for act in ("gelu", "quick_gelu"):
        folder = t.path(act)
        os.mkdir(folder)
        pola.save(os.path.join(folder, "model.safetensors"), tower)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({"model_type": "clip", "vision_config": {"hidden_act": act}}, f)
        want[act] = t.run(folder, image)
    t.note("GELUs", "alike" if want["gelu"] == want["quick_gelu"] or isinstance(want["gelu"], str) else None)
    script = archives.script_of(tensors_of(dict(tower, **facts)))
    vars(script)["visual"].sizes = [1, 2]
    plain = tensors_of(tower)
    for name, save, saved, act in (("ViT-B/32", archives.save_script, script, "quick_gelu"),
                                   ("ViT-B-32", archives.save_script, script, "quick_gelu"),
                                   ("ViT-L/14@336px", archives.save, plain, "quick_gelu"),
                                   ("ViT-B-32-quickgelu", archives.save, plain, "quick_gelu"),
                                   ("ViT-B-32", archives.save, {"state_dict": tensors_of(tower, "module.")}, "gelu"),
                                   ("ViT-SO400M-14-378", archives.save_legacy, plain, "gelu")):
        save(t.path("x.pt"), saved)
        if t.convert(name, "x.pt", "clip", "--architecture", name):
            more = facts if save == archives.save_script else {}
            t.note("weights of " + name, differs(t.path("clip"), dict(tower, **more)))
            t.note("run of " + name, None if t.run("clip", image) == want[act] else "another GELU")

    vision = {"image_size": 16, "layers": 2, "width": 64, "patch_size": 8, "ls_init_value": None, "pool_type": "tok"}
    for quick, mode in ((False, "shortest"), (True, "squash")):
        os.makedirs(t.path("open"), exist_ok=True)
        archives.save(t.path("open", "open_clip_pytorch_model.bin"), plain)
        with open(t.path("open", "open_clip_config.json"), "w") as f:
            json.dump({"model_cfg": {"embed_dim": 16, "vision_cfg": vision, "quick_gelu": quick},
                       "preprocess_cfg": {"mean": [0.1, 0.2, 0.3], "resize_mode": mode}}, f)
        if t.convert("OpenCLIP's folder", "open", "clip"):
            act = "quick_gelu" if quick else "gelu"
            t.note("run of OpenCLIP's folder", None if t.run("clip", image) == want[act] else "another GELU")
        with open(t.path("clip", "preprocessor_config.json")) as f:
            got = json.load(f)
        size = {"shortest_edge": 16} if mode == "shortest" else {"height": 16, "width": 16}
        t.note("OpenCLIP's pixels", None if got["size"] == size and got["image_mean"] == [0.1, 0.2, 0.3] else got)
    with open(t.path("open", "open_clip_config.json"), "w") as f:
        json.dump({"model_cfg": {"vision_cfg": {"image_size": 224, "timm_model_name": "vit_base_patch16_siglip_224",
                                                "timm_pool": "map", "timm_proj": "none"}},
                   "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3, "resize_mode": "squash"}}, f)
    if t.convert("OpenCLIP's timm tower", "open", "timm"):
        with open(t.path("timm", "config.json")) as f:
            got = json.load(f)
        good = got["architecture"] == "vit_base_patch16_siglip_224" and got["pretrained_cfg"]["crop_mode"] == "squash"
        t.note("config of a timm tower", None if good else got)


def dinov3(t):
    """The authors' file, without a config.json and by its name on torch.hub."""
    golden = os.path.join(GOLDEN, "dinov3-original-01")
    weights = {k: np.array(v) for k, v in pola.load(os.path.join(golden, "model.safetensors")).items()}
    image = os.path.join(golden, "io.safetensors")
    archives.save(t.path("dinov3.pth"), tensors_of(weights))
    for name, more in (("DINOv3", []), ("DINOv3 by name", ["--architecture", "dinov3_vits16plus"])):
        if t.convert(name, "dinov3.pth", "dinov3", *more):
            t.note("weights of " + name, differs(t.path("dinov3"), weights))
            t.note("run of " + name, None if t.run("dinov3", image) == t.run(golden, image) else "another")


DEPTH = {"cls_token": "embeddings.cls_token", "pos_embed": "embeddings.position_embeddings",
         "patch_embed.proj.weight": "embeddings.patch_embeddings.projection.weight", "norm.bias": "layernorm.bias",
         "blocks.3.norm1.weight": "encoder.layer.3.norm1.weight",
         "blocks.3.ls2.gamma": "encoder.layer.3.layer_scale2.lambda1",
         "blocks.3.attn.proj.bias": "encoder.layer.3.attention.output.dense.bias",
         "blocks.3.mlp.fc1.weight": "encoder.layer.3.mlp.fc1.weight"}
DEPTH_HEAD = {"projects.1.bias": "neck.reassemble_stage.layers.1.projection.bias",
              "resize_layers.3.weight": "neck.reassemble_stage.layers.3.resize.weight",
              "scratch.layer2_rn.weight": "neck.convs.1.weight",
              "scratch.refinenet4.out_conv.weight": "neck.fusion_stage.layers.0.projection.weight",
              "scratch.refinenet1.resConfUnit2.conv1.bias":
                  "neck.fusion_stage.layers.3.residual_layer2.convolution1.bias",
              "scratch.output_conv1.weight": "head.conv1.weight", "scratch.output_conv2.0.weight": "head.conv2.weight",
              "scratch.output_conv2.2.bias": "head.conv3.bias"}


def depth_anything(t):
    """Names and settings of tensors. The values were compared with the authors' code at 518 pixels and other sizes."""
    for width, file, more, taps, metres in (
            (384, "depth_anything_v2_vits.pth", [], [3, 6, 9, 12], None),
            (1024, "x.pth", ["--architecture", "depth_anything_v2_metric_vkitti_vitl"], [5, 12, 18, 24], 80),
            (768, "depth_anything_vitb14.pth", [], [9, 10, 11, 12], None)):
        weights = {"pretrained." + k: t.random(4) for k in DEPTH}
        weights.update({"depth_head." + k: t.random(4) for k in DEPTH_HEAD})
        weights["pretrained.patch_embed.proj.weight"] = t.random(width, 1, 1, 1)
        want = {"backbone." + new: weights["pretrained." + old] for old, new in DEPTH.items()}
        want.update({new: weights["depth_head." + old] for old, new in DEPTH_HEAD.items()})
        qkv = weights["pretrained.blocks.3.attn.qkv.weight"] = t.random(6, 3)
        for i, part in enumerate(("query", "key", "value")):
            want["backbone.encoder.layer.3.attention.attention.%s.weight" % part] = qkv[2 * i:2 * i + 2]
        archives.save(t.path(file), tensors_of(weights))
        shutil.rmtree(t.path("out"), ignore_errors=True)
        if not t.convert("Depth Anything, " + file, file, "out", *more):
            continue
        t.note("weights of " + file, differs(t.path("out"), want))
        with open(t.path("out", "config.json")) as f:
            got = json.load(f)
        good = (got["backbone_config"]["out_indices"], got["max_depth"], got["fovea"]) == (
            taps, metres, {"pos_interp": "offset"})
        t.note("config of " + file, None if good else got)


def rf_detr(t):
    """A checkpoint as rfdetr saves it runs like the golden model, with its own number of heads and epsilon."""
    golden, image = os.path.join(GOLDEN, "rf-detr-02"), os.path.join(GOLDEN, "rf-detr-02", "io.safetensors")
    weights = {k: np.array(v) for k, v in pola.load(os.path.join(golden, "model.safetensors")).items()}
    kept = {k: v for k, v in weights.items() if not re.match(r"transformer\.enc_\w+\.1\.", k)}
    kept.update({k: weights[k][:5] for k in ("query_feat.weight", "refpoint_embed.weight")})
    with open(os.path.join(golden, "config.json")) as f:
        config = json.load(f)
    config["layer_norm_eps"], config["backbone_config"]["num_attention_heads"] = 1e-6, 16
    os.mkdir(t.path("rf-detr"))
    pola.save(t.path("rf-detr", "model.safetensors"), weights)
    with open(t.path("rf-detr", "config.json"), "w") as f:
        json.dump(config, f)
    want = t.run("rf-detr", image)
    t.note("the golden RF-DETR", want if isinstance(want, str) else None)

    says = {"encoder": "dinov2_windowed_large", "out_feature_indexes": [1, 3], "patch_size": 7, "num_windows": 2,
            "hidden_dim": 16, "dec_layers": 2, "sa_nheads": 4, "ca_nheads": 2, "dec_n_points": 3, "num_queries": 5,
            "num_select": 300, "group_detr": 2, "projector_scale": ["P4"], "two_stage": True, "bbox_reparam": True,
            "lite_refpoint_refine": True, "layer_norm": True, "rms_norm": False, "decoder_norm": "LN",
            "segmentation_head": False, "pretrain_weights": None, "resolution": 42, "positional_encoding_size": 4}
    inner = tensors_of(dict(weights, _kp_active_mask=np.zeros((0, 0), bool)))
    other = tensors_of({k: v + 1 for k, v in weights.items()})
    later = ("num_queries", "patch_size", "num_windows", "num_select", "layer_norm")
    old = {k: v for k, v in says.items() if k not in later}
    cases = {
        "Namespace": {"model": inner, "args": argparse.Namespace(**says), "epoch": 3},
        "dictionary": {"model": inner, "args": says},
        "SimpleNamespace": {"model": inner, "args": types.SimpleNamespace(**says)},
        "averaged": {"model": other, "ema_model": inner, "args": argparse.Namespace(**says)},
        "two places": {"model": inner, "args": {"lr": 1e-4, "num_select": 300, "group_detr": 13, "encoder": None},
                       "model_config": says, "model_name": "RFDETRSmall"},
        "Lightning": {"state_dict": {"model." + k: v for k, v in inner.items()}, "hyper_parameters": says},
        "old names": {"model": inner, "args": argparse.Namespace(**old, dinov2_patch_size=7, dinov2_num_windows=2)},
        "one scale": {"model": inner, "args": argparse.Namespace(**dict(says, projector_scale="P4"))},
    }
    for name, saved in cases.items():
        for form, save in FORMS.items():
            what = "RF-DETR, %s, %s" % (name, form)
            save(t.path("x.pth"), saved)
            shutil.rmtree(t.path("out"), ignore_errors=True)
            if t.convert(what, "x.pth", "out"):
                t.note("weights of " + what, differs(t.path("out"), kept))
                t.note("run of " + what, None if t.run("out", image) == want else "not as the golden model")
    with open(t.path("out", "preprocessor_config.json")) as f:
        size = json.load(f)["size"]
    t.note("RF-DETR's pixels", None if size == {"height": 42, "width": 42} else size)
    archives.save(t.path("x.pth"), inner)
    with open(t.path("own.json"), "w") as f:
        json.dump(dict(says, model_type="rf_detr"), f)
    if t.convert("RF-DETR by its fields", "x.pth", "own.json", "out"):
        t.note("run of RF-DETR by its fields", None if t.run("out", image) == want else "not as the golden model")
    rf_detr_configs(t, inner, says)


def rf_detr_masks(t):
    """A checkpoint with a head for masks, as rfdetr saves it, runs like the golden model."""
    golden = os.path.join(GOLDEN, "rf-detr-seg-01")
    weights = {k: np.array(v) for k, v in pola.load(os.path.join(golden, "model.safetensors")).items()}
    with open(os.path.join(golden, "config.json")) as f:
        config = json.load(f)
    config["layer_norm_eps"], config["backbone_config"]["num_attention_heads"] = 1e-6, 16
    config["mask_downsample_ratio"] = 3
    os.mkdir(t.path("masks"))
    pola.save(t.path("masks", "model.safetensors"), weights)
    with open(t.path("masks", "config.json"), "w") as f:
        json.dump(config, f)
    image = os.path.join(golden, "io.safetensors")
    want = t.run("masks", image)
    t.note("the golden RF-DETR with masks", want if isinstance(want, str) else None)
    says = {"encoder": "dinov2_windowed_large", "out_feature_indexes": [1, 3], "patch_size": 7, "num_windows": 2,
            "hidden_dim": 16, "dec_layers": 2, "sa_nheads": 4, "ca_nheads": 2, "dec_n_points": 3, "num_queries": 5,
            "num_select": 5, "group_detr": 2, "segmentation_head": True, "mask_downsample_ratio": 3}
    archives.save(t.path("x.pth"), {"model": tensors_of(weights), "model_config": says})
    if t.convert("RF-DETR with masks", "x.pth", "seg"):
        t.note("run of RF-DETR with masks", None if t.run("seg", image) == want else "not as the golden model")
        with open(t.path("seg", "config.json")) as f:
            got = json.load(f)
        t.note("class of RF-DETR with masks",
               None if got["architectures"] == ["RfDetrForInstanceSegmentation"] else got["architectures"])


def rf_detr_configs(t, inner, says):
    """config.json of the published sizes, and of other settings in the checkpoint."""
    small = {"decoder_layers": 3, "num_queries": 300, "decoder_self_attention_heads": 8}
    small_backbone = {"patch_size": 16, "num_windows": 2, "num_attention_heads": 6, "image_size": 512}
    queries = {k: Tensor(t.random(3900, 4)) for k in ("query_feat.weight", "refpoint_embed.weight")}
    classes = {"class_embed.weight": Tensor(t.random(91, 16))}
    whole = dict(inner, **queries, **classes)
    masks = {"segmentation_head.query_features_block.layers.0.weight": Tensor(t.random(24, 16))}
    base = {"patch_size": 14, "num_windows": 4, "image_size": 518, "out_indices": [2, 5, 8, 11]}
    no_windows = {k: v for k, v in says.items() if k not in ("num_windows", "patch_size")}
    patch = {BACKBONE + "embeddings.patch_embeddings.projection.weight": Tensor(t.random(16, 3, 14, 14))}
    trained = {"args": {"lr": 1}, "model_name": "RFDETRSmall"}
    no_queries = dict(says, num_queries=None, group_detr=None)
    cases = {
        "by its name": ("x.pth", ["--architecture", "rf-detr-small"], whole, small, small_backbone),
        "by its file": ("rf-detr-small.pth", [], {"model": whole}, small, small_backbone),
        "by its class": ("x.pth", [], dict(trained, model=whole), small, small_backbone),
        "with masks by its class": ("x.pth", [], {"model": dict(whole, **masks), "model_name": "RFDETRSegNano"},
                                    {"decoder_layers": 4, "num_queries": 100, "mask_downsample_ratio": 4,
                                     "architectures": ["RfDetrForInstanceSegmentation"], "intermediate_size": 24},
                                    {"patch_size": 12, "num_windows": 1, "image_size": 312}),
        "with masks by its file": ("rf-detr-seg-xl-ft.pth", [], {"model": dict(whole, **masks)},
                                   {"decoder_layers": 6, "num_queries": 300}, {"patch_size": 12, "image_size": 624}),
        "of COCO by its file": ("rf-detr-base-coco.pth", [], whole, {"decoder_layers": 3}, base),
        "with fewer boxes": ("x.pth", [], {"model": inner, "args": dict(says, num_select=3)},
                             {"fovea": {"max_per_img": 3}}, {}),
        "before windows were said": ("x.pth", [], {"model": dict(inner, **patch), "args": no_windows}, {},
                                     {"num_windows": 4, "patch_size": 14}),
        "before queries were said": ("x.pth", [], {"model": whole, "args": no_queries}, {"num_queries": 300}, {}),
    }
    for name, (file, more, saved, fields, backbone) in cases.items():
        archives.save(t.path(file), saved)
        shutil.rmtree(t.path("out"), ignore_errors=True)
        if t.convert("RF-DETR " + name, file, "out", *more):
            with open(t.path("out", "config.json")) as f:
                got = json.load(f)
            good = all(got.get(k) == v for k, v in fields.items())
            good = good and all(got["backbone_config"].get(k) == v for k, v in backbone.items())
            t.note("config of RF-DETR " + name, None if good else got)
            names = got.get("id2label", {})
            of_coco = (names.get("17"), names.get("12"), names.get("90")) == ("cat", "LABEL_12", "toothbrush")
            good = of_coco if saved.get("model", saved)["class_embed.weight"] in classes.values() else not names
            t.note("labels of RF-DETR " + name, None if good else names)


def main(argv):
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(os.path.abspath(argv[0]), folder)
        for test in (published, wrappers, layouts, folders, clips, dinov3, depth_anything, rf_detr, rf_detr_masks):
            test(t)
    print("%d passed, %d failed, 0 skipped" % tuple(t.counts))
    return 1 if t.counts[1] else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))
