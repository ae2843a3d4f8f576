#!/usr/bin/env python3
"""test_torch.py: compares python/fovea/torch with the library: values, gradients, folders, training.

    test_torch.py path/to/fovea path/to/libfovea.so

Needs PyTorch, transformers and safetensors; timm's models are tested only if timm is installed.
"""
import contextlib
import copy
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

PYTHON = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "python"))
if len(sys.argv) < 3:
    raise SystemExit(__doc__)
EXE, LIBRARY = (os.path.abspath(p) for p in sys.argv[1:3])
os.environ.update(FOVEA_LIBRARY=LIBRARY, PYTHONPATH=PYTHON, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1",
                  HF_HUB_DISABLE_PROGRESS_BARS="1")
torch, transformers, _ = (counted.need(name, "tests/packages/test_torch.sh says how to have it")
                          for name in ("torch", "transformers", "safetensors"))
sys.path.insert(0, PYTHON)
import fovea  # noqa: E402
import fovea.torch as ft  # noqa: E402
from fovea.torch import folders, foveated, mechanisms, names, swap  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
WITHIN = 1e-5
GATED = ["sla-" + n for n in names.attentions() if n not in ("softmax", "foveated")]
HAVE_TIMM = importlib.util.find_spec("timm") is not None


def off(got, want, size=None):
    """The largest difference, relative to `size` or else to the largest value."""
    got, want = (torch.as_tensor(x).double() for x in (got, want))
    return float((got - want).abs().max() / (size or want.abs().max().clamp(min=1e-30)))


def call(*command, **more):
    p = subprocess.run(command, capture_output=True, text=True, errors="replace", **more)
    if p.returncode:
        raise RuntimeError((p.stderr or p.stdout).strip()[-2000:])
    return p.stdout


# ---- models ----

SIZES = dict(hidden_size=48, num_attention_heads=3, image_size=70, patch_size=14)
KINDS = {"ViT": "Model", "DeiT": "Model", "Dinov2": "Model", "Dinov2WithRegisters": "Model",
         "Siglip": "VisionModel", "CLIP": "VisionModel"}


def drawn(model):
    """Draws weights with which every tensor affects the results."""
    random = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        size = 0.1 if parameter.ndim == 1 else 0.15
        change = size * torch.randn(parameter.shape, generator=random)
        parameter.data = parameter.data + change if parameter.ndim == 1 else change
    return model.eval()


def make(kind, depth=2):
    torch.manual_seed(1)
    if kind.startswith("vit_"):
        import timm
        return drawn(timm.create_model(kind, img_size=70, patch_size=14, embed_dim=48, depth=depth,
                                       num_heads=3, num_classes=0, dynamic_img_size=True))
    wide = {"mlp_ratio": 2} if kind.startswith("Dino") else {"intermediate_size": 96}
    name = kind + KINDS[kind]
    config = getattr(transformers, name.replace("Model", "Config"))(**SIZES, **wide, num_hidden_layers=depth)
    return drawn(getattr(transformers, name)(config))


def vary(model):
    """Gives learned vectors and gates nonzero values."""
    random = torch.Generator().manual_seed(7)
    for block in swap.swapped(model):
        for parameter in block.fovea.parameters():
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=random)


@contextlib.contextmanager
def folder_of(model, attention, varied=True):
    with tempfile.TemporaryDirectory() as folder:
        model = ft.linearise(copy.deepcopy(model), attention)
        if varied:
            vary(model)
        ft.export(model, folder)
        yield folder, model


