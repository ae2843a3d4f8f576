#!/usr/bin/env python3
"""test_heads.py: heads without golden vectors: DeiT with distillation, CLIP and SigLIP classifiers.

    test_heads.py path/to/fovea

Checkpoints are made from golden ones by renaming and adding tensors. The expected results are computed from the
program's own token features, which the golden vectors cover.
"""
import array
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models")
CLASSES = 7


def load(path):
    """{name: (shape, values)} of the float32 tensors."""
    blob = open(path, "rb").read()
    n = struct.unpack("<Q", blob[:8])[0]
    out = {}
    for name, t in json.loads(blob[8:8 + n]).items():
        if name == "__metadata__" or t["dtype"] != "F32":
            continue
        begin, end = t["data_offsets"]
        values = array.array("f")
        values.frombytes(blob[8 + n + begin:8 + n + end])
        out[name] = (t["shape"], values)
    return out


def save(path, tensors):
    head, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = values.tobytes()
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


def noise(*shape):
    count = 1
    for n in shape:
        count *= n
    return list(shape), array.array("f", [random.uniform(-1, 1) for _ in range(count)])


def linear(row, weight, bias):
    width = len(row)
    return [sum(w * x for w, x in zip(weight[i * width:(i + 1) * width], row)) + bias[i]
            for i in range(len(bias))]


def mean(rows):
    return [sum(column) / len(rows) for column in zip(*rows)]


def outputs(exe, folder, source):
    """Logits and rows of last_hidden_state of the first picture."""
    out = os.path.join(folder, "out.safetensors")
    subprocess.run([exe, "run", folder, os.path.join(source, "io.safetensors"), "--compute", "f32", "-o",
                    out], check=True, stdout=subprocess.DEVNULL)
    got = load(out)
    (_, tokens, width), values = got["last_hidden_state"]
    rows = [values[i * width:(i + 1) * width] for i in range(tokens)]
    return list(got["logits"][1][:CLASSES]), rows


def make(folder, name, config, change):
    source = os.path.join(MODELS, name)
    settings = json.load(open(os.path.join(source, "config.json")))
    settings.update(config)
    settings["id2label"] = {str(i): "class %d" % i for i in range(CLASSES)}
    json.dump(settings, open(os.path.join(folder, "config.json"), "w"))
    tensors = change(load(os.path.join(source, "model.safetensors")))
    save(os.path.join(folder, "model.safetensors"), tensors)
    return source, tensors


def deit(tensors):
    width = tensors["vit.embeddings.cls_token"][0][-1]
    out = {k.replace("vit.", "deit.", 1): v for k, v in tensors.items() if k.startswith("vit.")}
    shape, values = out["deit.embeddings.position_embeddings"]
    _, extra = noise(1, width)
    out["deit.embeddings.position_embeddings"] = ([1, shape[1] + 1, width], values + extra)
    out["deit.embeddings.distillation_token"] = noise(1, 1, width)
    for head in ("cls_classifier", "distillation_classifier"):
        out[head + ".weight"] = noise(CLASSES, width)
        out[head + ".bias"] = noise(CLASSES)
    return out


def classifier(width_of):
    def change(tensors):
        tensors["classifier.weight"] = noise(CLASSES, tensors[width_of][0][0])
        tensors["classifier.bias"] = noise(CLASSES)
        return tensors
    return change


def deit_logits(t, rows):
    pair = [linear(rows[i], t[h + ".weight"][1], t[h + ".bias"][1])
            for i, h in enumerate(("cls_classifier", "distillation_classifier"))]
    return mean(pair)


def mean_logits(first):
    return lambda t, rows: linear(mean(rows[first:]), t["classifier.weight"][1],
                                  t["classifier.bias"][1])


CASES = [
    ("DeiT with distillation", "vit-01",
     {"model_type": "deit", "architectures": ["DeiTForImageClassificationWithTeacher"]}, deit,
     deit_logits),
    ("CLIP classifier", "clip-vision-02",
     {"model_type": "clip_vision_model", "architectures": ["CLIPForImageClassification"]},
     classifier("vision_model.embeddings.class_embedding"), mean_logits(1)),
    ("SigLIP classifier", "siglip-02",
     {"model_type": "siglip_vision_model", "architectures": ["SiglipForImageClassification"]},
     classifier("vision_model.post_layernorm.bias"), mean_logits(0)),
]


def main(argv):
    passed = failed = 0
    random.seed(1)
    for title, name, config, change, expect in CASES:
        with tempfile.TemporaryDirectory() as folder:
            source, tensors = make(folder, name, config, change)
            got, rows = outputs(os.path.abspath(argv[0]), folder, source)
            want = expect(tensors, rows)
        off = max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))
        if off <= 2e-5:
            passed += 1
        else:
            failed += 1
            print("FAIL %s: logits off by %.2e" % (title, off))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
