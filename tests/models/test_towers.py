#!/usr/bin/env python3
"""test_towers.py: vision towers inside checkpoints of larger models.

    test_towers.py path/to/fovea

The tensors of golden models get the names that they have in vision-language models, and are stored in separate
shards; the other shards are absent or damaged. The results must be those of the tower alone, bit by bit.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
MODELS = os.path.join(DATA, "golden", "models")
EXE = os.path.abspath(sys.argv.pop(1))


def load(path):
    """{name: (type, shape, bytes)}."""
    with open(path, "rb") as f:
        blob = f.read()
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    head.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], blob[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in head.items()}


def save(path, tensors):
    head, at = {}, 0
    for name, (kind, shape, raw) in tensors.items():
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in tensors.values()))


def config_of(model):
    with open(os.path.join(MODELS, model, "config.json"), encoding="utf-8") as f:
        return json.load(f)


def tower(model):
    tensors = load(os.path.join(MODELS, model, "model.safetensors"))
    return {name: t for name, t in tensors.items() if name.startswith("vision_model.")}


def renamed(tensors, before):
    return {before + name[len("vision_model."):]: t for name, t in tensors.items()}


def openai(tensors):
    """CLIP's tower in its authors' names, which OpenCLIP uses too."""
    plain = {"embeddings.class_embedding": "class_embedding", "embeddings.patch_embedding.weight": "conv1.weight",
             "embeddings.position_embedding.weight": "positional_embedding"}
    words = [("encoder.layers.", "transformer.resblocks."), ("layer_norm", "ln_"), ("mlp.fc1", "mlp.c_fc"),
             ("mlp.fc2", "mlp.c_proj"), ("self_attn.out_proj", "attn.out_proj"), ("pre_layrnorm", "ln_pre"),
             ("post_layernorm", "ln_post")]
    out = {}
    for name, t in renamed(tensors, "").items():
        cut = re.fullmatch(r"(encoder\.layers\.\d+\.)self_attn\.([qkv])_proj\.(\w+)", name)
        if cut:
            joined = [tensors["vision_model." + cut[1] + "self_attn." + c + "_proj." + cut[3]] for c in "qkv"]
            name = cut[1] + "attn.in_proj_" + cut[3]
            t = (t[0], [3 * t[1][0]] + t[1][1:], b"".join(raw for _, _, raw in joined))
        name = plain.get(name, name)
        for old, new in words:
            name = name.replace(old, new)
        out["visual." + name] = t
    return out


class Towers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def fovea(self, *arguments):
        return subprocess.run([EXE, *arguments], capture_output=True, text=True, errors="replace")

    def write(self, config, tensors, others):
        """Writes the tensors in two shards; the index names other tensors in an absent and a damaged shard."""
        folder = tempfile.mkdtemp(dir=self.folder)
        names = sorted(tensors)
        shards = {"tower-1.safetensors": names[::2], "tower-2.safetensors": names[1::2]}
        for file, part in shards.items():
            save(os.path.join(folder, file), {name: tensors[name] for name in part})
        with open(os.path.join(folder, "damaged.safetensors"), "wb") as f:
            f.write(b"\0" * 100)
        shards["absent.safetensors"], shards["damaged.safetensors"] = others[::2], others[1::2]
        index = {name: file for file, part in shards.items() for name in part}
        with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
            json.dump({"metadata": {"total_size": 1}, "weight_map": index}, f)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        return folder

    def outputs(self, path, model, *options):
        out = os.path.join(self.folder, "out.safetensors")
        p = self.fovea("run", path, os.path.join(MODELS, model, "io.safetensors"), "--device", "cpu", "--compute",
                       "f32", "-o", out, *options)
        self.assertEqual(p.returncode, 0, p.stderr)
        return load(out)

    def check(self, model, config, tensors, others, *options, alone=None):
        folder = self.write(config, tensors, others)
        want = self.outputs(alone or os.path.join(MODELS, model), model)
        got = self.outputs(folder, model, *options)
        for name in ("last_hidden_state", "pooler_output"):
            self.assertEqual(got.get(name), want.get(name), name)
        for file in ("tower-1.safetensors", "tower-2.safetensors"):
            os.rename(os.path.join(folder, file), os.path.join(folder, "kept"))
            p = self.fovea("plan", folder, *options)
            self.assertEqual(p.returncode, 7, p.stderr)
            self.assertIn(file, p.stderr)
            os.rename(os.path.join(folder, "kept"), os.path.join(folder, file))
        return folder

    def test_known_models(self):
        """Models with known names need no prefix."""
        words = ["language_model.model.embed_tokens.weight", "language_model.lm_head.weight"]
        text = ["text_model.embeddings.token_embedding.weight", "text_model.final_layer_norm.weight",
                "text_projection.weight", "logit_scale"]
        joiner = ["multi_modal_projector.linear_1.weight", "multi_modal_projector.linear_1.bias"]
        clip, siglip = tower("clip-vision-02"), tower("siglip-02")
        vision = {name: config_of(name) for name in ("clip-vision-02", "siglip-02", "smolvlm-01")}
        for model, kind, tensors, others in (
                ("clip-vision-02", "clip", clip, text),
                ("siglip-02", "siglip", siglip, text),
                ("clip-vision-02", "llava", renamed(clip, "vision_tower.vision_model."), words + joiner),
                ("clip-vision-02", "llava", renamed(clip, "model.vision_tower.vision_model."),
                 ["model." + name for name in words + joiner] + ["lm_head.weight"]),
                ("clip-vision-02", "llava", renamed(clip, "model.vision_tower."), words + joiner),
                ("siglip-02", "paligemma", renamed(siglip, "vision_tower.vision_model."), words + joiner),
                ("siglip-02", "paligemma", renamed(siglip, "model.vision_tower.vision_model."), words + joiner)):
            with self.subTest(kind=kind, first=min(tensors)):
                self.check(model, {"model_type": kind, "vision_config": vision[model]}, tensors, others)
        with self.subTest(kind="smolvlm"):
            whole = load(os.path.join(MODELS, "smolvlm-01", "model.safetensors"))
            eyes = {name: t for name, t in whole.items() if name.startswith("model.vision_model.")}
            self.check("smolvlm-01", vision["smolvlm-01"], eyes, [name for name in whole if name not in eyes])

    def test_openclip(self):
        eyes = openai(tower("clip-vision-02"))
        config = {"model_type": "clip", "vision_config": config_of("clip-vision-02"), "fovea": {"heads": 3}}
        alone = os.path.join(self.folder, "alone")
        os.mkdir(alone)
        save(os.path.join(alone, "model.safetensors"), eyes)
        with open(os.path.join(alone, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        self.check("clip-vision-02", config, eyes,
                   ["transformer.resblocks.0.ln_1.weight", "token_embedding.weight", "text_projection",
                    "positional_embedding", "ln_final.weight", "ln_final.bias"], alone=alone)

    def test_prefix(self):
        """Where no rule fits, --prefix or config.json gives the prefix."""
        eyes = renamed(tower("siglip-02"), "agent.senses.sight.")
        others = ["agent.senses.hearing.conv.weight", "agent.mind.weight", "vision_model.post_layernorm.weight"]
        config = {"model_type": "agent", "vision_config": config_of("siglip-02"), "hidden_size": 7}
        self.check("siglip-02", config, eyes, others, "--prefix", "agent.senses.sight")
        config["fovea"] = {"prefix": "agent.senses.sight."}
        folder = self.check("siglip-02", config, eyes, others)
        for command in (["plan", folder, "--prefix", "agent.smell"], ["bench", "model", folder, "--prefix", "x"],
                        ["verify", folder, "--prefix", "x"],
                        ["tune", folder, "--prefix", "x", "-o", os.path.join(self.folder, "wisdom")]):
            p = self.fovea(*command)
            self.assertEqual(p.returncode, 7, p.stderr)
            self.assertIn("no tensor's name begins with", p.stderr)
        self.assertIn("--prefix", self.fovea("run", "--help").stdout)
        p = self.fovea("op", "x.safetensors", "--prefix", "x", "-o", "y.safetensors")
        self.assertEqual(p.returncode, 1, p.stderr)

    def test_inside_transformers(self):
        """The names that transformers 5 uses in memory, and thus in a saved state_dict."""
        common = [("attention.attention.query.", "attention.q_proj."), ("attention.attention.key.", "attention.k_proj."),
                  ("attention.attention.value.", "attention.v_proj."), ("attention.output.dense.", "attention.o_proj."),
                  ("intermediate.dense.", "mlp.fc1."), ("output.dense.", "mlp.fc2.")]
        for model, words in (("vit-01", [("encoder.layer.", "layers.")] + common), ("dinov2-with-registers-03", common),
                             ("dinov3-03", [("layer.", "model.layer.")])):
            with self.subTest(model=model):
                tensors = {}
                for name, t in load(os.path.join(MODELS, model, "model.safetensors")).items():
                    for old, new in words:
                        name = name.replace(old, new, 1)
                    tensors[name] = t
                folder = tempfile.mkdtemp(dir=self.folder)
                save(os.path.join(folder, "model.safetensors"), tensors)
                shutil.copy(os.path.join(MODELS, model, "config.json"), folder)
                self.assertNotEqual(set(tensors), set(load(os.path.join(MODELS, model, "model.safetensors"))))
                self.assertEqual(self.outputs(folder, model), self.outputs(os.path.join(MODELS, model), model))

    def test_training(self):
        """A tower with a prefix is trained, saved with the whole checkpoint, and the result names the prefix."""
        eyes = renamed(tower("clip-vision-02"), "sight.")
        folder, out = os.path.join(self.folder, "whole"), os.path.join(self.folder, "out")
        os.mkdir(folder)
        mind = {"mind.weight": ("F32", [2], b"\1\2\3\4\5\6\7\10")}
        save(os.path.join(folder, "model.safetensors"), {**eyes, **mind})
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump({"model_type": "agent", "vision_config": config_of("clip-vision-02")}, f)
        pictures = os.path.join(self.folder, "pictures")
        os.mkdir(pictures)
        shutil.copy(os.path.join(DATA, "picture_wide.ppm"), pictures)
        p = self.fovea("adapt", folder, "--stage", "1", "--data", pictures, "--size", "56", "--steps", "1", "-o",
                       out, "--prefix", "sight")
        if "no command" in p.stderr:
            self.skipTest("built without training")
        self.assertEqual(p.returncode, 0, p.stderr)
        saved = load(os.path.join(out, "model.safetensors"))
        self.assertEqual(set(eyes) | set(mind), set(saved))
        self.assertEqual(saved["mind.weight"], mind["mind.weight"])
        with open(os.path.join(out, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        self.assertEqual(config["fovea"]["prefix"], "sight.")
        self.assertEqual(config["model_type"], "agent")
        self.outputs(out, "clip-vision-02")


    def test_window_larger_than_any_picture(self):
        """Such a window has all patches and needs no more memory than they do."""
        folder = os.path.join(self.folder, "large")
        shutil.copytree(os.path.join(MODELS, "alias-qwen2-5-vl-03"), folder)
        want = self.outputs(folder, "alias-qwen2-5-vl-03")
        config = config_of("alias-qwen2-5-vl-03")
        config["window_size"] = 65536
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        self.assertEqual(self.outputs(folder, "alias-qwen2-5-vl-03"), want)

    def test_other_names_refuse_what_they_cannot_compute(self):
        """Fields of ViTs with other names that change the result, or that do not fit the tensors."""
        for model, section, fields, says in (
                ("alias-pixio-01", None, {"n_cls_tokens": 4096}, "embeddings.cls_token"),
                ("alias-pixio-01", None, {"n_cls_tokens": 0}, '"n_cls_tokens" must be'),
                ("alias-pixio-01", None, {"n_cls_tokens": 1e99}, '"n_cls_tokens" must be'),
                ("alias-internvl-01", "vision_config", {"use_qk_norm": True}, "use_qk_norm"),
                ("alias-internvl-01", "vision_config", {"norm_type": "rms_norm"}, "norm_type"),
                ("alias-internvl-01", "vision_config", {"attention_bias": True}, "q_proj.bias"),
                ("alias-internvl-01", "vision_config", {"use_mean_pooling": "x"}, "use_mean_pooling"),
                ("alias-internvl-01", "vision_config", {"use_mean_pooling": False}, "layernorm.weight"),
                ("alias-aimv2-01", "vision_config", {"is_native": True}, "is_native"),
                ("alias-aimv2-01", "vision_config", {"qkv_bias": False}, "bias"),
                ("alias-aimv2-01", "vision_config", {"hidden_act": "gelu"}, "silu"),
                ("alias-aimv2-01", "vision_config", {"rms_norm_eps": -1}, "rms_norm_eps"),
                ("alias-mlcd-01", None, {"num_key_value_groups": 2}, "num_key_value_groups"),
                ("alias-mlcd-01", None, {"rope_parameters": {"rope_type": "yarn"}}, '"axial" is supported'),
                ("alias-mlcd-01", None, {"num_attention_heads": 4}, "class_pos_emb"),
                ("alias-qwen2-vl-01", "vision_config", {"embed_dim": 24}, "patch_embed.proj.weight"),
                ("alias-qwen2-vl-01", "vision_config", {"num_heads": 3}, "3 heads"),
                ("alias-qwen2-vl-01", "vision_config", {"depth": 3}, "blocks.2."),
                ("alias-qwen2-vl-01", "vision_config", {"in_channels": 4}, "4 colour channels"),
                ("alias-qwen2-vl-01", "vision_config", {"spatial_merge_size": 3}, "merger.mlp.0.weight"),
                ("alias-qwen2-vl-01", "vision_config", {"spatial_merge_size": 1e9}, "spatial_merge_size"),
                ("alias-qwen2-vl-01", "vision_config", {"rope_parameters": {"rope_type": "mrope"}}, '"axial"'),
                ("alias-qwen2-5-vl-01", "vision_config", {"window_size": 7}, '"window_size" is 7; it must be at least 8'),
                ("alias-qwen2-5-vl-01", "vision_config", {"window_size": -8}, "window_size"),
                ("alias-qwen2-5-vl-01", "vision_config", {"fullatt_block_indexes": 1}, "fullatt_block_indexes"),
                ("alias-qwen2-5-vl-01", "vision_config", {"fullatt_block_indexes": [0.5]}, "fullatt_block_indexes"),
                ("alias-qwen3-vl-01", "vision_config", {"hidden_act": "tanhexp"}, "tanhexp"),
                ("alias-glm4v-01", "vision_config", {"hidden_act": "gelu"}, "silu"),
                ("alias-glm4v-01", "vision_config", {"attention_bias": True}, "bias"),
                ("alias-glm4v-01", "vision_config", {"image_size": 28}, "image_size"),
                ("alias-glm-ocr-01", "vision_config", {"num_heads": 4}, "q_norm.weight"),
                ("alias-pixtral-01", "vision_config", {"intermediate_size": 25}, "feed_forward"),
                ("alias-kimi-01", None, {"pos_emb_type": "other"}, "pos_emb_type"),
                ("alias-hunyuan-vl-01", None, {"interpolate_mode": "bicubic"}, "interpolate_mode"),
                ("alias-hunyuan-vl-01", None, {"max_image_size": 24}, "max_image_size"),
                ("alias-mgp-str-01", None, {"distilled": True}, "distilled"),
                ("alias-mgp-str-01", None, {"image_size": [40, 16000]}, "image_size"),
                ("alias-tipsv2-01", None, {"num_register_tokens": 9}, "register_tokens"),
                ("alias-colpali-01", "vlm_config", {"vision_config": 3}, "colpali"),
                ("alias-flava-01", None, {"image_config": 3}, "is not known"),
                ("alias-git-01", "vision_config", {"num_attention_heads": 5}, "5 heads"),
                ("alias-got-ocr2-01", None, {"window_size": 5}, "rel_pos_h")):
            folder = os.path.join(self.folder, "changed")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(os.path.join(MODELS, model), folder)
            config = config_of(model)
            (config[section] if section else config).update(fields)
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
            p = self.fovea("plan", folder)
            self.assertEqual(p.returncode, 7, (model, fields, p.stderr))
            self.assertIn(says, p.stderr, (model, fields))


if __name__ == "__main__":
    counted.main()
