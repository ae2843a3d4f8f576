#!/usr/bin/env python3
"""test_python.py: compares the structures of python/fovea with the header, and its results with numpy.

    test_python.py path/to/libfovea.so path/to/include [path/to/include ...]

Needs numpy and a C compiler ($CC, else cc).
"""
import ctypes as C
import gc
import gzip
import importlib.util
import io
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import weakref

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
np = counted.need("numpy")
if len(sys.argv) < 3:
    raise SystemExit(__doc__)
LIBRARY, INCLUDES = os.path.abspath(sys.argv[1]), sys.argv[2:]
os.environ["FOVEA_LIBRARY"] = LIBRARY
sys.path.insert(0, os.path.join(ROOT, "python"))
import fovea  # noqa: E402

MODEL = os.path.join(ROOT, "tests", "data", "golden", "models", "dinov2-with-registers-03")


def structures():
    return [s for s in vars(fovea._structures).values()
            if isinstance(s, type) and issubclass(s, C.Structure) and hasattr(s, "_c_name_")]


def members(kind, prefix="", base=0):
    """(C name, offset, size) of every field, also of those of nested structures."""
    for name, field in kind._fields_:
        d = getattr(kind, name)
        yield prefix + name, base + d.offset, d.size
        if issubclass(field, C.Structure):
            yield from members(field, prefix + name + ".", base + d.offset)


class Structures(unittest.TestCase):
    def test_layout_is_the_headers(self):
        lines = []
        for kind in structures():
            lines.append('printf("%s %%zu 0\\n", sizeof(%s));' % (kind._c_name_, kind._c_name_))
            for name, _, _ in members(kind):
                lines.append('printf("%s.%s %%zu %%zu\\n", offsetof(%s, %s), sizeof((*(%s *)0).%s));'
                             % (kind._c_name_, name, kind._c_name_, name, kind._c_name_, name))
        program = ("#include <fovea/fovea.h>\n#include <stdio.h>\nint main(void)\n{\n%s\nreturn 0;\n}\n"
                   % "\n".join(lines))
        with tempfile.TemporaryDirectory() as folder:
            source, exe = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
            with open(source, "w") as f:
                f.write(program)
            command = shlex.split(os.environ.get("CC", "cc")) + ["-std=c11", source, "-o", exe]
            subprocess.run(command + ["-I" + i for i in INCLUDES], check=True)
            want = subprocess.run([exe], capture_output=True, text=True, check=True).stdout
        got = ""
        for kind in structures():
            got += "%s %d 0\n" % (kind._c_name_, C.sizeof(kind))
            for name, offset, size in members(kind):
                got += "%s.%s %d %d\n" % (kind._c_name_, name, offset, size)
        self.assertEqual(got, want)
        self.assertGreater(len(structures()), 8)

    def test_the_system_s_library_is_the_one_of_this_interface(self):
        with open(LIBRARY, "rb") as library:
            self.assertTrue(b"\0%s\0" % fovea._library.SONAME.encode() in library.read())
        with unittest.mock.patch.dict(os.environ):
            del os.environ["FOVEA_LIBRARY"]
            self.assertEqual(next(fovea._library._places()), fovea._library.SONAME)


