#!/usr/bin/env python3
"""test_drivers.py: what drivers.py makes of programs that end, hang or report a failure, with shell commands in
place of drivers; and its table."""
import os
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted
import drivers


def shell(text):
    """A launcher of a shell command, whatever program it is asked to run."""
    return drivers.Launcher(lambda arguments: ["sh", "-c", text], limit=1, wait=1)


class Launching(unittest.TestCase):
    def test_success_has_the_output(self):
        launch = shell("echo result; echo log >&2")
        self.assertEqual(launch(["fovea"]), (0, "log"))
        self.assertEqual((launch.output, launch.ended, launch.hung), ("result\n", 0, 0))

    def test_a_failure_that_fovea_reports_is_not_the_driver_s_end(self):
        launch = shell("echo 'fovea: no kernel' >&2; exit 3")
        self.assertEqual(launch(["fovea"]), (3, "fovea: no kernel"))
        self.assertEqual((launch.ended, launch.hung), (0, 0))

    def test_a_message_is_one_line(self):
        self.assertEqual(shell("printf 'a warning\\nfovea: no kernel\\n' >&2; exit 3")(["fovea"]),
                         (3, "a warning fovea: no kernel"))

    def test_a_process_that_a_signal_or_the_driver_ends_is_counted(self):
        for text in ("kill -ABRT $$", "echo 'LLVM ERROR' >&2; exit 1"):
            launch = shell(text)
            code, message = launch(["fovea"])
            self.assertNotIn(code, (0,) + drivers.test_golden.REFUSALS)
            self.assertIn("the process ended", message)
            self.assertEqual((launch.ended, launch.hung), (1, 0))

    def test_a_process_over_the_limit_is_counted_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            late = os.path.join(folder, "late")
            launch = shell("(sleep 2; touch %s) & sleep 60" % late)
            for tries in range(drivers.MAX_HUNG):
                self.assertFalse(launch.gave_up())
                self.assertIn("no result after", launch(["fovea"])[1])
            self.assertEqual((launch.ended, launch.hung), (0, drivers.MAX_HUNG))
            self.assertTrue(launch.gave_up())
            self.assertFalse(os.path.exists(late))


    def test_a_process_that_computes_for_too_long_is_counted_however_long_it_waits(self):
        launch = drivers.Launcher(lambda arguments: ["sh", "-c", "while :; do :; done"], limit=1, wait=60)
        self.assertIn("no result after 1 s of processor time", launch(["fovea"])[1])
        self.assertEqual((launch.ended, launch.hung), (0, 1))


class Table(unittest.TestCase):
    def test_a_driver_that_hangs_has_a_row_and_the_rest_is_not_run(self):
        cases = [("models", drivers.test_golden.Case("models/vit-01", ["none", "run", "vit-01"], os.path.join(
            drivers.test_golden.OWN, "models", "vit-01", "io.safetensors"), 2e-5, True))] * 2
        row, launch = drivers.Row("slow"), shell("sleep 60")
        with tempfile.TemporaryDirectory() as folder:
            drivers.run_driver(row, launch, "none", cases, folder)
        self.assertEqual(row.left_out, len(cases) + len(drivers.TYPES))
        self.assertEqual(row.cells()[1:], ["0/0", "0/0", "0/0", "-, -", "-, -", "0", "3", "6"])

    def test_cells_count_what_was_right(self):
        row = drivers.Row("some")
        row.version, row.times = "1.2", {"first": 20.04, "second": 0.5, "f32": 99.6}
        row.add("operators", "a", None)
        row.add("operators", "b", "out: error 1")
        row.add("types", "verify f16", None)
        self.assertEqual(row.cells(), ["some: 1.2", "1/2", "0/0", "1/1", "20.0, 0.5", "100, -", "0", "0", "0"])
        self.assertEqual(row.failures, ["some, b: out: error 1"])
        self.assertEqual([line.count("|") for line in drivers.table([row]).splitlines()], [10] * 3)

    def test_a_driver_that_the_machine_lacks_is_named(self):
        with self.assertRaisesRegex(drivers.Missing, "no /etc/OpenCL/vendors/none.icd"):
            drivers.Machine().library("none")

    def test_a_failed_command_is_named_with_its_last_line(self):
        with self.assertRaisesRegex(drivers.Missing, "sh failed: no network"):
            drivers.need(["sh", "-c", "echo first; echo no network >&2; exit 1"])


if __name__ == "__main__":
    counted.main()
