#!/usr/bin/env python3
"""test_selected.py: which slow tests a change selects, and that slow_tests.txt names tests and folders that exist.

    test_selected.py path/to/the/build
"""
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import unittest

import counted
import selected

HERE = os.path.dirname(os.path.abspath(__file__))
SLOW = {"check_*": (50, ["platform/cpu"]), "check_most": (100, ["src/ops", "meson.build"])}
NAMES = ["yuv", "check_arm64", "check_most"]
ALL = 1000  # seconds: enough for every test


def chosen(*files, budget=ALL):
    """What these files select, for a commit at which no slow test is next."""
    return selected.select(NAMES, SLOW, files, "1", budget)


class Selection(unittest.TestCase):
    def test_tests_without_a_line_run_always(self):
        self.assertEqual(chosen(), ["yuv"])
        self.assertEqual(chosen(budget=0), ["yuv"])

    def test_a_file_below_a_folder_selects_its_tests(self):
        self.assertEqual(chosen("platform/cpu/cpu.c"), ["yuv", "check_arm64"])

    def test_the_last_pattern_that_matches_counts(self):
        self.assertEqual(chosen("src/ops/op.h"), ["yuv", "check_most"])
        self.assertEqual(chosen("meson.build"), ["yuv", "check_most"])

    def test_a_folder_of_a_longer_name_selects_nothing(self):
        self.assertEqual(chosen("src/ops_of_others/op.h", "platform/cpu.c", "src/meson.build"), ["yuv"])

    def test_a_budget_limits_what_is_selected(self):
        both = ["platform/cpu/cpu.c", "meson.build"]
        self.assertEqual(chosen(*both), NAMES)
        self.assertEqual(len(chosen(*both, budget=50)), 2)
        self.assertEqual(chosen(*both, budget=0), ["yuv"])

    def test_with_a_budget_every_test_is_first_at_some_commit(self):
        files = ["platform/cpu/cpu.c", "meson.build"]
        rounds = [selected.select(NAMES, SLOW, files, "%x" % commit, 1) for commit in range(40)]
        for name in NAMES[1:]:
            self.assertTrue(any(name in names for names in rounds), name)

    def test_every_slow_test_has_its_turn(self):
        rounds = [selected.select(NAMES, SLOW, [], "%x" % turn, ALL) for turn in range(selected.ROUNDS)]
        for name in NAMES[1:]:
            self.assertEqual(sum(name in names for names in rounds), 1, name)

    def test_a_line_without_seconds_or_folder_is_refused(self):
        for line in ("check_most\n", "check_most 7\n", "check_most platform/cpu src/ops\n"):
            with self.assertRaises(SystemExit):
                selected.read_map("# a comment\n" + line)


class Changes(unittest.TestCase):
    def setUp(self):
        self.before = os.getcwd()
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)
        self.git("init", "-q", "-b", "main")
        self.commit("first")

    def tearDown(self):
        os.chdir(self.before)
        self.folder.cleanup()

    def git(self, *args):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *args], check=True)

    def commit(self, name):
        with open(name, "w") as f:
            f.write(name)
        self.git("add", name)
        self.git("commit", "-q", "-m", name)

    def test_without_an_earlier_commit_nothing_is_known(self):
        self.assertIsNone(selected.base_of(None))

    def test_the_last_commit_and_files_that_are_not_committed(self):
        self.commit("second")
        with open("third", "w") as f:
            f.write("3")
        self.assertEqual([f for f in selected.touched_files(selected.base_of(None)) if f], ["second", "third"])

    def test_all_commits_of_a_branch(self):
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.commit("second")
        self.commit("third")
        self.assertEqual([f for f in selected.touched_files(selected.base_of(None)) if f], ["second", "third"])

    def test_all_commits_since_a_given_one(self):
        self.commit("second")
        self.commit("third")
        self.assertEqual([f for f in selected.touched_files(selected.base_of("HEAD~2")) if f],
                         ["second", "third"])
        for wrong in ("HEAD", "no-such-commit"):
            with self.assertRaises(SystemExit):
                selected.base_of(wrong)


class Map(unittest.TestCase):
    def setUp(self):
        self.slow = {}
        for name in ("slow_tests.txt", "slow_sanitized.txt"):
            with open(os.path.join(HERE, name)) as f:
                self.slow[name] = selected.read_map(f.read())

    def test_its_folders_exist(self):
        for lines in self.slow.values():
            for pattern, (_, folders) in lines.items():
                for folder in folders:
                    self.assertTrue(os.path.exists(os.path.join(HERE, "..", folder)), "%s: %s" % (pattern, folder))

    def test_its_tests_exist(self):
        with open(os.path.join(BUILD, "meson-info", "intro-tests.json")) as f:
            names = [test["name"] for test in json.load(f) if not test["suite"][0].endswith(":long")]
        if "cuda_kernels" not in names or "oclgrind" not in names:
            self.skipTest("this build has no OpenCL or no emulated CUDA, skipped")
        for lines in self.slow.values():
            for pattern in lines:
                self.assertTrue(fnmatch.filter(names, pattern), pattern)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    counted.main()