class Values(unittest.TestCase):
    def test_names_are_the_librarys(self):
        told = call(EXE, "info", "--attentions").split("\n")
        told = told[told.index("softmax"):told.index("foveated") + 1]
        self.assertEqual([n for n in names.attentions() if not n.startswith("mala-paper:")], told)

    def test_blocks(self):
        every = names.of_blocks("linear:elu+1+softmax@0-1+mala@5-", 7)
        self.assertEqual(every, ["softmax"] * 2 + ["linear:elu1"] * 3 + ["mala"] * 2)
        self.assertEqual(names.of_blocks(names.joined(every), 7), every)
        for wrong in ("linaer", "linear:silu", "sla-softmax", "foveated:0", "foveated:65", "mala@1",
                      "mala+nala", "mala+nala@2-9", "mala+nala@x"):
            with self.assertRaises(ValueError):
                names.of_blocks(wrong, 4)
        with self.assertRaises(ValueError):
            names.of_blocks(["mala"] * 3, 4)

    def test_operations(self):
        """Compares attention alone with the library's operation."""
        batch, tokens, heads, dim = 2, 37, 3, 10
        torch.manual_seed(2)
        for attention in [*names.attentions()[:-1], *GATED]:
            name = names.parse(attention)
            q, k, v = torch.randn(3, batch, tokens, heads, dim)
            gates = torch.rand(2, batch, tokens, heads) if name.gated else (None, None)
            vectors = torch.randn(mechanisms.VECTORS.get(name.kind, 0), heads * dim)
            given = dict(zip(("channel_scale", "power"), vectors.numpy()))
            if name.gated:
                given.update(gate_q=gates[0].mT.numpy(), gate_k=gates[1].mT.numpy())
            linear = name.kind == "linear"
            want = fovea.attention(*(x.transpose(1, 2).contiguous().numpy() for x in (q, k, v)), attention,
                                   scale=1 if linear else dim ** -0.5,
                                   eps=1e-6 * tokens if linear else 1e-6, **given)
            got = ft.attention(q, k, v, attention, vectors=vectors if len(vectors) else None,
                               gate_q=gates[0], gate_k=gates[1])
            with self.subTest(attention):
                self.assertLess(off(got.transpose(1, 2), want), WITHIN)

    def test_zeros_and_large_values(self):
        for attention in names.attentions()[:-1]:
            for factor in (0, 3 if attention.endswith("exp") else 30):
                q, k, v = torch.randn(3, 1, 9, 2, 8)
                q, k = factor * q, factor * k
                leaves = [x.clone().requires_grad_() for x in (q, k, v)]
                out = ft.attention(*leaves, attention)
                out.square().sum().backward()
                with self.subTest(attention, factor=factor):
                    self.assertTrue(all(torch.isfinite(x).all() for x in (out, *(y.grad for y in leaves))))

    def test_narrow_types(self):
        q, k, v = torch.randn(3, 2, 25, 2, 8)
        for attention in names.attentions():
            want = ft.attention(q, k, v, attention, grid=(4, 6))
            with torch.autocast("cpu", torch.bfloat16):
                got = ft.attention(*(x.bfloat16() for x in (q, k, v)), attention, grid=(4, 6))
            with self.subTest(attention):
                self.assertEqual(got.dtype, torch.bfloat16)
                self.assertGreater(torch.cosine_similarity(got.float().flatten(), want.flatten(), 0), 0.999)


class Foveated(unittest.TestCase):
    def seen(self, q, k, v, grid, margin):
        """The rows of patches in float64, with separate weights for each block."""
        at = foveated.layout(q.shape[1] - grid[0] * grid[1], *grid, margin, torch.device("cpu"))
        k, v = (foveated.with_cells(x.flatten(2), *grid).unflatten(-1, q.shape[2:]) for x in (k, v))
        out = []
        for row, places, bias in zip(at.queries, at.keys, at.bias.double()):
            s = torch.einsum("bqhd,bkhd->bhqk", q[:, row], k[:, places]) * q.shape[-1] ** -0.5 + bias
            out.append(torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v[:, places]))
        return torch.cat(out, 1)[:, at.back]

    def test_every_token_counts_once(self):
        for prefix, grid, margin in [(1, (16, 16), 4), (5, (37, 23), 4), (0, (3, 50), 1), (2, (90, 90), 2)]:
            at = foveated.layout(prefix, *grid, margin, torch.device("cpu"))
            tokens = torch.full((len(at.bias),), prefix + grid[0] * grid[1])
            self.assertLess(off(at.bias.exp().sum(1), tokens), 1e-5)

    def test_values_and_slopes(self):
        """Compares gradients with finite differences in float64."""
        grid = (9, 21)
        inputs = [x.requires_grad_() for x in torch.randn(3, 1, 1 + 9 * 21, 1, 2, dtype=torch.float64)]
        got = ft.attention(*inputs, "foveated:1", grid=grid)
        self.assertLess(off(got[:, 1:].detach(), self.seen(*inputs, grid, 1).detach()), 1e-12)
        self.assertTrue(torch.autograd.gradcheck(
            lambda *x: ft.attention(*x, "foveated:1", grid=grid), inputs, atol=1e-7, fast_mode=True))

    def test_models(self):
        model = make("Dinov2WithRegisters")
        for attention, height, width in [("foveated", 16, 16), ("foveated:1", 21, 37), ("foveated:9", 5, 30)]:
            with folder_of(model, attention) as (folder, ours):
                pixels = torch.randn(1, 3, 14 * height, 14 * width)
                got = fovea.Model(folder).run(pixels[0].numpy())["last_hidden_state"]
                with torch.no_grad():
                    self.assertLess(off(got, ft.features(ours, pixels)[0]), WITHIN)


