#!/usr/bin/env python3
"""gstreamer_features.py: reads the features that foveafilter computes, as NumPy arrays.

    gstreamer_features.py [MODEL [SOURCE]]

SOURCE is the part of the pipeline before the element, in the syntax of gst-launch-1.0, such as
"v4l2src ! videoconvert". Without SOURCE, 30 test pictures are drawn. Without MODEL, the weights are
random. The program prints one line per frame: the grid of features, and their cosine with the
features of the previous frame.

The program needs numpy, python3-gi, gir1.2-gstreamer-1.0, the GStreamer plugins "base", and
foveafilter in a folder of GST_PLUGIN_PATH.
"""
import sys

import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

DRAWN = "videotestsrc pattern=ball num-buffers=30 ! video/x-raw,width=320,height=240"


def features(output):
    """Returns an output of the element as an array (h, w, C). The array is a copy."""
    values = output.get_value("values")
    rows = np.frombuffer(values.extract_dup(0, values.get_size()), np.float32)
    height, width = output.get_value("grid-height"), output.get_value("grid-width")
    rows = rows.reshape(output.get_value("rows"), output.get_value("columns"))
    return rows[output.get_value("prefix"):].reshape(height, width, -1)


def cosine(a, b):
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum() + 1e-30))


def main(model="synthetic:vit-ti16", source=DRAWN):
    Gst.init(None)
    pipeline = Gst.parse_launch(source + " ! foveafilter name=fovea output=last_hidden_state "
                                "post-messages=false ! appsink name=sink sync=false")
    pipeline.get_by_name("fovea").set_property("model", model)
    sink, before = pipeline.get_by_name("sink"), None
    started = pipeline.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE
    while started and (sample := sink.emit("pull-sample")):
        found = sample.get_buffer().get_custom_meta("foveafilter").get_structure()
        now = features(found.get_value("last_hidden_state"))
        print("%.3f s: %d x %d patches of %d channels in %.1f ms; %.4f like the frame before"
              % (found.get_value("timestamp") / Gst.SECOND, now.shape[1], now.shape[0], now.shape[2],
                 1e3 * found.get_value("seconds"), cosine(now, now if before is None else before)))
        before = now
    error = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    if error:
        raise SystemExit(error.parse_error()[0].message)


if __name__ == "__main__":
    if len(sys.argv) > 3 or "-h" in sys.argv or "--help" in sys.argv:
        print(__doc__)
        sys.exit(len(sys.argv) > 3)
    try:
        main(*sys.argv[1:])
    except GLib.Error as e:  # the element does not exist
        raise SystemExit(e.message) from None
