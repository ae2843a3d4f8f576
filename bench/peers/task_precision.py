#!/usr/bin/env python3
"""task_precision.py: how far depth, boxes, masks and key points in bfloat16 are from those in float32, in the units of
each task: for Fovea and for PyTorch's `model.to(torch.bfloat16)`, each compared with its own float32.

    task_precision.py TRAINED PHOTOS FOLDER [NAME ...]     called by bench/peers/task_precision.sh

The models are those of task_models.py. No checkpoint of any of them is in a package, so their backbones use the
trained ViT-S/14 of the folder TRAINED, with patch embedding and positions resized to each model's sizes. The parts
after the backbone have random weights that preserve the size of activations, so that results differ between
positions and between pictures. PHOTOS are the pictures, resized to the model's size without regard to their aspect
ratio.
"""
import os
import re
import sys

import numpy as np

import task_models

HERE = os.path.dirname(os.path.abspath(__file__))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BEST = 20     # number of queries per picture whose boxes are compared
STRIDE = 4    # pixels of the picture per pixel of ViTPose's heat maps
# share of a heat map's range by which its peak must exceed all other peaks to be compared
CLEAR = 0.05

# ---- models ----

# Maps the models' tensor names to those of the trained ViT.
RENAMED = [(r"^(model\.)?(backbone\.)*", ""), (r"^layers\.", "encoder.layer."),
           (r"\.attention\.q_proj\.", ".attention.attention.query."),
           (r"\.attention\.k_proj\.", ".attention.attention.key."),
           (r"\.attention\.v_proj\.", ".attention.attention.value."),
           (r"\.attention\.(o_proj|out_proj)\.", ".attention.output.dense."),
           (r"\.layernorm_before\.", ".norm1."), (r"\.layernorm_after\.", ".norm2."),
           (r"position_embeddings\.weight$", "position_embeddings")]
BACKBONES = ("backbone.", "model.backbone.backbone.", "embeddings.", "layers.", "layernorm.")


def trained_name(name):
    for pattern, theirs in RENAMED:
        name = re.sub(pattern, theirs, name)
    return name


def resized(w, like):
    """Resizes patches and positions to the model's numbers."""
    import torch
    def grid(x, size):
        return torch.nn.functional.interpolate(x, size=size, mode="bicubic")
    if w.dim() == 4:
        return grid(w, like.shape[-2:]) * (w.shape[-1] / like.shape[-1]) ** 2
    # a table with three dimensions begins with the class token's position
    tokens = like.shape[-2] - like.dim() + 2
    tall = 16 if tokens == 192 else round(tokens ** 0.5)
    side = round((w.shape[1] - 1) ** 0.5)
    places = grid(w[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2), (tall, tokens // tall))
    places = places.flatten(2).transpose(1, 2)
    return places[0] if like.dim() == 2 else torch.cat([w[:, :1], places], 1)


def fill(model, trained):
    """Copies the backbone's tensors from the trained ViT; the others get random values."""
    import torch
    torch.manual_seed(0)
    own = model.state_dict()
    scales = any("layer_scale" in name for name in own)
    taken = 0
    for name, p in own.items():
        source = trained_name(name)
        if name.startswith(BACKBONES) and source in trained:
            w = trained[source]
            layer = re.match(r"(encoder\.layer\.\d+)\.(attention\.output\.dense|mlp\.fc2)\.", source)
            # the model has no layer scale, so the scale is multiplied into the weight
            if layer and not scales:
                scale = trained["%s.layer_scale%d.lambda1" % (layer[1], 1 if "attention" in layer[2] else 2)]
                w = w * (scale[:, None] if w.dim() == 2 else scale)
            p.copy_(w if w.shape == p.shape else resized(w, p))
            taken += 1
        elif p.dim() > 1:
            # small weights, so that boxes stay near their starting points
            near = re.search(r"bbox_embed|reference_point", name)
            torch.nn.init.normal_(p, std=(0.1 if near else 1) * (2 / p[0].numel()) ** 0.5)
    if taken < 12 * 14:
        raise SystemExit("task_precision.py: only %d tensors of the backbone are trained ones" % taken)


def make(name, folder, trained):
    """PyTorch's module of the model; writes the checkpoint if it does not exist yet."""
    import torch
    from safetensors.torch import load_file
    if not os.path.exists(os.path.join(folder, "config.json")):
        model = task_models.TASKS[name].make("")[0]
        with torch.no_grad():
            fill(model, load_file(os.path.join(trained, "model.safetensors")))
        model.save_pretrained(folder)
    return task_models.module(name, folder, "")


def pixels(path, shape):
    from PIL import Image
    image = Image.open(path).convert("RGB").resize((shape[3], shape[2]), Image.BICUBIC)
    x = (np.asarray(image, np.float32) / 255 - MEAN) / STD
    return np.ascontiguousarray(x.transpose(2, 0, 1)[None], np.float32)


# ---- engines: run(pixels, "f32" or "bf16") -> the outputs ----

def fovea_engine(name, folder):
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))
    import fovea
    model = fovea.Model(folder, fovea.Device(threads=os.cpu_count()))
    outputs = task_models.TASKS[name].outputs

    def run(x, compute):
        got = model.run(x[0], None, outputs, compute=compute)
        return [np.array(got[o], np.float64) for o in outputs]

    return run