class Gradients(unittest.TestCase):
    """Compares the gradients of both stages with `fovea adapt --save-grad`, for every trained tensor of a ViT."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = cls.folder.name
        cls.model = make("Dinov2", 1)  # with more blocks rounding errors grow
        cls.pixels = torch.randn(2, 3, 112, 126)
        save_file({"input.0": cls.pixels}, cls.path + "/pixels.safetensors")
        cls.teacher = make("Dinov2", 1)
        for parameter in cls.teacher.parameters():
            parameter.data = parameter.data * 1.3
        for name, model in (("model", cls.model), ("teacher", cls.teacher)):
            ft.export(ft.linearise(copy.deepcopy(model), "softmax"), cls.path + "/" + name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fovea(self, stage, attention, model, loss):
        out = tempfile.mkdtemp(dir=self.path)
        command = [EXE, "adapt", model, "--stage", str(stage), "--attention", attention, "--tensors",
                   self.path + "/pixels.safetensors", "--steps", "1", "--loss", loss, "--save-grad",
                   "-o", out]
        call(*command, *(["--teacher", self.path + "/teacher"] if stage == 2 else []))
        with open(out + "/log.jsonl") as f:
            loss = next(x["loss"] for x in map(json.loads, f) if "loss" in x)
        return loss, {n[len("grad."):]: x for n, x in load_file(out + "/grad.safetensors").items()}

    def ours(self, stage, model, kind):
        loss = (ft.stage1_loss(model, ft.teacher_of(self.model), self.pixels, kind) if stage == 1 else
                ft.stage2_loss(model, ft.teacher_of(self.teacher), self.pixels, kind))
        loss.backward()
        slopes = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        return loss.item(), folders.tensors_of(model, slopes, torch.float32)

    def compare(self, stage, attention, loss="relative"):
        with folder_of(self.model, attention, varied=stage == 2) as (folder, model):
            want = self.fovea(stage, attention, self.path + "/model" if stage == 1 else folder, loss)
            got = self.ours(stage, model, loss)
        self.assertLess(abs(got[0] - want[0]), WITHIN * want[0])
        self.assertGreater(len(want[1]), 5)
        for name, slope in want[1].items():
            # A bias is compared as an additional column of its matrix: the gradient of the keys' bias is nearly 0.
            whole = want[1].get(name.replace(".bias", ".weight"), slope).abs().max()
            self.assertLess(off(got[1][name], slope, max(whole, slope.abs().max())), WITHIN, name)

    def test_squared(self):
        for stage in (1, 2):
            self.compare(stage, "nala", "squared")

    def test_stage_1(self):
        for attention in [*names.attentions()[1:-1], *GATED]:
            with self.subTest(attention):
                self.compare(1, attention)

    def test_stage_2(self):
        for attention in [*names.attentions()[:-1], *GATED]:
            with self.subTest(attention):
                self.compare(2, attention)

    def test_foveated(self):
        for stage in (1, 2):
            self.compare(stage, "foveated:1")


class Models(unittest.TestCase):
    ATTENTIONS = ["softmax", "mala", "pola+sla-nala@1", "focused+foveated:1@0"]

    def check(self, kind):
        model, pixels = make(kind), torch.randn(1, 3, 98, 84)
        with torch.no_grad():
            plain = ft.features(model, pixels)
            for attention in self.ATTENTIONS:
                with folder_of(model, attention) as (folder, ours), self.subTest(kind, attention=attention):
                    want = ft.features(ours, pixels)
                    loaded = fovea.Model(folder)
                    self.assertEqual(loaded.info["attention"], ft.attention_of(ours))
                    got = loaded.run(pixels[0].numpy(), outputs=["last_hidden_state"])["last_hidden_state"]
                    self.assertLess(off(got, want[0]), WITHIN)
                    self.assertTrue(torch.equal(ft.features(ft.load(folder).eval(), pixels), want))
                    if attention == "softmax":
                        self.assertLess(off(want, plain), WITHIN)
                    else:
                        self.assertGreater(off(want, plain), 1e-3)

    def test_transformers(self):
        for kind in KINDS:
            self.check(kind)

    @unittest.skipUnless(HAVE_TIMM, "no timm for this Python")
    def test_timm(self):
        for kind in ("vit_small_patch16_224", "vit_small_patch14_reg4_dinov2"):
            self.check(kind)

    def test_again(self):
        """Replaces an attention of Fovea by another one; attentions that stay keep their learned vectors."""
        model = ft.linearise(make("ViT"), "pola")
        vary(model)
        kept = swap.swapped(model)[0].fovea.vectors
        ft.linearise(model, ["pola", "nala"])
        self.assertEqual(ft.attention_of(model), "pola+nala@1")
        self.assertIs(swap.swapped(model)[0].fovea.vectors, kept)

    def test_refusals(self):
        other = transformers.ConvNextModel(transformers.ConvNextConfig(depths=[1] * 4, hidden_sizes=[8] * 4))
        for wrong, words in [(lambda: ft.linearise(other, "mala"), "ConvNextModel.*supported are ViT"),
                             (lambda: ft.linearise(make("ViT"), "malla"), "malla.*choose softmax"),
                             (lambda: ft.export(make("ViT"), "/nowhere"), "linearise it first"),
                             (lambda: ft.stage2_loss(make("ViT"), None, None), "linearise it first"),
                             (lambda: ft.stage1_loss(ft.linearise(make("ViT"), "softmax"), None, None),
                              "nothing to train"),
                             (lambda: ft.attention(*torch.randn(3, 1, 5, 1, 8), "foveated"), "grid")]:
            with self.assertRaisesRegex(ValueError, words):
                wrong()

    def test_other_forms_are_refused(self):
        """Constants and numbers of heads that the modules do not support are refused."""
        with folder_of(make("ViT"), "nala") as (folder, _):
            path = folder + "/config.json"
            with open(path) as f:
                config = json.load(f)
            config["fovea"]["nala_lambda"] = 4
            with open(path, "w") as f:
                json.dump(config, f)
            with self.assertRaisesRegex(ValueError, "nala_lambda"):
                ft.load(folder)

    def test_without_torch(self):
        """fovea does not need PyTorch; the message of fovea.torch names the packages that it needs."""
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/torch.py", "w") as f:
                f.write("raise ImportError('none here')\n")
            env = dict(os.environ, PYTHONPATH=folder + os.pathsep + PYTHON)
            text = "import fovea, sys; print(fovea.version()); import fovea.torch"
            p = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True)
            self.assertTrue(p.stdout.strip())
            self.assertIn("fovea.torch needs PyTorch: pip install torch", p.stderr.strip().split("\n")[-1])


class Training(unittest.TestCase):
    """The loop of docs/training.md: both losses decrease, and frozen parameters do not change."""

    def losses(self, loss, chosen, rate):
        model = ft.linearise(make("Dinov2"), "nala+softmax@1")
        teacher, pixels = ft.teacher_of(model), torch.randn(2, 3, 70, 84)
        begun = {name: x.clone() for name, x in model.named_parameters()}
        optimizer = torch.optim.AdamW(chosen(model), lr=rate, weight_decay=0)
        values = []
        for _ in range(8):
            optimizer.zero_grad()
            value = loss(model, teacher, pixels)
            value.backward()
            optimizer.step()
            values.append(value.item())
        return values, {name for name, x in model.named_parameters() if not torch.equal(x, begun[name])}

    def test_stage_1(self):
        values, moved = self.losses(ft.stage1_loss, ft.stage1_parameters, 3e-3)
        self.assertLess(values[-1], 0.9 * values[0])
        self.assertTrue(moved and all(".0.attention." in name for name in moved), moved)

    def test_stage_2(self):
        values, moved = self.losses(ft.stage2_loss, torch.nn.Module.parameters, 3e-4)
        self.assertLess(values[-1], 0.9 * values[0])
        self.assertTrue(any(".1." in name for name in moved))


if __name__ == "__main__":
    counted.main()
