#!/usr/bin/env python3
"""selected.py: which tests of a list a run of CI takes. It takes every test that slow_tests.txt does not name. Of
the named tests it takes those that the change touches, and one in six of the others, until their times add up to a
budget. Which tests come first differs from commit to commit, so that each of them runs every few commits.

    meson test -C build --list | sed -n 's|.* / ||p' | python3 tests/selected.py [--budget SECONDS] [--slow FILE] [COMMIT]

The change is what differs from COMMIT. Without COMMIT it is what differs from the commit where this branch left
origin/main. On origin/main itself, or without it, the change is the last commit. Files that are not committed belong
to the change. The names are printed to stdout, and those that are left out, with the reason, to stderr.
"""
import argparse
import fnmatch
import hashlib
import os
import subprocess
import sys

ROUNDS = 6  # a slow test that no change touches is in one of this many runs


def git(*args):
    """What git prints, or None where it fails."""
    p = subprocess.run(["git", *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return p.stdout if p.returncode == 0 else None


def read_map(text):
    """Returns {pattern: (seconds, folders)}, in the order of the lines."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    for line in lines:
        if len(line) < 3 or not line[1].isdigit():
            raise SystemExit("%s: a line has a pattern, seconds and folders; add what is missing" % line[0])
    return {line[0]: (int(line[1]), line[2:]) for line in lines}


def base_of(given):
    """The commit that the change starts from, or None."""
    head = git("rev-parse", "HEAD")
    common = git("merge-base", "HEAD", given or "origin/main")
    if common and common != head:
        return common.strip()
    if given:
        raise SystemExit("%s is not a commit before this one; name one that is" % given)
    return "HEAD^" if git("rev-parse", "-q", "--verify", "HEAD^") else None


def touched_files(base):
    changed = git("diff", "--name-only", base) if base else ""
    return (changed or "").split("\n") + (git("ls-files", "--others", "--exclude-standard") or "").split("\n")


def line_of(name, slow):
    """Returns the seconds and folders of a test, or None. If several patterns match, the last one counts."""
    found = [slow[pattern] for pattern in slow if fnmatch.fnmatchcase(name, pattern)]
    return found[-1] if found else None


def select(names, slow, files, commit, budget):
    """Returns the names to run, in the order of `names`."""
    touched, others = [], []
    for name in names:
        line = line_of(name, slow)
        if line:
            hit = any(file == folder or file.startswith(folder + "/") for file in files for folder in line[1])
            (touched if hit else others).append(name)
    turn = int(commit[:8], 16)
    others = [name for place, name in enumerate(others) if (turn + place) % ROUNDS == 0]
    # A digest of commit and name: an order without a pattern that every machine repeats.
    touched.sort(key=lambda name: hashlib.sha256((commit + name).encode()).digest())
    chosen = set()
    for name in touched + others:
        if budget > 0:  # the last one may exceed what is left, or else the longest would never run
            budget -= line_of(name, slow)[0]
            chosen.add(name)
    return [name for name in names if name in chosen or not line_of(name, slow)]


def main(argv):
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", type=int, default=sys.maxsize, metavar="SECONDS")
    parser.add_argument("--slow", default=os.path.join(here, "slow_tests.txt"), metavar="FILE")
    parser.add_argument("commit", nargs="?")
    args = parser.parse_args(argv)
    with open(args.slow) as f:
        slow = read_map(f.read())
    os.chdir(os.path.dirname(here))
    names = sys.stdin.read().split()
    base = base_of(args.commit)
    chosen = select(names, slow, touched_files(base), (git("rev-parse", "HEAD") or "0").strip(), args.budget)
    print("\n".join(chosen))
    left_out = [name for name in names if name not in chosen]
    print("%d of %d tests; changes since %s select the slow ones. Left out: %s"
          % (len(chosen), len(names), base or "none that is known", " ".join(left_out) or "none"), file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