def sample_in_float32():
    """Makes PyTorch's grid_sample compute in float32: in bfloat16 it gives NaN for RF-DETR's finite values,
    findings/torch_bf16_grid_sample_strided.sh."""
    import torch
    sample = torch.nn.functional.grid_sample
    torch.nn.functional.grid_sample = lambda value, grid, **how: sample(value.float(), grid.float(),
                                                                        **how).to(value.dtype)


def torch_engine(module):
    import copy
    import torch
    models = {"f32": module, "bf16": copy.deepcopy(module).to(torch.bfloat16)}

    @torch.inference_mode()
    def run(x, compute):
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[compute]
        return [y.float().numpy().astype(np.float64) for y in models[compute](torch.from_numpy(x).to(dtype))]

    return run


# ---- measures: dictionaries of lists, computed from the outputs in float32 and in bfloat16 ----

def depth(exact, rounded):
    a, b = exact[0].ravel(), rounded[0].ravel()
    return {"relative error of depth": [abs(b - a).mean() / abs(a).mean()],
            "1 - cosine of the map": [1 - (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())]}


def corners(boxes):
    centre, half = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], 1)


def overlaps(a, b):
    """IoU of each box with each box."""
    a, b = corners(a)[:, None], corners(b)[None]
    sides = np.maximum(0, np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2]))
    both = sides.prod(-1)
    return both / ((a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - both)


def boxes(exact, rounded):
    """Pairs each of the best boxes with the one that overlaps it most, because the order of queries may change."""
    scores = [1 / (1 + np.exp(-x[0].max(1))) for x in (exact, rounded)]
    best = np.argsort(-scores[0])[:BEST]
    iou = overlaps(exact[1][best], rounded[1])
    found = iou.argmax(1)
    return {"1 - IoU of boxes": 1 - iou.max(1), "difference of scores": abs(scores[0][best] - scores[1][found])}


def masks(exact, rounded):
    a, b = exact[0] > 0, rounded[0] > 0
    some = a.any(0)
    return {"1 - IoU of masks": 1 - ((a & b).sum(0) / np.maximum(1, (a | b).sum(0)))[some]}


def peaks(maps, wide):
    """Positions of the largest numbers, each refined by a parabola through its neighbours."""
    found = []
    for m in maps.T.reshape(maps.shape[1], -1, wide):
        y, x = np.unravel_index(m.argmax(), m.shape)
        place = []
        for at, line in ((y, m[:, x]), (x, m[y])):
            bend = line[at - 1] - 2 * line[at] + line[at + 1] if 0 < at < len(line) - 1 else 0
            place.append(at + ((line[at - 1] - line[at + 1]) / 2 / bend if bend < 0 else 0))
        found.append(place)
    return np.array(found)


def stands_out(maps, wide):
    """Whether a map's largest value clearly exceeds all values more than two positions away. With random weights some
    maps have two peaks of nearly equal height, and any rounding may select the other one."""
    found = []
    for m in maps.T.reshape(maps.shape[1], -1, wide):
        y, x = np.unravel_index(m.argmax(), m.shape)
        rest = m.copy()
        rest[max(0, y - 2):y + 3, max(0, x - 2):x + 3] = m.min()
        found.append(m.max() - rest.max() > CLEAR * (m.max() - m.min()))
    return np.array(found)


def key_points(exact, rounded):
    wide = task_models.TASKS["vitpose-s"].shape(256)[3] // STRIDE
    moved = STRIDE * np.linalg.norm(peaks(exact[0], wide) - peaks(rounded[0], wide), axis=1)
    return {"pixels that key points move": moved[stands_out(exact[0], wide)]}


MEASURES = {"depth-anything-s": depth, "rf-detr": boxes, "eomt-s": masks, "vitpose-s": key_points}


def main(trained, photos, folder, *names):
    import torch
    torch.set_num_threads(os.cpu_count())
    sample_in_float32()
    print("| model | measure | number | Fovea, mean | PyTorch, mean | Fovea, worst | PyTorch, worst |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in names or MEASURES:
        own = os.path.join(folder, "trained-" + name)
        module = make(name, own, trained)
        engines = [fovea_engine(name, own), torch_engine(module)]
        found = [{}, {}]
        for photo in sorted(os.listdir(photos)):
            x = pixels(os.path.join(photos, photo), task_models.TASKS[name].shape(task_models.TASKS[name].size))
            exact = [run(x, "f32") for run in engines]
            difference = abs(exact[0][0].ravel() - exact[1][0].ravel()).max() / abs(exact[1][0]).max()
            print("%s, %s: the two in float32 differ by %.1e of the largest" % (name, photo, difference), file=sys.stderr)
            for into, run, want in zip(found, engines, exact):
                for what, values in MEASURES[name](want, run(x, "bf16")).items():
                    into.setdefault(what, []).extend(values)
        for what in found[0]:
            mine, other = (np.array(f[what], float) for f in found)
            print("| %s | %s | %d | %.2g | %.2g | %.2g | %.2g |" %
                  (name, what, len(mine), mine.mean(), other.mean(), mine.max(), other.max()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
