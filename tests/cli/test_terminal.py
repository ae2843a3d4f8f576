#!/usr/bin/env python3
"""test_terminal.py: shell completion, manual pages, examples, progress, and the files that remain after Ctrl-C.

    test_terminal.py path/to/fovea COMMAND...

The COMMANDs are those with a manual page. Tests that need zsh, fish, groff or mandoc are skipped if these
are not installed.
"""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

from terminals import terminal

MODEL = "synthetic:vit-ti16"
PICTURE = b"P6 224 224 255\n" + bytes(range(256)) * 588


def fovea(*args):
    p = subprocess.run([EXE, *args], capture_output=True, text=True)
    assert p.returncode == 0 and not p.stderr, (args, p.returncode, p.stderr)
    return p.stdout


def options(command):
    """The options of --help: letters and names, each with True if a value follows."""
    out = {"-h": False, "--help": False}
    text = fovea(command, "--help")
    for letter, name, value in re.findall(r"^  (-\w,|   )\s+(--[\w-]+)( \S)?", text, re.M):
        out[name] = bool(value)
        if letter.strip():
            out[letter[:2]] = bool(value)
    return out


class Bash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.script = os.path.join(cls.folder.name, "fovea.bash")
        with open(cls.script, "w") as f:
            f.write(fovea("completion", "bash"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def complete(self, line):
        p = subprocess.run(
            ["bash", "--norc", "-c", 'source "$1"; COMP_LINE=$2 COMP_POINT=${#2}; '
             "COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'; _fovea fovea; printf '%s\\n' \"${COMPREPLY[@]}\"",
             "test", self.script, line], capture_output=True, text=True)
        self.assertEqual((p.returncode, p.stderr), (0, ""), line)
        return p.stdout.split()

    def test_syntax(self):
        subprocess.run(["bash", "-n", self.script], check=True)

    def test_words(self):
        for line, wanted in [
                ("fovea ru", ["run"]), ("fovea run --feat", ["--features"]),
                ("fovea run m p --dtype b", ["bf16"]), ("fovea run m --dtype=b", ["bf16"]),
                ("fovea op c --form re", ["recurrent"]), ("fovea help pl", ["plan"]),
                ("fovea cache ex", ["export"]), ("fovea cache export ", []),
                ("fovea bench at", ["attention"]), ("fovea bench gemm -o js", ["json", "jsonl"]),
                ("fovea bench model --attention softmax,po", ["softmax,pola"]),
                ("fovea run synthetic:vit-ti", ["vit-ti16"]), ("fovea run m -o ", []),
                ("fovea run m --features ", []), ("fovea plan m --threads ", []),
                ("fovea plan m --device cl:", ["0"]), ("fovea completion z", ["zsh"])]:
            self.assertEqual(self.complete(line), wanted, line)

    def test_all(self):
        """Every option of every command, and no other."""
        self.assertEqual(sorted(self.complete("fovea ")), sorted(NAMES + ["help", "version"]))
        for name in NAMES:
            wanted = sorted(o for o in options(name) if o.startswith("--"))
            self.assertEqual(sorted(self.complete("fovea %s --" % name)), wanted, name)


class OtherShells(unittest.TestCase):
    def script(self, shell):
        if not shutil.which(shell):
            self.skipTest("no " + shell)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "script")
        with open(path, "w") as f:
            f.write(fovea("completion", shell))
        subprocess.run([shell, "-n", path], check=True)
        return path

    def test_zsh(self):
        self.script("zsh")

    def test_fish(self):
        path = self.script("fish")
        for line, wanted in [("fovea ru", ["run"]), ("fovea run m --feat", ["--features"]),
                             ("fovea run m --dtype b", ["bf16"]), ("fovea bench at", ["attention"]),
                             ("fovea run synthetic:vit-ti", ["synthetic:vit-ti16"])]:
            p = subprocess.run(["fish", "--no-config", "-c", 'source $argv[1]; complete -C $argv[2]', path, line],
                               capture_output=True, text=True)
            found = [one.split("\t")[0] for one in p.stdout.splitlines()]
            self.assertEqual((found, p.stderr), (wanted, ""), line)


class Manual(unittest.TestCase):
    def test_pages(self):
        self.assertEqual(sorted(PAGES), sorted(NAMES))
        lints = [one for one in (["mandoc", "-Tlint", "-Wwarning"],
                                 ["groff", "-man", "-Tutf8", "-ww"]) if shutil.which(one[0])]
        for name in [None] + NAMES:
            page = fovea("manual", *([name] if name else []))
            for part in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT",
                         "EXAMPLES", "SEE ALSO"):
                self.assertIn("\n.SH %s\n" % part, page, name)
            for option in options(name) if name else []:
                self.assertIn(option.replace("-", "\\-") + "\\fR", page, name)
            for lint in lints:
                p = subprocess.run(lint, input=page, capture_output=True, text=True)
                said = p.stderr + (p.stdout if lint[0] == "mandoc" else "")
                self.assertEqual((said, p.returncode), ("", 0), (name, lint[0]))
        if not lints:
            self.skipTest("neither mandoc nor groff: pages were not checked by them")


