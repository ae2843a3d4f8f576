#!/usr/bin/env python3
"""selected.py: which tests of a list a run of CI takes: all but the slow ones of slow_tests.txt that the change
does not touch.

    meson test -C build --list | sed -n 's|.* / ||p' | python3 tests/selected.py [COMMIT]

The change is what differs from COMMIT. Without COMMIT it is what differs from the point where this branch left
origin/main, and on origin/main itself, or without it, the last commit. Files that are not committed count, too.
The names come out on the standard output; how many are left out, and why, on the other one.
"""
import fnmatch
import os
import subprocess
import sys

ROUNDS = 6  # a slow test that no change touches is in one of this many runs


def git(*args):
    """What git prints, or None where it fails."""
    p = subprocess.run(["git", *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return p.stdout if p.returncode == 0 else None


def read_map(text):
    """Patterns of names, each with its folders, in the order of the file."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    for line in lines:
        if len(line) < 2:
            raise SystemExit("slow_tests.txt: %s has no folder; name those that select it" % line[0])
    return {line[0]: line[1:] for line in lines}


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


def select(names, slow, files, turn):
    """The names to run. Of names that match several patterns the last one counts."""
    chosen = []
    place = 0
    for name in names:
        folders = None
        for pattern, of_pattern in slow.items():
            if fnmatch.fnmatchcase(name, pattern):
                folders = of_pattern
        if folders is None:
            chosen.append(name)
            continue
        place += 1
        if (turn + place) % ROUNDS == 0 or any(
                file == folder or file.startswith(folder + "/") for file in files for folder in folders):
            chosen.append(name)
    return chosen


def main(argv):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "slow_tests.txt")) as f:
        slow = read_map(f.read())
    os.chdir(os.path.dirname(here))
    names = sys.stdin.read().split()
    base = base_of(argv[0] if argv else None)
    files = touched_files(base)
    chosen = select(names, slow, files, int((git("rev-parse", "--short=8", "HEAD") or "0").strip()[:8], 16))
    print("\n".join(chosen))
    left_out = [name for name in names if name not in chosen]
    print("%d of %d tests; changes since %s select the slow ones. Left out: %s"
          % (len(chosen), len(names), base or "none that is known", " ".join(left_out) or "none"), file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
