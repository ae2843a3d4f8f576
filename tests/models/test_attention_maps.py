#!/usr/bin/env python3
"""test_attention_maps.py: compares attention maps of the pyramids with their float64 references.

    test_attention_maps.py path/to/fovea

The references of test_pyramid.py and test_polaformer.py run a picture and record their attention weights: with
rotations, learned powers, biases, in windows and shifted windows. Each row must equal the model's own row of
`fovea run --attention-map`, with its entropy and its share of negative weights.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

np = counted.need("numpy")
import test_polaformer as pola
import test_pyramid as pyramid

EXE = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "fovea"
NOTED = []  # recorded matrices, by call: of one head, or of all heads


def noting(core):
    def note(q, k, v, high, wide):
        NOTED.append(core(q, k, np.eye(len(k)), high, wide))
        return NOTED[-1] @ v
    return note


def noting_scores(softmax):
    def note(scores):
        NOTED.append(softmax(scores))
        return NOTED[-1]
    return note


def polar_weights(q, k, positions, t, stem, heads, alpha):
    """The mean of both streams' weights, (heads, queries, keys)."""
    sigma = np.logaddexp(0, t[stem + "scale"].reshape(-1))
    power = 1 + alpha / (1 + np.exp(-t[stem + "power"].reshape(heads, 1, -1)))
    q, k = (pola.heads_of(x / sigma, heads) for x in (q, k + positions))
    same = [np.maximum(x, 0) ** power for x in (q, k)], [np.maximum(-x, 0) ** power for x in (q, k)]
    (qp, kp), (qn, kn) = same
    streams = [a @ kp.transpose(0, 2, 1) + b @ kn.transpose(0, 2, 1) for a, b in ((qp, qn), (qn, qp))]
    return sum(s / s.shape[2] / (s.mean(2, keepdims=True) + 1e-6) for s in streams) / 2


def noting_polar(polar):
    def note(q, k, v, gate, grid, positions, t, stem, heads, alpha):
        NOTED.append(polar_weights(q, k, positions, t, stem, heads, alpha))
        return polar(q, k, v, gate, grid, positions, t, stem, heads, alpha)
    return note


def entropy(row):
    x = np.maximum(row, 0)
    x = x[x > 0] / x.sum()
    return float(-(x * np.log(x)).sum())