class Examples(unittest.TestCase):
    def test_options(self):
        for name in NAMES:
            said = fovea(name, "--help").split("\nexamples:\n")[1].splitlines()
            self.assertIn(len(said), (2, 3, 4), name)
            known = options(name)
            for line in said:
                self.assertLessEqual(len(line), 100, line)
                words = re.sub(r"^source <\((.*)\)$", r"\1", line.strip()).split(" > ")[0].split()
                self.assertEqual(words[:2], ["fovea", name], line)
                for at, word in enumerate(words):
                    if re.match(r"--?[a-zA-Z]", word):
                        self.assertIn(word, known, line)
                        if known[word]:
                            self.assertLess(at + 1, len(words), line)


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(self.path("photos"))
        for i in range(4):
            with open(self.path("photos/%d.ppm" % i), "wb") as f:
                f.write(PICTURE)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def interrupt(self, *args, sign):
        """Sends Ctrl-C on a terminal once `sign` is shown there; returns all of the terminal's text."""
        own, child = terminal(self)
        p = subprocess.Popen([EXE, *args], cwd=self.folder, stderr=child, stdout=subprocess.DEVNULL)
        os.close(child)
        said, sent = b"", False
        try:
            while True:
                said += os.read(own, 4096)
                if not sent and re.search(sign, said):
                    sent = True
                    p.send_signal(signal.SIGINT)
        except OSError:  # it has ended
            os.close(own)
        self.assertTrue(sent, said)
        self.assertNotEqual(p.wait(), 0, said)
        return said

    def files(self):
        return sorted(os.path.relpath(os.path.join(at, one), self.folder)
                      for at, _, names in os.walk(self.folder) for one in names
                      if not at.endswith("photos"))

    def whole(self):
        """No file is incomplete, and no temporary file remains."""
        for name in self.files():
            self.assertFalse(name.endswith(".tmp"), name)
            data = self.read(name)
            if name.endswith(".safetensors"):
                size = struct.unpack("<Q", data[:8])[0]
                head = json.loads(data[8:8 + size])
                ends = [t["data_offsets"][1] for k, t in head.items() if k != "__metadata__"]
                self.assertEqual(len(data), 8 + size + max(ends), name)
            elif name.endswith(".json"):
                json.loads(data)
            elif name.endswith(".jsonl"):
                [json.loads(line) for line in data.splitlines()]

    def test_run(self):
        many = ["photos/0.ppm"] * 5000
        with open(self.path("kept.safetensors"), "wb") as f:
            f.write(b"as it was")
        said = self.interrupt("run", MODEL, *many, "-o", "kept.safetensors",
                              sign=rb"run \[#* *\] +\d+ %  [\d.]+ pictures/s  [\d.]+ \w+ left")
        self.assertNotIn(b"cannot", said)
        self.assertRegex(said, rb"interrupted after \d+ pictures?; the files hold their results")
        self.assertEqual(self.files(), ["kept.safetensors"])
        self.whole()
        data = self.read("kept.safetensors")
        head = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        done = int(re.search(rb"interrupted after (\d+)", said)[1])
        self.assertGreater(done, 0)
        for name, tensor in head.items():
            if name != "__metadata__":
                self.assertEqual(tensor["shape"][0], done, name)

    def test_pipe(self):
        """There is no progress if stderr is not a terminal."""
        p = subprocess.Popen([EXE, "run", MODEL, *[self.path("photos/0.ppm")] * 5000],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(2.5)
        self.assertIsNone(p.poll(), "too fast to tell")
        p.send_signal(signal.SIGINT)
        said = p.communicate()[1]  # a line per picture, with its time
        self.assertNotRegex(said, rb"[\r\033]| left|run \[")

    def test_tune(self):
        self.interrupt("tune", MODEL, "--size", "224,448", "--rigor", "exhaustive", "-o", "wisdom",
                       sign=rb"\[#* *\] +\d+ %|, \d+ s")
        self.whole()
        if "wisdom" in self.files():
            fovea("cache", "verify", "--wisdom", self.path("wisdom"))

    def test_adapt(self):
        if "adapt" not in NAMES:
            self.skipTest("no training in this build")
        sign = rb"step \d+.*\] +\d+ %"
        how = ["adapt", MODEL, "--stage", "1", "--data", "photos", "--attention", "linear:elu1",
               "--steps", "100000", "--batch", "2", "--size", "64", "-o", "out"]
        self.interrupt(*how, sign=sign)
        self.whole()
        self.assertIn("out/checkpoint", self.files())
        self.interrupt(*how, "--resume", sign=sign)  # which reads all of the checkpoint


if __name__ == "__main__":
    EXE, PAGES = os.path.abspath(sys.argv[1]), sys.argv[2:]
    NAMES = re.findall(r"^  ([a-z]+) ", fovea("help").split("\nMODEL")[0], re.M)
    counted.main()