def elu1(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def linear(q, k, v, eps=1e-6, scale=1.0):
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    w = scale * elu1(q) @ elu1(k).swapaxes(-1, -2)
    return w @ v / (w.sum(-1, keepdims=True) + eps)


def arrays(*shapes, seed=1):
    random = np.random.default_rng(seed)
    return [random.standard_normal(s).astype(np.float32) for s in shapes]


def off(got, want):
    return abs(np.asarray(got, np.float64) - want).max() / abs(want).max()


class Attention(unittest.TestCase):
    def test_heads(self):
        q, k, v = arrays((2, 3, 40, 16), (2, 3, 25, 16), (2, 3, 25, 12))
        got = fovea.attention(q, k, v, "linear:elu1", eps=1e-3)
        self.assertEqual((got.shape, got.dtype), ((2, 3, 40, 12), np.float32))
        self.assertLess(off(got, linear(q, k, v, 1e-3)), 1e-6)

    def test_softmax_and_strided_input(self):
        q, k, v = arrays((40, 2, 3, 16), (40, 2, 3, 16), (40, 2, 3, 16))
        q, k, v = (a.transpose(1, 2, 0, 3) for a in (q, k, v))
        w = np.exp(0.25 * q.astype(np.float64) @ k.swapaxes(-1, -2))
        want = w @ v / w.sum(-1, keepdims=True)
        self.assertLess(off(fovea.attention(q, k, v, "softmax", scale=0.25), want), 1e-5)

    def test_rows(self):
        q, k, v = arrays((40, 48), (40, 48), (40, 36))
        got = fovea.attention(q, k, v, heads=3)
        def heads(a):
            return a.reshape(40, 3, -1).transpose(1, 0, 2)
        want = linear(heads(q), heads(k), heads(v)).transpose(1, 0, 2).reshape(40, 36)
        self.assertLess(off(got, want), 1e-6)

    def test_half(self):
        q, k, v = (a.astype(np.float16) for a in arrays((1, 2, 30, 8), (1, 2, 30, 8), (1, 2, 30, 8)))
        self.assertLess(off(fovea.attention(q, k, v), linear(q, k, v)), 1e-6)
        got = fovea.attention(q, k, v, out_storage="f16")
        self.assertEqual(got.dtype, np.float16)
        self.assertLess(off(got, linear(q, k, v)), 1e-3)

    def test_bfloat16(self):
        full = [(a.view(np.uint32) & 0xffff0000).view(np.float32)
                for a in arrays((1, 2, 30, 8), (1, 2, 30, 8), (1, 2, 30, 8))]
        bits = [(a.view(np.uint32) >> 16).astype(np.uint16) for a in full]
        self.assertLess(off(fovea.attention(*bits), linear(*full)), 1e-6)
        got = fovea.attention(*bits, out_storage="bf16")
        got = (got.astype(np.uint32) << 16).view(np.float32)
        self.assertLess(off(got, linear(*full)), 8e-3)

    def test_options(self):
        """Learned vectors, tables and the operations after the attention: each has an effect."""
        q, k, v, g = arrays((1, 2, 12, 8), (1, 2, 12, 8), (1, 2, 12, 8), (1, 12, 16))
        w5, bias, power = arrays((8, 5, 5), (8,), (16,), seed=2)
        norm, norm_bias = arrays((16,), (16,), seed=3)
        plain = fovea.attention(q, k, v, "pola")
        for options in [dict(power=power), dict(channel_scale=power), dict(alpha=2.0),
                        dict(grid=(3, 4), local_size=5, local_shared=True, local_weight=w5),
                        dict(norm_weight=norm, norm_bias=norm_bias), dict(g=g, out_gate="silu")]:
            self.assertGreater(off(fovea.attention(q, k, v, "pola", **options), plain), 1e-3)
        got = fovea.attention(q, k, v, "pola", g=g, out_gate="linear")
        want = plain * g.reshape(1, 12, 2, 8).transpose(0, 2, 1, 3)
        self.assertLess(off(got, want), 1e-6)
        biased = [fovea.attention(q, k, v, "pola", grid=(3, 4), local_size=5, local_shared=True,
                                  local_weight=w5, local_bias=b) for b in (None, bias)]
        self.assertLess(off(biased[1] - biased[0], np.broadcast_to(bias, plain.shape)), 1e-4)

    def test_maps(self):
        """Hedgehog's maps are matrix multiplications before the attention."""
        q, k, v, maps = arrays((1, 2, 12, 8), (1, 2, 12, 8), (1, 2, 12, 4), (2, 2, 8, 8), seed=4)
        got = fovea.attention(q, k, v, "hedgehog", map_q=maps[0], map_k=maps[1])
        mapped = [np.einsum("bhnd,hed->bhne", x, m).astype(np.float32) for x, m in zip((q, k), maps)]
        self.assertLess(off(got, fovea.attention(*mapped, v, "hedgehog")), 1e-5)
        self.assertGreater(off(got, fovea.attention(q, k, v, "hedgehog")), 1e-3)
        both = [fovea.attention(q, k, v, "linear:hedgehog", causal=True, **more)
                for more in ({}, dict(map_q=maps[0], map_k=maps[1]))]
        self.assertGreater(off(*both), 1e-3)
        for wrong in dict(map_q=maps), dict(map_q=maps[0][:1]):
            with self.assertRaises(ValueError):
                fovea.attention(q, k, v, "hedgehog", **wrong)
        with self.assertRaises(fovea.Error):
            fovea.attention(q, k, v, "nala", map_q=maps[0])

    def test_linear_form(self):
        """Parameters of a ViT's linear attentions."""
        usual = fovea.Model(MODEL).info["linear"]
        other = fovea.Model(MODEL, linear=dict(nala_lambda=4, heads=1)).info["linear"]
        self.assertEqual((usual.nala_lambda, usual.pola_alpha, usual.q_scale), (3, 4, 1))
        self.assertEqual((other.nala_lambda, other.pola_alpha, other.heads), (4, 4, 1))
        for wrong in dict(nala_lambda=9), dict(heads=7), dict(q_scale=-1):
            with self.assertRaises(fovea.Error):
                fovea.Model(MODEL, linear=wrong)

    def test_rope(self):
        q, k, v = arrays((1, 1, 12, 8), (1, 1, 12, 8), (1, 1, 12, 4))
        theta = np.array([1, 1e-4])
        row, column = np.divmod(np.arange(12), 4)
        angle = np.concatenate([np.repeat(row[:, None] * theta, 2, 1),
                                np.repeat(column[:, None] * theta, 2, 1)], 1)
        tables = fovea.attention(q, k, v, "nala", rope=(np.cos(angle), np.sin(angle)))
        grid = fovea.attention(q, k, v, "nala", rope=(3, 4))
        self.assertLess(off(grid, tables), 1e-6)
        self.assertGreater(off(grid, fovea.attention(q, k, v, "nala")), 1e-2)

    def test_gates(self):
        q, k, v, x = arrays((2, 3, 9, 8), (2, 3, 9, 8), (2, 3, 9, 8), (2, 9, 20))
        logit_q, logit_k, weight_q, weight_k = arrays((2, 3, 9), (2, 3, 9), (3, 20), (3, 20))
        def softmax(a):
            e = np.exp(a)
            return (e / e.sum(1, keepdims=True)).astype(np.float32)
        ready = fovea.attention(q, k, v, "sla-linear", gate_q=softmax(logit_q), gate_k=softmax(logit_k))
        logits = fovea.attention(q, k, v, "sla-linear", gates="logits", gate_q=logit_q, gate_k=logit_k)
        self.assertLess(off(logits, ready), 1e-5)
        made = [softmax((x @ w.T).transpose(0, 2, 1)) for w in (weight_q, weight_k)]
        ready = fovea.attention(q, k, v, "sla-linear", gate_q=made[0], gate_k=made[1])
        dense = fovea.attention(q, k, v, "sla-linear", gates="x-dense", gate_q=weight_q,
                                gate_k=weight_k, x=x)
        self.assertLess(off(dense, ready), 1e-5)

    def test_device_and_version(self):
        q, k, v = arrays((1, 1, 9, 8), (1, 1, 9, 8), (1, 1, 9, 8))
        device = fovea.Device("cpu", threads=1, isa="scalar")
        self.assertEqual((device.info["id"], device.info["features"]), ("cpu", "scalar"))
        self.assertLess(off(fovea.attention(q, k, v, device=device), linear(q, k, v)), 1e-6)
        self.assertRegex(fovea.version(), r"^\d+\.\d+\.\d+$")

    def test_errors(self):
        q, k, v = arrays((1, 2, 9, 8), (1, 2, 9, 8), (1, 2, 9, 7))
        with self.assertRaisesRegex(fovea.Error, "nonsense") as e:
            fovea.attention(q, k, v, "nonsense")
        self.assertEqual(e.exception.status, -5)
        with self.assertRaisesRegex(fovea.Error, "multiple"):
            fovea.attention(q, k, v, "pola")
        for options, kind in [(dict(beta=q), TypeError), (dict(colour=1), TypeError),
                              (dict(storage="f8"), ValueError), (dict(g=v), TypeError),
                              (dict(g=q, out_gate="linear"), ValueError),
                              (dict(norm_weight=np.ones(13)), ValueError)]:
            with self.assertRaises(kind, msg=str(options)):
                fovea.attention(q, k, v, "linear", **options)
        with self.assertRaises(ValueError):
            fovea.attention(q[0], k[0], v[0])
        with self.assertRaises(ValueError):
            fovea.attention(q, k[:, :, :5], v)
        with self.assertRaises(TypeError):
            fovea.attention(q.astype(np.float64), k, v)
        with self.assertRaises(TypeError):
            fovea.attention(q, k.astype(np.float16), v)


def gla(q, k, v, a, s):
    out = []
    for t in range(q.shape[-2]):
        s = np.exp(a[..., t, :, None].astype(np.float64)) * s + k[..., t, :, None] * v[..., t, None, :]
        out.append((q[..., t, None, :] @ s)[..., 0, :])
    return np.stack(out, -2), s


class Causal(unittest.TestCase):
    def setUp(self):
        self.q, self.k, self.v, a = arrays((2, 3, 50, 8), (2, 3, 50, 8), (2, 3, 50, 6), (2, 3, 50, 8))
        self.a = -np.abs(a)

    def test_state_in_and_out(self):
        zero = np.zeros((2, 3, 8, 6))
        want, state = gla(self.q, self.k, self.v, self.a, zero)
        got, (s, z) = fovea.attention(self.q, self.k, self.v, "gla", causal=True, log_decay=self.a,
                                      normalise=False, return_state=True)
        self.assertLess(off(got, want), 1e-5)
        self.assertLess(off(s, state), 1e-5)
        self.assertIsNone(z)
        more, (s, z) = fovea.attention(self.q, self.k, self.v, "gla", causal=True, log_decay=self.a,
                                       normalise=False, state=(s, z), return_state=True)
        want, state = gla(self.q, self.k, self.v, self.a, state)
        self.assertLess(off(more, want), 1e-5)
        self.assertLess(off(s, state), 1e-5)
        for form in ("recurrent", "chunk"):
            alone = fovea.attention(self.q, self.k, self.v, "gla", causal=True, form=form,
                                    log_decay=self.a, normalise=False)
            self.assertLess(off(alone, got), 1e-5)

    def test_denominator(self):
        for name, width in [("linear", 8), ("linear:nala", 16)]:
            out, (s, z) = fovea.attention(self.q, self.k, self.v, name, causal=True, return_state=True)
            self.assertEqual((s.shape, z.shape), ((2, 3, width, 6), (2, 3, width)))
        want = elu1(self.k.astype(np.float64)).sum(2)
        _, (s, z) = fovea.attention(self.q, self.k, self.v, causal=True, return_state=True)
        self.assertLess(off(z, want), 1e-5)

    def test_step_by_step(self):
        def rows(a):
            return a[0].transpose(1, 0, 2).reshape(50, -1)
        q, k, v, a = (rows(x) for x in (self.q, self.k, self.v, self.a))
        want = fovea.attention(q, k, v, "gla", heads=3, causal=True, log_decay=a, normalise=False)
        state = fovea.State("gla", heads=3, head_dim=8, value_dim=6, rows=20, normalise=False)
        got = [state.feed(q[:20], k[:20], v[:20], log_decay=a[:20])]
        for t in range(20, 30):
            got.append(state.step(q[t], k[t], v[t], log_decay=a[t])[None])
        saved = state.save()
        state.feed(q[:7], k[:7], v[:7], log_decay=a[:7])
        state.restore(*saved)
        got.append(state.feed(q[30:], k[30:], v[30:], log_decay=a[30:]))
        self.assertLess(off(np.concatenate(got), want), 1e-5)
        state.reset()
        self.assertLess(off(state.feed(q[:9], k[:9], v[:9], log_decay=a[:9]), want[:9]), 1e-5)
        with self.assertRaises(fovea.Error):
            state.feed(q[:21], k[:21], v[:21], log_decay=a[:21])
        with unittest.mock.patch.object(fovea._lib, "fovea_state_reset", return_value=-9):
            with self.assertRaises(fovea.Error) as e:
                state.reset()
            self.assertEqual(e.exception.status, -9)
        with self.assertRaises(ValueError):
            state.feed(q[:5], k[:4], v[:5], log_decay=a[:5])

    def test_sequence(self):
        """A language model of random weights: pieces, all logits, a fork, saved states, refusals."""
        sys.path.append(os.path.join(ROOT, "tests", "models"))
        import language_cases as cases
        case = "gated_delta"
        ids, want = cases.ids_of(case), np.array(cases.listed()[case]["logits"])
        with tempfile.TemporaryDirectory() as folder:
            cases.write_checkpoint(folder, cases.config_of(case),
                                   cases.tensors_of(case, cases.listed()[case]["shapes"]))
            model = fovea.Model(folder)
            every = fovea.Sequence(model, rows=64, all_logits=True)
            self.assertLess(off(every.feed(ids)[cases.POSITIONS], want), 2e-5)
            last = fovea.Sequence(model)
            last.feed(ids[:100])
            saved, fork = last.save(), last.fork()
            for one in last, fork:
                self.assertLess(off(one.feed(ids[100:cases.POSITIONS[-1] + 1]), want[-1]), 2e-5)
            last.reset()
            last.feed(ids[:5])
            last.restore(saved)
            self.assertEqual(last.info["tokens"], 100)
            self.assertLess(off(last.feed(ids[100:129]), want[cases.POSITIONS.index(128)]), 2e-5)
            for wrong in [lambda: last.feed([61]), lambda: last.restore(saved[:-1]),
                          lambda: last.forward(np.zeros((1, 32))),
                          lambda: fovea.Sequence(fovea.Model(MODEL))]:
                with self.assertRaises(fovea.Error):
                    wrong()

    def test_retention_and_delta(self):
        decay = np.log(1 - 2.0 ** (-5 - np.arange(3)))
        own = fovea.attention(self.q, self.k, self.v, "retention", causal=True, normalise=False)
        given = fovea.attention(self.q, self.k, self.v, "retention", causal=True, normalise=False,
                                log_decay=decay)
        self.assertLess(off(given, own), 1e-5)
        beta = 1 / (1 + np.exp(-self.a[..., 0]))
        plain, gated = (fovea.attention(self.q, self.k, self.v, name, causal=True, l2norm=True,
                                        normalise=False, beta=beta, log_decay=decays)
                        for name, decays in [("delta-rule", None),
                                             ("gated-delta-rule", np.zeros_like(beta))])
        self.assertLess(off(gated, plain), 1e-5)


class Gemm(unittest.TestCase):
    def test_product(self):
        a, w, bias = arrays((30, 20), (12, 20), (12,))
        want = a.astype(np.float64) @ w.T
        self.assertLess(off(fovea.gemm(a, w), want), 1e-6)
        self.assertLess(off(fovea.gemm(a, w, bias, "relu"), np.maximum(want + bias, 0)), 1e-6)
        with self.assertRaises(ValueError):
            fovea.gemm(a, w.T)


class Models(unittest.TestCase):
    def setUp(self):
        self.model = fovea.Model(MODEL)
        self.image = np.random.default_rng(1).integers(0, 256, (70, 84, 3)).astype(np.uint8)

    def test_named_outputs(self):
        info = self.model.info
        self.assertEqual(info["type"], "dinov2_with_registers")
        names = ["hidden1", "last_hidden_state"]
        self.assertLessEqual(set(names), set(self.model.outputs))
        out = self.model.run(self.image, outputs=names)
        tokens = info["prefix"] + (70 // info["patch"]) * (84 // info["patch"])
        self.assertEqual({n: a.shape for n, a in out.items()}, dict.fromkeys(names, (tokens, info["width"])))
        again = self.model.run(self.image[None], outputs=names)
        self.assertTrue(np.array_equal(again["hidden1"][0], out["hidden1"]))

    def test_planes(self):
        names = ["last_hidden_state"]
        info = self.model._preprocess()
        mean, std = (np.array(a)[:, None, None] for a in (info.mean, info.std))
        planes = ((self.image.transpose(2, 0, 1) * info.rescale - mean) / std).astype(np.float32)
        want, got, gray, same = (
            self.model.run(picture, outputs=names, compute="f32")["last_hidden_state"]
            for picture in (self.image, planes, self.image[:, :, 0], np.repeat(self.image[:, :, :1], 3, 2)))
        self.assertLess(off(got, want), 1e-4)
        self.assertLess(off(gray, same), 1e-6)

    def test_attention_and_preprocess(self):
        softmax, linear = (self.model.run(self.image, a, ["last_hidden_state"])["last_hidden_state"]
                           for a in ("softmax", "linear:elu1"))
        self.assertGreater(off(linear, softmax), 1e-3)
        whole = self.model.run(self.image, preprocess=True)
        self.assertTrue(all(np.isfinite(a).all() for a in whole.values()))

    def test_weights(self):
        plain, half = (self.model.run(self.image, outputs=["last_hidden_state"], weights=w,
                                      compute="f32")["last_hidden_state"] for w in ("f32", "bf16"))
        self.assertTrue(1e-5 < off(half, plain) < 0.1)
        numbers = self.model.run(self.image, outputs=["last_hidden_state"], weights="int8")
        self.assertTrue(1e-5 < off(numbers["last_hidden_state"], plain) < 0.1)
        with self.assertRaises(KeyError):
            self.model.run(self.image, activations="int8")

    def test_compute(self):
        """Products in bfloat16 are rounded, in a separate plan and in an operation."""
        names = ["last_hidden_state"]
        plain, rounded = (self.model.run(self.image, outputs=names, compute=c)["last_hidden_state"]
                          for c in ("f32", "bf16"))
        self.assertTrue(1e-5 < off(rounded, plain) < 0.1)
        plan = self.model.plan(self.image, outputs=names, compute="bf16")
        np.testing.assert_array_equal(plan.run(self.image)["last_hidden_state"], rounded)
        with self.assertRaises(KeyError):
            self.model.run(self.image, compute="int4")
        with self.assertRaisesRegex(fovea.Error, "leave their types"):
            self.model.run(self.image, compute="bf16", weights="f16")
        q, k, v = arrays(*[(2, 3, 20, 8)] * 3)
        want, got = (fovea.attention(q, k, v, "softmax", compute=c) for c in ("f32", "bf16"))
        self.assertTrue(off(got, want) < 0.05)
        self.assertIn(fovea.Device("cpu").info["int8"], (0, 1))

    def test_types_of_products(self):
        names = ["last_hidden_state"]
        plain, bf16, int8 = (self.model.run(self.image, outputs=names, compute=c)["last_hidden_state"]
                             for c in ("f32", "bf16", "int8"))
        self.assertTrue(1e-5 < off(bf16, plain) < off(int8, plain) < 0.1)
        info = self.model.plan(self.image).info
        fast = "bf16" if fovea.Device("cpu").info["bf16"] else "f32"
        self.assertEqual((info["compute"], info["compute_source"]), (fast, "device"))
        info = self.model.plan(self.image, weights="f16").info
        self.assertEqual((info["compute"], info["compute_source"]), ("f32", "storage"))
        pictures = [self.image, self.image[::-1]]
        tuned = self.model.tune_accuracy(pictures, 0.5, outputs=names)
        self.assertEqual(set(tuned.tried), {"f32", "bf16", "int8"})
        self.assertEqual(tuned.bf16, [])
        cosines = [tuned.tried[way]["cosine"] for way in ("int8", "bf16", "f32")]
        self.assertEqual(cosines, sorted(cosines))
        info = self.model.plan(self.image, compute="auto").info
        self.assertEqual((info["compute"], info["compute_source"]), (tuned.compute, "wisdom"))
        mixed = self.model.tune_accuracy(pictures, 0.6 * cosines[0] + 0.4 * cosines[1], outputs=names)
        self.assertTrue(mixed.bf16 and all(label.startswith("block ") for label in mixed.bf16))
        self.assertEqual(self.model.tune_accuracy(pictures, 1 - 1e-12, outputs=names).compute, "f32")
        with self.assertRaises(fovea.Error):
            self.model.tune_accuracy(pictures, 2)
        with self.assertRaises(ValueError):
            self.model.tune_accuracy([], 0.9)
        with self.assertRaises(ValueError):
            self.model.tune_accuracy([self.image, self.image[:56]], 0.9)

    def test_layouts(self):
        random = np.random.default_rng(4)
        luma, u, v = (random.integers(0, 256, shape, np.uint8) for shape in ((56, 70), (28, 35), (28, 35)))
        want = self.model.run(np.concatenate([luma, np.stack([u, v], -1).reshape(28, 70)]), format="nv12",
                              yuv="709", outputs=["last_hidden_state"])["last_hidden_state"]
        padded = np.pad(luma, ((0, 0), (0, 9)))[:, :70]
        for planes, layout in (((luma, u, v), "yuv420p"), ((padded, v, u), "yvu420p"),
                               ((luma, np.stack([v, u], -1).reshape(28, 70)), "nv21"),
                               ([p.astype(np.uint16) << 2 for p in (luma, u, v)], "yuv420p10le")):
            pixels, options = fovea.convert(planes, layout, 70, 56, "709")
            self.assertEqual(options, {"format": "nv12", "yuv": "709"})
            got = self.model.run(pixels, outputs=["last_hidden_state"], **options)
            np.testing.assert_array_equal(got["last_hidden_state"], want)
        pixels, options = fovea.convert([luma], "gray", 70, 56, "601")
        self.assertEqual((pixels.shape, options["format"]), ((56, 70), "gray8"))
        self.assertEqual([pixels[luma == code][0] for code in (16, 235)], [0, 255])
        self.assertEqual(len(fovea.layouts()), len(set(fovea.layouts())))
        for planes, layout, width, words in (((luma, u), "yuv420p", 70, "2 planes, but yuv420p has 3"),
                                             ((luma, u, u[:9]), "yuv420p", 70, "must have 28 rows of 35 bytes"),
                                             ((luma,), "yuv999", 70, "yuv999"),
                                             ((luma, u, v), "yuv420p", 69, "must be even")):
            with self.assertRaisesRegex(ValueError, words):
                fovea.convert(planes, layout, width, 56)
        self.assertEqual(fovea.choose_yuv("yuv420p", 720), "709")
        self.assertEqual(fovea.choose_yuv("yuv422p", 720, range="full"), "601-full")
        self.assertEqual(fovea.choose_yuv("p010le", 720, coefficients="2020"), "2020")
        self.assertEqual(fovea.choose_yuv("nv12", 720, origin="camera"), "601")
        with self.assertRaisesRegex(ValueError, "wide"):
            fovea.choose_yuv("nv12", 720, range="wide")

    def test_camera_frames(self):
        """Grey frames, which are the same with every colour matrix: luma 16 to 235 is 0 to 255."""
        names = ["last_hidden_state"]
        height, width = 56, 70
        luma = (16 + np.arange(height * width) % 220).astype(np.uint8).reshape(height, width)
        gray = np.round((luma.astype(float) - 16) * 255 / 219).astype(np.uint8)
        want = self.model.run(gray, outputs=names)["last_hidden_state"]
        nv12 = np.concatenate([luma, np.full((height // 2, width), 128, np.uint8)])
        yuyv = np.stack([luma, np.full_like(luma, 128)], 2)
        for yuv in ("601", "709"):
            for kind, pixels in (("nv12", nv12), ("yuyv", yuyv)):
                got = self.model.run(pixels, outputs=names, format=kind, yuv=yuv)
                np.testing.assert_array_equal(got["last_hidden_state"], want)
        with self.assertRaises(ValueError):
            self.model.run(yuyv, outputs=names, format="nv12")
        with self.assertRaises(ValueError):
            self.model.run(nv12[:, 1:], outputs=names, format="nv12")

    def test_features(self):
        info = self.model.info
        dense = self.model.features(self.image, attention="linear+softmax@1")
        self.assertEqual(list(dense), ["last_hidden_state"])
        values, stride = dense["last_hidden_state"]
        rows = self.model.run(self.image, "linear+softmax@1", ["last_hidden_state"])["last_hidden_state"]
        self.assertEqual(stride, info["patch"])
        self.assertEqual(values.shape, (70 // stride, 84 // stride, info["width"]))
        self.assertTrue(np.array_equal(values[1, 2], rows[info["prefix"] + 84 // stride + 2]))
        with self.assertRaises(ValueError):
            self.model.features(self.image, outputs=["pooler_output"])
        stages = fovea.Model("synthetic:mavit-t").features(self.image[:64, :64])
        self.assertEqual([f.values.shape[:2] + (f.stride,) for f in stages.values()],
                         [(16, 16, 4), (8, 8, 8), (4, 4, 16), (2, 2, 32)])

    def test_plan_of_ones_own(self):
        plan = self.model.plan(self.image, "linear:elu1")
        want = self.model.run(self.image, "linear:elu1")
        for name, rows in plan.run(self.image).items():
            np.testing.assert_array_equal(rows, want[name])
        with self.assertRaisesRegex(ValueError, "reads rgb8 of 84 x 70, but the picture is gray8 of 84 x 70"):
            plan.run(self.image[:, :, 0])
        camera = np.full((56, 70, 2), 128, np.uint8)
        want = self.model.run(camera, format="yuyv")
        for name, rows in self.model.plan(camera, format="yuyv").run(camera).items():
            np.testing.assert_array_equal(rows, want[name])

    def test_detections(self):
        model = fovea.Model("synthetic:nalaformer-xt-retinanet")
        names = [n for n in model.outputs if n.startswith(("cls.", "box."))]
        plan = model.plan(self.image, outputs=names, preprocess=True)
        high, wide = self.image.shape[:2]
        boxes = plan.detections(self.image)
        self.assertTrue(0 < len(boxes) <= model.info["boxes"])
        self.assertEqual([b.score for b in boxes], sorted((b.score for b in boxes), reverse=True))
        low, scale = plan.info["left"], plan.info["scale_x"]
        for b in boxes:
            self.assertTrue(0 <= b.label < 80 and b.x1 <= b.x2 and b.y1 <= b.y2)
            self.assertTrue(low - 0.01 <= b.x1 and b.x2 <= low + plan.info["width"] * scale + 0.01)
        self.assertEqual(plan.detections(self.image, most=2), boxes[:2])
        with self.assertRaisesRegex(fovea.Error, "all outputs cls.0"):
            model.plan(self.image).detections(self.image)

    def test_results(self):
        high, wide = self.image.shape[:2]
        model = fovea.Model("synthetic:depth-anything-s")
        plan = model.plan(self.image, preprocess=True)
        self.assertEqual(plan.kinds, {"predicted_depth": "depth"})
        self.assertEqual(plan.layouts, {"predicted_depth": "map"})
        depth, steps = plan.depth(self.image), plan.depth(self.image, unit=0)
        self.assertEqual((depth.shape, depth.dtype), ((high, wide), np.float32))
        self.assertEqual((steps.dtype, steps.min(), steps.max()), (np.uint16, 1, 65535))
        farthest, nearest = (k(depth) for k in (np.argmin, np.argmax))
        self.assertEqual((steps.flat[farthest], steps.flat[nearest]), (1, 65535))
        model = fovea.Model("synthetic:vitpose-s")
        points = model.plan(self.image, preprocess=True).keypoints(self.image)
        self.assertEqual(len(points), model.info["keypoints"])
        self.assertEqual(model.keypoint(0), "nose")
        segmenter = fovea.Model("synthetic:mavit-t-fpn").plan(self.image, preprocess=True)
        classes = segmenter.class_map(self.image)
        self.assertEqual(classes.shape, (high, wide))
        self.assertTrue(((classes < 150) | (classes == fovea.NO_CLASS)).all())
        with self.assertRaisesRegex(fovea.Error, "masks_queries_logits"):
            segmenter.masks(self.image)

    def test_threads(self):
        """Several threads run one model, with a shared plan and with one plan each."""
        names, seen = ["last_hidden_state"], []
        images = [np.roll(self.image, 7 * i, 1) for i in range(4)]
        want = [self.model.run(p, outputs=names)["last_hidden_state"] for p in images]

        def work(image, right, run):
            try:
                seen.extend(np.array_equal(run(image)["last_hidden_state"], right) for _ in range(20))
            except fovea.Error as e:
                seen.append(str(e))
        for own in (False, True):
            runs = [self.model.plan(p, outputs=names).run if own else
                    lambda p: self.model.run(p, outputs=names) for p in images]
            threads = [threading.Thread(target=work, args=a) for a in zip(images, want, runs)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        self.assertEqual(seen, [True] * 160)

    def test_few_plans_are_kept(self):
        sizes = [(14 * i, 28) for i in range(2, 3 + fovea.Model.PLANS)]
        self.model.run(self.image[:sizes[0][0], :28])
        first = list(self.model._plans.values())
        for height, width in sizes:
            self.model.run(self.image[:14, :28])
            self.model.run(self.image[:28, :28])
            self.model.run(np.zeros((height, width, 3), np.uint8))
            self.assertLessEqual(len(self.model._plans), fovea.Model.PLANS)
        self.assertEqual(len(self.model._plans), fovea.Model.PLANS)
        self.assertIn(first[0], self.model._plans.values())  # kept, because it was used in between

    @unittest.skipUnless(importlib.util.find_spec("PIL"), "no PIL for this Python: python3-pil")
    def test_pillow(self):
        from PIL import Image
        want = self.model.run(self.image)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.png")
            Image.fromarray(self.image).save(path)
            turned = Image.fromarray(np.rot90(self.image))
            turned.getexif()[0x112] = 6  # to be turned clockwise
            turned.save(os.path.join(folder, "b.png"), exif=turned.getexif())
            opaque = Image.fromarray(self.image).convert("RGBA")
            for picture in (path, os.path.join(folder, "b.png"), opaque):
                for name, rows in self.model.run(picture).items():
                    np.testing.assert_array_equal(rows, want[name])
            with self.assertRaises(OSError):
                self.model.run(os.path.join(folder, "c.png"))

    @unittest.skipUnless(importlib.util.find_spec("PIL"), "no PIL for this Python: python3-pil")
    def test_grey_of_16_bits(self):
        """16-bit grey is converted as in the program: for a PGM to the high byte, for other files limited to 255."""
        from PIL import Image
        deep = self.image[..., 0].astype(np.uint16) * 250 + 7
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.pgm")
            with open(path, "wb") as f:
                f.write(b"P5 84 70 65535\n" + deep.astype(">u2").tobytes())
            Image.fromarray(deep).save(path + ".png")
            for name, grey in ((path, deep >> 8), (path + ".png", np.minimum(deep, 255))):
                want = self.model.run(grey.astype(np.uint8))
                for output, rows in self.model.run(name).items():
                    np.testing.assert_array_equal(rows, want[output])

    def test_shapes_that_could_be_either(self):
        rng = np.random.default_rng(3)
        for shape in ((3, 40, 3), (3, 40, 4), (2, 3, 40, 3)):
            with self.assertRaisesRegex(ValueError, r"rows or planes; .*\[\.\.\., :3\] .*moveaxis\(pixels, -3, -1\)"):
                self.model(rng.integers(0, 256, shape, np.uint8))
        rows = rng.integers(0, 256, (3, 40, 3), np.uint8)
        tall = rng.integers(0, 256, (40, 3, 3), np.uint8)
        self.assertEqual(self.model(rows, format="rgb8").features.shape, self.model(np.repeat(rows, 2, 0)).features.shape)
        self.model(tall)
        for shape, words in (((5, 40, 4), r"RGBA pixels pass pixels\[\.\.\., :3\]"), ((4, 30, 40), r"moveaxis\(pixels\[:3\]"),
                             ((30, 40, 1), r"grey channel pass pixels\[\.\.\., 0\]")):
            with self.assertRaisesRegex(ValueError, words):
                self.model(rng.integers(0, 256, shape, np.uint8))

    def test_errors(self):
        with self.assertRaisesRegex(fovea.Error, "nowhere"):
            fovea.Model("nowhere")
        with self.assertRaises(fovea.Error):
            self.model.run(self.image, outputs=["nonsense"])
        with self.assertRaisesRegex(TypeError, "colour"):
            self.model.run(self.image, colour=1)
        with unittest.mock.patch.dict(sys.modules, {"PIL": None}):
            with self.assertRaisesRegex(ImportError, r"^photo\.jpg: Pillow .*\(H, W, 3\)"):
                self.model.run("photo.jpg")
        for pixels, kind, words in [
                (self.image.transpose(2, 0, 1), ValueError, r"uint8 .*\(3, 70, 84\); pass RGB pixels \(H, W, 3\)"),
                (self.image.astype(np.float32), ValueError, r"float32 .*\(70, 84, 3\); .*\(3, H, W\)"),
                (self.image.astype(np.int64), TypeError, "type int64; pass uint8")]:
            with self.assertRaisesRegex(kind, words):
                self.model.run(pixels)


class Tensor:
    """An array of another library, of which only the DLPack protocol is known."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.device


class Calls(unittest.TestCase):
    def setUp(self):
        self.model = fovea.Model(MODEL)
        self.image = np.random.default_rng(1).integers(0, 256, (70, 84, 3)).astype(np.uint8)
        self.want = self.model.run(self.image, preprocess=True)["last_hidden_state"]

    def same(self, picture, want=None, **options):
        got = self.model(picture, **options)["last_hidden_state"]
        np.testing.assert_array_equal(got, self.want if want is None else want)

    def addresses(self, picture, **options):
        """The address of the pixels that the library gets, and the stride of their rows."""
        seen, run = [], fovea._lib.fovea_run

        def watch(plan, frame, *outputs):
            seen.append((frame._obj.pixels[0], frame._obj.stride[0]))
            return run(plan, frame, *outputs)
        with unittest.mock.patch.object(fovea._lib, "fovea_run", watch):
            self.model(picture, **options)
        self.assertEqual(len(seen), 1)
        return seen[0]

    def test_pixels_are_read_where_they_lie(self):
        image, address = self.image, self.image.ctypes.data
        self.assertEqual(self.addresses(image), (address, 84 * 3))
        self.assertEqual(self.addresses(image[7:, 14:42]), (address + 7 * 84 * 3 + 14 * 3, 84 * 3))
        self.assertEqual(self.addresses(image[::2]), (address, 2 * 84 * 3))
        self.assertEqual(self.addresses(image[..., ::-1]), (address, 84 * 3))
        self.assertEqual(self.addresses(image.transpose(2, 0, 1)), (address, 84 * 3))
        self.assertEqual(self.addresses(Tensor(image)), (address, 84 * 3))
        self.assertEqual(self.addresses(Tensor(image.transpose(2, 0, 1))), (address, 84 * 3))
        gray = np.ascontiguousarray(image[..., 0])
        self.assertEqual(self.addresses(gray[:, 10:60]), (gray.ctypes.data + 10, 84))
        planes = np.zeros((3, 70, 84), np.float32)
        self.assertEqual(self.addresses(planes), (planes.ctypes.data, 0))
        read_only = image.copy()
        read_only.flags.writeable = False
        self.assertEqual(self.addresses(read_only), (read_only.ctypes.data, 84 * 3))
        self.assertNotEqual(self.addresses(image[:, ::2])[0], address)  # pixels are not contiguous

    def test_layouts(self):
        """Views give the same results as copies."""
        image = self.image
        for view in (image[7:, 14:42], image[::2], image[:, ::2], image[::-1], image[:, ::-1],
                     image[..., ::-1], image[::-1, 3:, ::-1], image[:1], image[:, :1]):
            for preprocess in True, False:
                if not preprocess and min(view.shape[:2]) < 14:
                    continue
                want = self.model.run(view.copy(), preprocess=preprocess)["last_hidden_state"]
                self.same(view, want, preprocess=preprocess)
        for picture in (image.transpose(2, 0, 1), np.ascontiguousarray(image.transpose(2, 0, 1)),
                        Tensor(image), Tensor(np.ascontiguousarray(image.transpose(2, 0, 1)))):
            self.same(picture)
        self.same(np.ascontiguousarray(image[..., ::-1]), format="bgr8")
        self.same(np.ascontiguousarray(image[..., ::-1])[..., ::-1])
        nv12 = np.random.default_rng(2).integers(0, 256, (84, 90), np.uint8)
        want = self.model.run(nv12[:, 4:74].copy(), format="nv12")["last_hidden_state"]
        self.same(nv12[:, 4:74], want, format="nv12", preprocess=False)

    def test_plans_of_either_order(self):
        """A plan made for one order of colours accepts the other."""
        bgr = np.ascontiguousarray(self.image[..., ::-1])
        for like, format, pictures in [
                (self.image, None, (self.image, bgr[..., ::-1])),
                (bgr[..., ::-1], None, (self.image, bgr[..., ::-1])),
                (bgr, "bgr8", (bgr, self.image[..., ::-1]))]:
            plan = self.model.plan(like, preprocess=True, format=format)
            for picture in pictures:
                np.testing.assert_array_equal(plan.run(picture)["last_hidden_state"], self.want)

    def test_several(self):
        other = self.image[:, ::-1].copy()
        wants = [self.want, self.model(other)["last_hidden_state"]]
        batch = np.stack([self.image, other])
        for several in ([self.image, other], (self.image, other), batch, batch.transpose(0, 3, 1, 2),
                        Tensor(batch)):
            got = self.model(several)
            self.assertIsInstance(got, fovea.Batch)
            np.testing.assert_array_equal(got.stacked(), wants)
            np.testing.assert_array_equal(got.stacked("last_hidden_state"), wants)
        three = [self.image, other, other[::-1]]
        each = [self.model(p)["last_hidden_state"] for p in three]
        for count in (2, 3, 8):
            got = self.model(three, count=count)
            np.testing.assert_array_equal(got.stacked("last_hidden_state"), np.stack(each))
        plan = self.model.plan(self.image, preprocess=True, count=2)
        self.assertEqual(plan.info["count"], 2)
        for got, want in zip(plan.run_all(three), each):
            np.testing.assert_array_equal(got["last_hidden_state"], want)
        self.assertEqual(plan.run_all([]), [])
        with self.assertRaises(fovea.Error):
            self.model(three, count=1000)
        ran = []
        frames = self.model(ran.append(i) or p for i, p in enumerate((self.image, other)))
        self.assertEqual(ran, [])
        np.testing.assert_array_equal(next(frames)["last_hidden_state"], wants[0])
        self.assertEqual(ran, [0])
        np.testing.assert_array_equal(next(frames)["last_hidden_state"], wants[1])
        self.assertEqual(list(frames), [])
        self.assertEqual(len(list(self.model.map([self.image] * 3, size=56))), 3)

    def test_result(self):
        out = self.model(self.image, outputs=["hidden1", "last_hidden_state"])
        self.assertEqual(list(out), ["hidden1", "last_hidden_state"])
        self.assertEqual(len(out), 2)
        self.assertRegex(repr(out), r"^Result\(hidden1 \(\d+, 64\), last_hidden_state")
        np.testing.assert_array_equal(out.features, out.dense("hidden1").values)
        self.assertEqual(out.dense("last_hidden_state").stride, self.model.info["patch"])
        self.assertTrue(np.shares_memory(out.features, out["hidden1"]))
        with self.assertRaisesRegex(KeyError, "nothing; there is hidden1"):
            out["nothing"]
        with self.assertRaisesRegex(fovea.Error, "predicted_depth"):
            out.depth
        with self.assertRaisesRegex(ValueError, "pooler_output is not a grid"):
            self.model(self.image, outputs=["pooler_output"]).features
        wide = self.model(self.image, size=(140, 56), attention="linear:elu1")
        self.assertEqual(wide.features.shape, (4, 10, 64))
        want = self.model.run(self.image, "linear:elu1", preprocess=True, size=(140, 56))
        np.testing.assert_array_equal(wide["last_hidden_state"], want["last_hidden_state"])
        self.assertEqual(self.model(self.image, size=42).features.shape, (3, 3, 64))

    def test_result_has_what_a_plan_has(self):
        for name, kind in [("synthetic:nalaformer-xt-retinanet", "boxes"), ("synthetic:mavit-t-fpn", "class_map"),
                           ("synthetic:vitpose-s", "keypoints"), ("synthetic:depth-anything-s", "depth")]:
            model = fovea.Model(name)
            out = model(self.image)
            plan = model.plan(self.image, outputs=list(out), preprocess=True)
            want = {"boxes": plan.detections, "class_map": plan.class_map, "keypoints": plan.keypoints,
                    "depth": plan.depth}[kind](self.image)
            got = getattr(out, kind)
            if kind in ("boxes", "keypoints"):
                self.assertEqual([g._replace(name=None) for g in got], want)
                self.assertGreater(len(got), 0)
            else:
                np.testing.assert_array_equal(got, want)
            if kind == "keypoints":
                self.assertEqual(got[0].name, "nose")

    def test_masks(self):
        """Masks of a model with random weights, with thresholds that some of them exceed."""
        segmenter = os.path.join(ROOT, "tests", "data", "golden", "models", "eomt-masked-01")
        out = fovea.Model(segmenter)(self.image)
        masks = out.masks_of(threshold=1e-3, mask_threshold=1e-3, overlap_threshold=1e-3)
        self.assertGreater(len(masks.found), 0)
        for i, mask in enumerate(masks.found):
            inside = np.argwhere(masks.of(i))
            self.assertEqual(len(inside), mask.area)
            np.testing.assert_array_equal(inside.min(0), [mask.y1, mask.x1])
        self.assertEqual(out.class_map.shape, (70, 84))

    def test_instances(self):
        """Instances have all of their pixels, which a map cannot hold; those of a detector are found without a rule."""
        models = os.path.join(ROOT, "tests", "data", "golden", "models")
        detector = fovea.Model(os.path.join(models, "rf-detr-seg-01"))(self.image)
        segmenter = fovea.Model(os.path.join(models, "eomt-masked-01"))(self.image)
        for masks in (detector.masks_of(threshold=0.05), segmenter.masks_of("instance", 1e-3)):
            hidden = 0
            self.assertGreater(len(masks.found), 1)
            for i, mask in enumerate(masks.found):
                inside = masks.of(i)
                self.assertEqual((inside.dtype, inside.shape, inside.sum()), (bool, (70, 84), mask.area))
                self.assertTrue(inside[masks.pixels == i + 1].all())
                hidden += (inside & (masks.pixels != i + 1)).sum()
                runs = masks.runs(i)
                np.testing.assert_array_equal(np.repeat(np.arange(len(runs)) % 2, runs).reshape(84, 70).T, inside)
            self.assertGreater(hidden, 0)
        boxes = {(b.score, b.label) for b in detector.boxes}
        self.assertTrue({(m.score, m.label) for m in detector.masks_of(threshold=0.05).found} <= boxes)

    def test_segmenter(self):
        """An object has the same masks alone and after others, and its parts agree with one another."""
        model = fovea.Model(os.path.join(ROOT, "tests", "data", "golden", "models", "sam-01"))
        plan = model.plan(self.image, preprocess=True)
        with fovea.Segmenter(plan, points=3) as segmenter:
            with self.assertRaisesRegex(fovea.Error, "fovea_segmenter_begin"):
                segmenter(points=[(1, 2)])
            segmenter.begin(plan.run(self.image))
            point = segmenter(points=[(30, 20)])
            box = segmenter(box=(10, 10, 30, 40))
            both = segmenter([(30, 20), (5, 5)], [1, 0], (10, 10, 30, 40), multimask=True)
            np.testing.assert_array_equal(segmenter(points=[(30, 20)]).logits, point.logits)
            for found, count in ((point, 3), (box, 1), (both, 3)):
                self.assertEqual(found.masks.shape, (count, *self.image.shape[:2]))
                self.assertEqual((found.masks.dtype, found.scores.shape), (bool, (count,)))
                self.assertEqual(found.logits.shape, (count, 32, 32))
            with self.assertRaisesRegex(ValueError, "2 labels for 1 points"):
                segmenter([(1, 2)], [1, 0])
            with self.assertRaisesRegex(fovea.Error, "at most 3"):
                segmenter([(1, 2)] * 4)

    def test_refusals(self):
        with self.assertRaisesRegex(TypeError, r"memory of a device .*tensor.cpu\(\)"):
            self.model(Tensor(self.image, (2, 0)))
        with self.assertRaisesRegex(ValueError, "preprocess=True"):
            self.model(self.image, size=56, preprocess=False)
        with self.assertRaisesRegex(ValueError, "'bgr8' does not match uint8 pixels of shape .*which are gray8"):
            self.model(self.image[..., 0], format="bgr8")
        with self.assertRaisesRegex(ValueError, "compute 'f8' is unknown; choose one of f32, bf16"):
            self.model(self.image, compute="f8")
        with self.assertRaisesRegex(TypeError, "colour"):
            self.model(self.image, colour=1)
        try:
            self.model(self.image, attention="nonsense")
        except fovea.Error as e:
            self.assertEqual((e.status, e.name), (-5, "ENOTSUP"))

    def test_others_run_meanwhile(self):
        """Another thread goes on during frames: it makes more iterations than fit between them."""
        image, rounds, done = np.zeros((1120, 1120, 3), np.uint8), [0], threading.Event()
        plan = fovea.Model(MODEL, fovea.Device(threads=1)).plan(image)

        def turn():
            while not done.wait(0.001):
                rounds[0] += 1
        thread = threading.Thread(target=turn)
        thread.start()
        try:
            before = rounds[0]
            for _ in range(3):
                plan.run(image)
            self.assertGreater(rounds[0] - before, 20)
        finally:
            done.set()
            thread.join()


class Loading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.hub = os.path.join(folder.name, "hub")
        environment = unittest.mock.patch.dict(os.environ, {"HF_HOME": folder.name})
        environment.start()
        self.addCleanup(environment.stop)
        for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
            os.environ.pop(name, None)

    def cached(self, name, snapshot, *files, main=None):
        repository = os.path.join(self.hub, "models--" + name.replace("/", "--"))
        folder = os.path.join(repository, "snapshots", snapshot)
        os.makedirs(folder)
        for file in files:
            os.symlink(os.path.join(MODEL, file), os.path.join(folder, file))
        if main:
            os.makedirs(os.path.join(repository, "refs"), exist_ok=True)
            with open(os.path.join(repository, "refs", "main"), "w") as file:
                file.write(main)
        return folder

    def test_names(self):
        whole = "config.json", "model.safetensors"
        self.cached("facebook/dinov2-base", "aaa", *whole)
        want = self.cached("facebook/dinov2-base", "bbb", *whole, main="bbb")
        self.cached("facebook/dinov2-base", "ccc", *whole)
        self.cached("someone/other", "aaa", *whole)
        for name in "facebook/dinov2-base", "dinov2-base", "DINOv2-base":
            self.assertEqual(fovea._hub.find(name), want)
            self.assertEqual(fovea.load(name).info["type"], "dinov2_with_registers")
        with unittest.mock.patch.dict(os.environ, {"HF_HUB_CACHE": self.hub, "HF_HOME": "/nowhere"}):
            self.assertEqual(fovea._hub.find("dinov2-base"), want)
        for path in MODEL, pathlib.Path(MODEL):
            self.assertEqual(fovea.load(path).info["type"], "dinov2_with_registers")
        self.assertEqual(fovea.load("synthetic:vit-ti16").info["depth"], 12)

    def test_memory(self):
        image = np.random.default_rng(5).integers(0, 256, (56, 56, 3), np.uint8)
        want = fovea.load(MODEL)(image)["last_hidden_state"]
        files = {}
        for name in "config.json", "model.safetensors", "preprocessor_config.json":
            if os.path.exists(os.path.join(MODEL, name)):
                with open(os.path.join(MODEL, name), "rb") as file:
                    files[name] = file.read()
        weights, config = files["model.safetensors"], json.loads(files["config.json"])
        packed = io.BytesIO()
        with gzip.open(packed, "wb") as file:
            file.write(weights)
        packed.seek(0)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "package")
        with open(path, "wb") as file:
            file.write(b"12345" + weights)
        with open(path, "rb") as part:
            part.read(5)
            for model in [fovea.load(files), fovea.load(dict(files, **{"model.safetensors": part})),
                          fovea.load(dict(files, **{"model.safetensors": np.frombuffer(weights, np.uint8)})),
                          fovea.load(dict(files, **{"model.safetensors": gzip.open(packed)})),
                          fovea.load(dict(files, **{"model.safetensors": io.BytesIO(weights)}))]:
                part.close()
                np.testing.assert_array_equal(model(image)["last_hidden_state"], want)
        for text in config, json.dumps(config), files["config.json"]:
            self.assertEqual(fovea.load(weights, config=text).info["width"], 64)

        # Bytes live as long as a plan that may hold the last reference to them, and no longer.
        array = np.frombuffer(weights, np.uint8).copy()
        held = weakref.ref(array)
        model = fovea.load(dict(files, **{"model.safetensors": array}))
        plan = model.plan(image)
        model.close()
        del array, model
        gc.collect()
        self.assertIsNotNone(held())
        plan.close()
        del plan
        gc.collect()
        self.assertIsNone(held())
        gc.collect()
        self.assertEqual((fovea._source._held, fovea._source._sources), ({}, {}))

        cache = os.path.join(folder.name, "cache")
        vit = fovea.load("synthetic:vit-ti16", weights_cache=cache)
        vit(image)
        self.assertTrue(all(name.endswith(".weight") for name in os.listdir(cache)))
        self.assertGreater(len(os.listdir(cache)), 12)

        for wrong, says in [(dict(files, **{"model.safetensors": weights[:-1]}), "memory/model.safetensors: "),
                            ({"model.safetensors": weights}, "memory/config.json: no such file"),
                            (dict(files, **{"config.json": b""}), "memory/config.json: .*not valid JSON"),
                            ({}, "memory contains neither model.safetensors nor")]:
            with self.assertRaisesRegex(fovea.Error, says):
                fovea.load(wrong)
            self.assertEqual((fovea._source._held, fovea._source._sources), ({}, {}))
        for arguments in ({"name": weights}, {"name": MODEL, "config": "{}"}, {"name": files, "config": {}}):
            with self.assertRaisesRegex(TypeError, "config"):
                fovea.load(**arguments)

    def test_what_is_missing(self):
        for name, command in [("dinov2-base", "hf download facebook/dinov2-base config.json "),
                              ("mine", "hf download OWNER/mine config.json "),
                              ("me/mine", "hf download me/mine config.json ")]:
            with self.assertRaisesRegex(fovea.Error, "^%s: .*%s" % (name, command)) as e:
                fovea.load(name)
            self.assertEqual(e.exception.name, "EIO")
        self.cached("me/mine", "aaa", "config.json")
        with self.assertRaisesRegex(fovea.Error, "incomplete in .*hf download me/mine config.json"):
            fovea.load("mine")
        self.cached("you/mine", "aaa", "config.json")
        with self.assertRaisesRegex(fovea.Error, "mine: the cache contains me/mine and you/mine; give one of them"):
            fovea.load("mine")
        for path in "a/b/c", "model.safetensors", "./dinov2-base":
            with self.assertRaisesRegex(fovea.Error, "^%s: (?!.*hf download)" % path):
                fovea.load(path)

    def test_devices(self):
        with fovea.Device("cpu", threads=1, isa="scalar") as device:
            model = fovea.load(MODEL)
            with fovea.Device("cpu", threads=1) as inner:
                self.assertIs(fovea.load(MODEL)._device, inner)
            self.assertIs(fovea.load(MODEL)._device, device)
        self.assertIs(model._device, device)
        self.assertIsNot(fovea.load(MODEL)._device, device)
        self.assertEqual(fovea.load(MODEL, device="cpu")._device.info["id"], "cpu")
        for wrong in (lambda: device.info, lambda: fovea.load(MODEL, device=device)):
            with self.assertRaisesRegex(ValueError, "this Device was closed"):
                wrong()
        device.close()

    def test_closing(self):
        image = np.zeros((56, 56, 3), np.uint8)
        with fovea.Device("cpu", threads=1) as device:
            model = fovea.load(MODEL)
            plan, out = model.plan(image), model(image)
            want = plan.run(image)
        model.close()
        np.testing.assert_array_equal(plan.run(image)["last_hidden_state"], want["last_hidden_state"])
        self.assertEqual(out.features.shape[2], 64)
        plan.close()
        for closed, wrong in [("Model", lambda: model(image)), ("Model", lambda: model.outputs),
                              ("Plan", lambda: plan.run(image)), ("Plan", lambda: plan.info)]:
            with self.assertRaisesRegex(ValueError, "this %s was closed, by .*; create another" % closed):
                wrong()
        with self.assertRaises(AttributeError):
            device.nothing


@unittest.skipUnless(importlib.util.find_spec("mypy"), "no mypy for this Python: pip install mypy")
class Types(unittest.TestCase):
    def mypy(self, *arguments):
        done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", os.devnull, *arguments],
                              capture_output=True, text=True, cwd=ROOT, env=dict(os.environ, MYPYPATH="python"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_package(self):
        self.mypy()

    def test_those_who_use_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "user.py")
            with open(path, "w") as file:
                file.write("""
import numpy as np
import numpy.typing as npt
import fovea

image = np.zeros((8, 8, 3), np.uint8)
model: fovea.Model = fovea.load("synthetic:vit-ti16", device=fovea.Device("cpu"))
out: fovea.Result = model(image, size=(56, 56), attention="linear")
array: npt.NDArray[np.float32] = out["last_hidden_state"]
boxes: list[fovea.Detection] = out.boxes
mask: npt.NDArray[np.bool_] = out.masks.of(0)
several: list[fovea.Result] = model(["a.jpg", image])
with fovea.Device("cpu") as device:
    for one in model(iter([image])):
        depth: npt.NDArray[np.float32] = one.depth
model(image, size="56")  # type: ignore[call-overload]
""")
            self.mypy("--strict", path)


class Program(unittest.TestCase):
    def test_module_is_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "fovea")
            with open(program, "w") as file:
                file.write("#!/bin/sh\necho \"$0\" \"$@\"\nexit 3\n")
            os.chmod(program, 0o755)
            done = subprocess.run([sys.executable, "-m", "fovea", "run", "a b"], capture_output=True, text=True,
                                  env=dict(os.environ, FOVEA_PROGRAM=program,
                                           PYTHONPATH=os.path.join(ROOT, "python")))
        self.assertEqual((done.returncode, done.stdout), (3, program + " run a b\n"))


class Pictures(unittest.TestCase):
    def setUp(self):
        self.device = fovea.Device("cpu", threads=1)
        self.model = fovea.Model(MODEL, device=self.device)
        self.pixels = np.random.default_rng(5).integers(0, 256, (3 * 56 // 2, 70), np.uint8)

    def plans(self, picture):
        for preprocess in False, True:
            yield self.model.plan(picture, attention="linear:elu1", preprocess=preprocess,
                                  format=None if isinstance(picture, fovea.ExternalImage) else "nv12")

    def same(self, picture):
        got = [plan.run(picture) for plan in self.plans(picture)]
        want = [plan.run(self.pixels) for plan in self.plans(self.pixels)]
        for g, w in zip(got, want):
            for name in w:
                self.assertTrue(np.array_equal(g[name], w[name]), name)

    def test_memory_of_a_file_descriptor(self):
        fd = os.memfd_create("pixels")
        os.write(fd, bytes(100) + self.pixels.tobytes())
        picture = fovea.ExternalImage(self.device, "nv12", 70, 56, fd=fd, offsets=(100, 100 + 70 * 56))
        os.close(fd)  # the picture has a duplicate
        self.assertEqual(picture.info, {"transfer": "none", "method": "mmap", "reason": ""})
        self.same(picture)

    def test_memory_of_the_hosts(self):
        address = self.pixels.ctypes.data
        picture = fovea.ExternalImage(self.device, "nv12", 70, 56, memory=address, size=self.pixels.nbytes,
                                offsets=(0, 70 * 56), owner=self.pixels)
        self.same(picture)
        planes = fovea.ExternalImage(self.device, "nv12", 70, 56, memory=(address, address + 70 * 56))
        self.pixels += 1
        self.same(planes)
        self.same(picture)

    def test_refusals(self):
        with self.assertRaises(ValueError):
            fovea.ExternalImage(self.device, "rgb8", 8, 8)
        with self.assertRaisesRegex(fovea.Error, "DRM_FORMAT_MOD_LINEAR"):
            fovea.ExternalImage(self.device, "rgb8", 8, 8, fd=0, modifier=1)
        with self.assertRaisesRegex(fovea.Error, "CPU"):
            fovea.ExternalImage(self.device, "rgb8", 8, 8, memory=4096, kind="cuda")
        other = fovea.ExternalImage(self.device, "gray8", 8, 8, memory=self.pixels.ctypes.data)
        with self.assertRaisesRegex(ValueError, "gray8"):
            next(self.plans(self.pixels)).run(other)


class Lifetimes(unittest.TestCase):
    """Freed memory is overwritten, so that a later read of it crashes."""

    def ends(self, *lines):
        program = "\n".join(["import gc, os, sys, threading", "sys.path.insert(0, %r)" % sys.path[0],
                             "import numpy as np, fovea", "image = np.zeros((70, 84, 3), np.uint8)",
                             "def workers():", "    return len(os.listdir('/proc/self/task'))",
                             *lines, "print('here', flush=True)"])
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, MALLOC_PERTURB_="165",
                                       GLIBC_TUNABLES="glibc.malloc.tcache_count=0"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "here\n", ""))

    def test_end_of_a_program(self):
        self.ends("model = fovea.Model(%r)" % MODEL, "out = model.run(image)")
        self.ends("device = fovea.Device(threads=2)", "model = fovea.Model(%r, device)" % MODEL,
                  "out = model.run(image)")

    def test_end_of_a_program_within_a_frame(self):
        self.ends("model = fovea.Model(%r)" % MODEL, "out = model.run(image)", "def work():",
                  "    while True:", "        model.run(image)",
                  "threading.Thread(target=work, daemon=True).start()")

    @unittest.skipUnless(os.path.isdir("/proc/self/task"), "no /proc/self/task to count threads in")
    def test_cyclic_garbage(self):
        """Objects in a cycle are collected in the order of creation, the device first; it ends with its last user."""
        self.ends("before = workers()",
                  "device = fovea.Device(threads=3)", "model = fovea.Model(%r, device)" % MODEL,
                  "plan, out = model.plan(image), model.run(image)",
                  "state = fovea.State(heads=1, head_dim=4, device=device)",
                  "device.me, model.me, plan.me, state.me = device, model, plan, state",
                  "assert workers() == before + 2", "del device, model, plan, state",
                  "gc.collect()", "gc.collect()",  # the objects that need the device, then the device
                  "assert workers() == before")

    @unittest.skipUnless(os.path.isdir("/proc/self/task"), "no /proc/self/task to count threads in")
    def test_models_are_no_garbage(self):
        """Models and their plans are freed with their last reference, without the garbage collector."""
        self.ends("gc.disable()", "before = workers()",
                  "model = fovea.Model(%r, fovea.Device(threads=3))" % MODEL, "out = model.run(image)",
                  "del model", "assert workers() == before")


if __name__ == "__main__":
    counted.main()
