#!/usr/bin/env python3
"""test_language.py: compares language models with flash-linear-attention's classes (tests/data/make_language.py).

    test_language.py path/to/fovea [--device ID] [--some]

Logits of every kind of model over 300 tokens: with the prompt at once, in pieces and token by token, in every form of
scan; generated text; types of weights; names in messages of refused models. --some: only the logits of a few kinds,
for slow devices.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

np = counted.need("numpy")
import language_cases as cases
import language_reference

DEVICE = ["--device", sys.argv.pop(sys.argv.index("--device") + 1)] if "--device" in sys.argv else []
if DEVICE:
    sys.argv.remove("--device")
SOME = "--some" in sys.argv
if SOME:
    sys.argv.remove("--some")
FOVEA = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "fovea"
KINDS = ["gla_conv", "gated_delta_shared", "transformer_shared"] if SOME else list(cases.CASES)
ALLOWED = 2e-5
whole = unittest.skipIf(SOME, "--some")


def run(*arguments, **options):
    return subprocess.run([FOVEA, *arguments], capture_output=True, text=True, timeout=240, **options)


class Language(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.listed = cases.listed()
        for case in cases.CASES:
            cases.write_checkpoint(cls.path(case), cases.config_of(case), cls.tensors(case))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def tensors(cls, case):
        return cases.tensors_of(case, cls.listed[case]["shapes"])

    def written(self, name, config, tensors):
        cases.write_checkpoint(self.path(name), config, tensors)
        return self.path(name)

    def lm(self, model, ids, *options):
        """Runs `fovea lm --json`; returns its object."""
        done = run("lm", model, "--ids", ",".join(map(str, ids)), "--json", *DEVICE, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def logits(self, model, ids, *options):
        out = os.path.join(self.folder, "logits.npy")
        self.lm(model, ids, "-o", out, *options)
        return np.load(out)

    def check(self, case, *options):
        got = self.logits(self.path(case), cases.ids_of(case), *options)
        want = np.array(self.listed[case]["logits"])
        self.assertEqual(got.shape, (cases.TOKENS, cases.COMMON["vocab_size"]))
        worst = np.abs(got[cases.POSITIONS] - want).max()
        self.assertLess(worst, ALLOWED, f"{case} {options}: {worst}")

    def test_prompt(self):
        for case in KINDS:
            with self.subTest(case):
                self.check(case)

    def test_steps(self):
        for case in KINDS:
            with self.subTest(case):
                self.check(case, "--rows", "1")

    @whole
    def test_pieces(self):
        for case in KINDS:
            for rows in ["7", "64"]:
                with self.subTest(case, rows=rows):
                    self.check(case, "--rows", rows)

    @whole
    def test_forms(self):
        for case in KINDS:
            if not case.startswith("transformer"):
                for form in ["recurrent", "chunk"]:
                    with self.subTest(case, form=form):
                        self.check(case, "--form", form)

    @unittest.skipIf(DEVICE, "levels are the processor's")
    def test_levels(self):
        for isa in ["scalar", "avx2", "avx512", "neon"]:
            if run("info", "--isa", isa).returncode:
                continue
            for case in KINDS:
                with self.subTest(case, isa=isa):
                    self.check(case, "--isa", isa)
                    self.check(case, "--isa", isa, "--rows", "1")

    def test_generate(self):
        """Every generated token has the largest logit after all tokens before it."""
        for case in KINDS:
            with self.subTest(case):
                prompt = cases.ids_of(case, 9)
                whole = prompt + self.lm(self.path(case), prompt, "--generate", "12")["generated"]
                logits = self.logits(self.path(case), whole)
                for at in range(len(prompt), len(whole)):
                    self.assertGreater(logits[at - 1][whole[at]], logits[at - 1].max() - 1e-4)

    def gated(self, case, fields):
        """The case's tensors, with gates of the shapes that `fields` require."""
        config, tensors = cases.config_of(case), dict(self.tensors(case))
        heads = max(config["num_heads"], config.get("num_v_heads", 0))
        mixer = "model.layers.0.attn."
        shared = heads // config["num_heads"]  # heads with shared queries get copies
        wide = tensors[mixer + "q_proj.weight"].shape[0] * shared
        rows = {"q_dense": wide, "x_dense": config["hidden_size"]}.get(fields.get("sla_gates"), wide // heads)
        draw = np.random.RandomState(5)
        for i in range(config["num_hidden_layers"]):
            for name in "qk":
                tensors[f"model.layers.{i}.attn.sla_{name}.weight"] = (
                    draw.uniform(-1, 1, (rows, heads)).astype(np.float32))
        return tensors

    def check_fields(self, case, fields, tensors, *options):
        """Compares with the equations in double precision, and checks that `fields` change their results."""
        config, ids = cases.config_of(case), cases.ids_of(case)
        model = self.written("fields", {**config, "fovea": fields}, tensors)
        want = language_reference.logits(config, tensors, ids, fields)
        worst = np.abs(self.logits(model, ids, *options) - want).max()
        self.assertLess(worst, ALLOWED * max(1, np.abs(want).max()), f"{case} {fields} {options}")
        self.assertGreater(np.abs(want[cases.POSITIONS] - self.listed[case]["logits"]).max(), 2e-3)

    def test_reference(self):
        """The equations are those of flash-linear-attention's classes."""
        for case in cases.CASES:
            config = cases.config_of(case)
            if config["model_type"] != "transformer" and "attn" not in config:
                got = language_reference.logits(config, self.tensors(case), cases.ids_of(case))
                worst = np.abs(got[cases.POSITIONS] - self.listed[case]["logits"]).max()
                self.assertLess(worst, ALLOWED, case)

    @whole
    def test_sla(self):
        """SLA's gates with every mixer; zero gates whose sum is the number of heads change nothing."""
        for case in ["retnet", "retnet_shared", "gla", "gla_conv", "delta", "delta_gate", "gated_delta",
                     "gated_delta_shared"]:
            for fields in [{}, {"sla_gates": "q_dense"}, {"sla_gates": "x_dense"}, {"read_gate": "post_norm"},
                           {"sla_gates_sum": "heads"}]:
                with self.subTest(case, fields=fields):
                    tensors = self.gated(case, fields)
                    self.check_fields(case, fields, tensors)
                    if fields.get("read_gate"):
                        self.check_fields(case, fields, tensors, "--rows", "1")
            with self.subTest(case, gates="zeros"):
                tensors = {k: 0 * t if ".sla_" in k else t for k, t in self.gated(case, {}).items()}
                model = self.written("sla", {**cases.config_of(case), "fovea": {"sla_gates_sum": "heads"}}, tensors)
                ids = cases.ids_of(case)
                worst = np.abs(self.logits(model, ids) - self.logits(self.path(case), ids)).max()
                self.assertLess(worst, 2e-6)

    @whole
    def test_nala(self):
        """NaLa's maps instead of the delta rules' own maps of queries and keys."""
        for case in ["delta", "delta_gate", "delta_plain", "gated_delta", "gated_delta_shared", "gated_delta_plain"]:
            rule = "gated-delta-rule" if case.startswith("gated") else "delta-rule"
            for name in [f"{rule}:nala", f"{rule}:nala-paper", f"sla-{rule}:nala"]:
                with self.subTest(case, attention=name):
                    fields = {"attention": name}
                    tensors = self.gated(case, {}) if name.startswith("sla") else self.tensors(case)
                    self.check_fields(case, fields, tensors)
                    self.check_fields(case, fields, tensors, "--rows", "1")

    @whole
    def test_plan(self):
        """Plans of a prompt and of a step have the states that `lm` reports; only those of softmax grow with the
        number of tokens."""
        for case in KINDS:
            with self.subTest(case):
                small, large = (json.loads(run("plan", self.path(case), "--json", "--rows", "64", "--context", str(n),
                                               *DEVICE).stdout) for n in (512, 4096))
                softmax = case in ("transformer", "transformer_shared", "hybrid")
                self.assertEqual(small["bytes"]["states"] == large["bytes"]["states"], not softmax)
                ran = self.lm(self.path(case), cases.ids_of(case, 3), "--rows", "64", "--context", "512")
                self.assertEqual((small["bytes"]["states"], small["bytes"]["weights"]),
                                 (ran["states"], ran["weights"]))
                self.assertEqual((small["prefill"]["tokens"], small["step"]["tokens"]), (64, 1))
                self.assertGreater(small["prefill"]["flops"], 20 * small["step"]["flops"])
                self.assertGreater(small["step"]["seconds"], 0)
                shown = run("plan", self.path(case), *DEVICE).stdout
                for text in ["prefill  256 tokens", "step     1 token", "states", "logits"]:
                    self.assertIn(text, shown)

    @whole
    def test_sampling(self):
        model, ids = self.path(KINDS[0]), cases.ids_of(KINDS[0], 5)
        at_random = ["--generate", "40", "--temperature", "1.5"]
        first = self.lm(model, ids, *at_random, "--seed", "7")["generated"]
        self.assertEqual(first, self.lm(model, ids, *at_random, "--seed", "7")["generated"])
        self.assertNotEqual(first, self.lm(model, ids, *at_random, "--seed", "8")["generated"])
        self.assertEqual(self.lm(model, ids, *at_random, "--top-k", "1")["generated"],
                         self.lm(model, ids, "--generate", "40")["generated"])
        stop = str(first[3])
        self.assertEqual(self.lm(model, ids, *at_random, "--seed", "7", "--stop", stop)["generated"],
                         first[:first.index(first[3]) + 1])

    @whole
    def test_standard_input(self):
        case = KINDS[0]
        ids = cases.ids_of(case, 30)
        done = run("lm", self.path(case), "--ids", "-", "--generate", "4", *DEVICE,
                   input="\n".join(map(str, ids)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([int(i) for i in done.stdout.split()],
                         self.lm(self.path(case), ids, "--generate", "4")["generated"])

    @whole
    def test_types(self):
        for case in KINDS:
            exact = np.array(self.listed[case]["logits"])
            for options, allowed in [(["--dtype", "bf16"], 0.08), (["--dtype", "f16"], 0.01),
                                     (["--compute", "bf16"], 0.08)]:
                with self.subTest(case, options=options):
                    got = self.logits(self.path(case), cases.ids_of(case), *options)[cases.POSITIONS]
                    worst = np.abs(got - exact).max() / np.abs(exact).max()
                    self.assertLess(worst, allowed)
                    self.assertGreater(worst, 1e-5)

    @whole
    def test_refused(self):
        case = "gated_delta"
        config, tensors = cases.config_of(case), self.tensors(case)
        mixer = "model.layers.1.attn."
        without = {k: v for k, v in tensors.items() if k != mixer + "b_proj.weight"}
        wrong = [
            ("heads", {**config, "num_heads": 5}, tensors, 7, "heads do not divide"),
            ("beta", config, without, 7, mixer + "b_proj.weight"),
            ("shape", config, {**tensors, mixer + "A_log": np.zeros(3, np.float32)}, 7, mixer + "A_log"),
            ("vocabulary", {**config, "vocab_size": 62}, tensors, 7, "vocab_size"),
            ("act", {**config, "hidden_act": "gelu"}, tensors, 7, "hidden_act"),
            ("field", {**config, "new_gate": True}, tensors, 7, "new_gate"),
            ("a text for a number", {**config, "attn": [{"layers": [0]}, {"layers": [1, "2"]}]}, tensors, 7,
             '"attn[1].layers[1]" must be'),
            ("left over", config, {**tensors, mixer + "D": np.zeros(2, np.float32)}, 7, mixer + "D"),
            ("bias", config, {**tensors, "lm_head.bias": np.zeros(61, np.float32)}, 7, "lm_head.bias"),
            ("unused gate", {**config, "use_gate": False}, tensors, 7, "attn.g_proj.weight"),
            ("old names", config, {k.replace("attn_norm", "attn.norm"): v for k, v in tensors.items()}, 7,
             "model.layers.0.attn_norm.weight"),
        ]
        for name, config_, tensors_, code, text in wrong:
            with self.subTest(name):
                done = run("lm", self.written("wrong", config_, tensors_), "--ids", "1")
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(text, done.stderr)
        poisoned = {k: v.copy() for k, v in tensors.items()}
        poisoned["model.embeddings.weight"][6, 0] = np.nan
        model = self.written("poisoned", config, poisoned)
        for options in ([], ["--temperature", "0.7"], ["-o", os.path.join(self.folder, "l.npy")]):
            with self.subTest("a weight that is no number", options=options):
                done = run("lm", model, "--ids", "5,6,7", "--generate", "2", *options)
                self.assertEqual((done.returncode, done.stdout), (7, ""), done.stderr)
                self.assertIn("token %d are NaN" % (1 if "-o" in options else 2), done.stderr)
        model = self.path(case)
        for arguments, code, text in [
            (["lm", model, "--ids", "61"], 1, "0 to 60"), (["lm", model, "--ids", "1,x"], 1, "not a token id"),
            (["lm", model, "--ids", ""], 1, "--ids is empty"), (["lm", model], 1, "--ids"),
            (["lm", self.path("transformer"), "--ids", "1,2,3", "--context", "2"], 7, "larger context"),
            (["lm", "synthetic:dinov2-s", "--ids", "1"], 2, "pictures"),
            (["run", model, cases.LISTED.replace("language.json", "picture_tiny.ppm")], 7, "sequences"),
        ]:
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(text, done.stderr)


if __name__ == "__main__":
    counted.main()
