#!/usr/bin/env python3
"""test_gst_python.py: reads the metadata that foveafilter attaches in Python, with python3-gi alone.

    test_gst_python.py path/to/libfovea.so path/to/foveafilter's/folder
"""
import contextlib
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests", "data", "golden", "models", "vit-01")
EXAMPLE = os.path.join(ROOT, "examples", "gstreamer_features.py")
np = counted.need("numpy")
gi = counted.need("gi")
if len(sys.argv) < 3:
    raise SystemExit(__doc__)
folder = tempfile.TemporaryDirectory()
os.environ.update(FOVEA_LIBRARY=os.path.abspath(sys.argv[1]), GST_PLUGIN_PATH=sys.argv[2],
                  GST_REGISTRY=os.path.join(folder.name, "registry"), GST_REGISTRY_FORK="no")
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "examples")]
with contextlib.suppress(ValueError):  # there is none, as the import will say
    gi.require_version("Gst", "1.0")
Gst = counted.need("gi.repository.Gst")
import fovea  # noqa: E402
import gstreamer_features  # noqa: E402


def example(*arguments):
    return subprocess.run([sys.executable, EXAMPLE, *arguments], capture_output=True, text=True,
                          timeout=60)


class Metadata(unittest.TestCase):
    def frame(self, output):
        """Runs one frame; returns its (pixels, results), and the library's results for these pixels."""
        Gst.init(None)
        pipeline = Gst.parse_launch(
            "videotestsrc num-buffers=1 pattern=snow ! video/x-raw,format=RGB,width=64,height=64 ! "
            "foveafilter top-k=3 model=\"%s\" output=%s ! appsink name=sink" % (MODEL, output))
        pipeline.set_state(Gst.State.PLAYING)
        buffer = pipeline.get_by_name("sink").emit("pull-sample").get_buffer()
        pipeline.set_state(Gst.State.NULL)
        pixels = np.frombuffer(buffer.extract_dup(0, buffer.get_size()), np.uint8).reshape(64, 64, 3)
        model = fovea.Model(MODEL)
        return (buffer.get_custom_meta("foveafilter").get_structure(), model,
                model.run(pixels, outputs=[output], preprocess=True)[output])

    def test_features(self):
        found, _, want = self.frame("last_hidden_state")
        output = found.get_value("last_hidden_state")
        self.assertEqual(output.get_value("name"), "last_hidden_state")
        got = gstreamer_features.features(output)
        np.testing.assert_array_equal(got.reshape(-1, want.shape[1]), want[output.get_value("prefix"):])

    def test_labels(self):
        found, model, want = self.frame("logits")
        labels = [found.get_value("label-%d" % i) for i in range(3)]
        classes = [label.get_value("class") for label in labels]
        self.assertEqual(classes, list(np.argsort(-want[0])[:3]))
        self.assertEqual([label.get_value("label") for label in labels], [model.label(c) for c in classes])
        self.assertIsNone(found.get_value("label-3"))
        values = found.get_value("logits").get_value("values")
        self.assertEqual(values.extract_dup(0, values.get_size()), want.tobytes())


    def test_two_elements(self):
        Gst.init(None)
        pipeline = Gst.parse_launch(
            "videotestsrc num-buffers=1 ! video/x-raw,format=I420,width=64,height=64 ! "
            "foveafilter name=a output=logits model=\"%s\" ! "
            "foveafilter name=b output=last_hidden_state model=\"%s\" ! "
            "appsink name=sink" % (MODEL, MODEL))
        pipeline.set_state(Gst.State.PLAYING)
        buffer = pipeline.get_by_name("sink").emit("pull-sample").get_buffer()
        pipeline.set_state(Gst.State.NULL)
        found = buffer.get_custom_meta("foveafilter").get_structure()
        both = found.get_value("elements")
        self.assertEqual(both.get_value("a").get_value("logits").get_value("columns"), 10)
        self.assertEqual(both.get_value("b").get_value("last_hidden_state").get_value("rows"), 17)
        self.assertIsNone(both.get_value("b").get_value("logits"))
        self.assertEqual(found.get_value("last_hidden_state").get_value("rows"), 17)
        self.assertEqual(found.get_value("logits").get_value("columns"), 10)


class Example(unittest.TestCase):
    def test_frames(self):
        done = example(MODEL)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 30)
        for line in lines:
            self.assertRegex(line, r"^\d\.\d{3} s: \d+ x \d+ patches of \d+ channels in [\d.]+ ms; ")

    def test_words(self):
        done = example("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("gstreamer_features.py [MODEL [SOURCE]]", done.stdout)
        for arguments, words in [(("/nowhere/at/all",), "/nowhere/at/all"),
                                 ((MODEL, "no-such-source"), "no-such-source")]:
            done = example(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    counted.main()
