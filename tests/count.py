#!/usr/bin/env python3
"""count.py: prints the counts that the test programs of a Meson run report, one line each, and their sum.
Skipped tests are followed by the reasons, failed ones by the end of their output.

    count.py build/meson-logs/testlog.json

A program says `N passed, N failed, N skipped` in its last line, or is a cmocka program, or counts
as one test. Exit status 1 when anything failed.
"""
import json
import os
import re
import sys

OURS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
CMOCKA = [re.compile(r"\[  %s\s*\] (\d+) test" % word) for word in ("PASSED", "FAILED", "SKIPPED")]
SHOWN = 15
CMOCKA_SUM = re.compile(r"\d+ (test\(s\)|SKIPPED TEST)")


def counts(test):
    text = test.get("stdout", "") + "\n" + test.get("stderr", "")
    good = test["result"] in ("OK", "EXPECTEDFAIL")
    ours = OURS.findall(text)
    if ours:
        n = [int(x) for x in ours[-1]]
    elif CMOCKA[0].search(text):
        n = [sum(int(x) for x in pattern.findall(text)[:1]) for pattern in CMOCKA]
    elif test["result"] == "SKIP":
        n = [0, 0, 1]
    else:
        n = [int(good), 0, 0]
    if not good and test["result"] != "SKIP" and not n[1]:
        n[1] = 1  # it crashed, or ran out of time, before it could count
    return n


def reasons(test):
    """The lines of the program's output that mention skipped tests, else its last line."""
    lines = [line.strip() for line in (test.get("stdout", "") + "\n" + test.get("stderr", "")).splitlines()]
    lines = [line for line in lines if line and not OURS.fullmatch(line)]
    said = [line for line in lines if "skipped" in line.lower() and not CMOCKA_SUM.search(line)]
    return list(dict.fromkeys(said or lines[-1:]))


def end(test):
    """The last lines of a failed program's output, without its own sum."""
    lines = (test.get("stdout", "") + "\n" + test.get("stderr", "")).splitlines()
    return [line.rstrip() for line in lines if line.strip() and not OURS.fullmatch(line)][-SHOWN:]


def main(path):
    total = [0, 0, 0]
    if not os.path.exists(path):
        print("no %s: the build failed, or no test was found" % path)
        print("0 passed, 1 failed, 0 skipped")
        return 1
    with open(path) as log:
        for line in log:
            test = json.loads(line)
            n = counts(test)
            total = [a + b for a, b in zip(total, n)]
            print("%-40s %6d passed %4d failed %4d skipped  %6.1f s  %s"
                  % (test["name"], *n, test["duration"], test["result"]))
            more = end(test) if n[1] else reasons(test) if n[2] else []
            print("".join("    %s\n" % line for line in more), end="")
    if not sum(total):
        total[1] = 1
    print("%d passed, %d failed, %d skipped" % tuple(total))
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