class Maps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.rng = np.random.default_rng(5)
        NOTED.clear()

    def write(self, config, tensors, image):
        with open(self.folder + "/config.json", "w") as f:
            json.dump(config, f)
        pola.save(self.folder + "/model.safetensors", tensors)
        pola.save(self.folder + "/in.safetensors", {"input": image[None]})

    def own(self, x, y, block, *options):
        """The weights of the model's own row, and the whole record."""
        p = subprocess.run([EXE, "run", self.folder, self.folder + "/in.safetensors", "--json", "--compute", "f32",
                            "--attention-map", "%d,%d,%s/map.png" % (x, y, self.folder), "--attention-block",
                            str(block), *options], capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        got = json.loads(p.stdout.splitlines()[0])["attention"]
        return next(r for r in got["rows"] if r["own"]), got

    def compare(self, want, x, y, block, *options):
        row, got = self.own(x, y, block, *options)
        weights = np.array(row["weights"])
        self.assertEqual(weights.shape, want.shape)
        self.assertLess(abs(weights - want).max(), 3e-5 * abs(want).max())
        self.assertLess(abs(row["pse"] - entropy(want)), 1e-4 * max(1, entropy(want)))
        self.assertLess(abs(row["negative"] - np.maximum(-want, 0).sum() / abs(want).sum()), 1e-5)
        others = [r for r in got["rows"] if not r["own"]]
        self.assertGreaterEqual({r["attention"] for r in others} | {row["attention"]},
                                {"softmax", "linear:elu1", "mala", "pola", "nala"})
        return row, got

    def pyramid(self, family, shape, *options, softmax=False):
        config = pyramid.config_of(family, shape)
        tensors = pyramid.checkpoint(self.rng, config)
        image = self.rng.standard_normal((3,) + shape[-1]).astype(np.float32)
        self.write(config, tensors, image)
        flags = [["v"] * len(f) for f in config["flagss"]] if softmax else config["flagss"]
        pyramid.forward(tensors, image, dict(config, flagss=flags))
        block, grid = 0, [-(-(-(-n // 2)) // 2) for n in shape[-1]]
        for i, depth in enumerate(config["depths"]):
            for j in range(depth):
                heads = config["num_heads"][i]
                matrix = np.mean([NOTED.pop(0) for _ in range(heads)], 0)
                for y, x in {(0, 0), (grid[0] - 1, grid[1] // 2)}:
                    with self.subTest(family=family, stage=i, block=j, at=(x, y)):
                        row, got = self.compare(matrix[y * grid[1] + x], x * 4 << i, y * 4 << i, block, *options)
                        self.assertEqual(got["block"], "stage%d.block%d" % (i + 1, j))
                        self.assertEqual(row["attention"], "softmax" if flags[i][j] == "v" else
                                         "mala" if family == "mavit" else "nala")
                block += 1
            grid = [-(-n // 2) for n in grid]

    def test_mavit(self):
        for shape in pyramid.SHAPES[:2]:
            self.pyramid("mavit", shape)

    def test_nalaformer(self):
        for shape in pyramid.SHAPES[:2]:
            self.pyramid("nalaformer", shape)

    def test_softmax_in_its_place(self):
        self.pyramid("mavit", pyramid.SHAPES[1], "--attention", "softmax", softmax=True)

    def start(self, config, size):
        make = pola.make_pvt if config["model_type"] == "pola_pvt" else pola.make_swin
        tensors = make(self.rng, config)
        image = self.rng.standard_normal((3, *size)).astype(np.float32)
        self.write(config, tensors, image)
        pola.define(config, tensors, image)

    def pvt(self, config, size):
        self.start(config, size)
        block, grid = 0, [n // config["patch_size"] for n in size]
        for i, depth in enumerate(config["depths"]):
            for j in range(depth):
                matrix = NOTED.pop(0).mean(0)
                stride = config["patch_size"] << i
                for y, x in {(0, 0), (grid[0] - 1, grid[1] // 2)}:
                    with self.subTest(stage=i, block=j, at=(x, y)):
                        row, got = self.compare(matrix[y * grid[1] + x], x * stride, y * stride, block)
                        self.assertEqual(got["keys"], matrix.shape[1])
                        self.assertEqual(row["attention"], "pola" if pola.kind(config, i, j) else "softmax")
                block += 1
            grid = [n // 2 for n in grid]

    def test_pvt(self):
        self.pvt(pola.pvt_config(), (75, 106))
        self.pvt(pola.pvt_config(attn_type="SS", depths=[2, 2], sr_ratios=[3, 1], num_heads=[2, 4]), (37, 61))

    def windowed(self, grid, w, shift, x, y):
        """The weights of the query at (x, y) on the grid of whole windows, from the recorded matrices."""
        size = [-(-n // w) * w for n in grid]
        number = np.roll(np.arange(size[0] * size[1]).reshape(size), (-shift, -shift), (0, 1))
        places = pola.windows(number[..., None], size, w)[..., 0]  # of every window's tokens
        matrices = [NOTED.pop(0).mean(0) for _ in places]

        def row(x, y):
            out = np.zeros(size[0] * size[1])
            window, at = np.argwhere(places == y * size[1] + x)[0]
            out[places[window]] = matrices[window][at]
            return out
        return row(*x), row(*y)

    def swin(self, config, size):
        self.start(config, size)
        native = config["img_size"]
        native = [n // config["patch_size"] for n in ([native, native] if isinstance(native, int) else native)]
        block, grid, shifts = 0, [-(-n // config["patch_size"]) for n in size], 0
        grid = [n // config["patch_size"] for n in size]
        for i, depth in enumerate(config["depths"]):
            for j in range(depth):
                is_linear = pola.kind(config, i, j)
                w = pola.swin_window(config, native, is_linear)
                places = [(0, 0), (grid[1] - 1, grid[0] // 2)]
                if is_linear and [w, w] == native:
                    matrix = NOTED.pop(0).mean(0)
                    rows = [matrix[y * grid[1] + x] for x, y in places]
                else:
                    shift = w // 2 if j % 2 and min(grid) > w else 0
                    shifts += shift > 0
                    rows = self.windowed(grid, w, shift, *places)
                for (x, y), want in zip(places, rows):
                    with self.subTest(stage=i, block=j, at=(x, y)):
                        stride = config["patch_size"] << i
                        row, _ = self.compare(want, x * stride, y * stride, block)
                        self.assertEqual(row["attention"], "pola" if is_linear else "softmax")
                block += 1
            grid, native = [-(-n // 2) for n in grid], [n // 2 for n in native]
        return shifts

    def test_swin(self):
        self.swin(pola.swin_config(), (32, 32))
        shifted = self.swin(pola.swin_config(depths=[2, 3], ape=True), (75, 106))
        shifted += self.swin(pola.swin_config(img_size=60, window_size=5, depths=[3], num_heads=[2], attn_type="L",
                                              kernel_size=3), (56, 88))
        self.assertGreater(shifted, 1)


pyramid.softmax, pyramid.mala, pyramid.nala = map(noting, (pyramid.softmax, pyramid.mala, pyramid.nala))
pola.softmax, pola.polar = noting_scores(pola.softmax), noting_polar(pola.polar)

if __name__ == "__main__":
    counted.main()
