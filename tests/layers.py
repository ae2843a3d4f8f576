"""layers.py: checks every #include of the tree against the list below, which says which folder may include
which; that no file includes all public headers; and that headers do not include each other in a circle. A folder may
include the folders listed for it here, and those that these may include.
"""
import os
import re
import subprocess
import sys

MAY = {
    "include/fovea": [],
    # One layer: what the system gives, and status, memory and threads made of it.
    "platform/os": ["include/fovea", "src/base"],
    "src/base": ["platform/os"],
    "src/json": [],
    "src/mech": [],
    "src/act": [],
    "src/ops": ["src/base", "src/mech", "src/act"],
    "src/checkpoint": ["src/base", "src/json"],
    "src/device": ["src/ops"],
    "src/graph": ["src/device", "src/checkpoint"],
    "src/weights": ["src/device", "src/checkpoint"],
    "src/models": ["src/graph", "src/weights"],
    "src/models/vit": ["src/models"],
    "src/models/dense": ["src/models/vit"],
    "src/models/pyramid": ["src/models/dense"],
    "src/models/detr": ["src/models/vit"],
    "src/models/language": ["src/models"],
    # The list of families: it alone knows them all.
    "src/models/load": ["src/models/pyramid", "src/models/detr", "src/models/language"],
    "src/wisdom": ["src/device"],
    "src/plan": ["src/models", "src/wisdom"],
    "src/trial": ["src/plan"],
    "src/tune": ["src/trial"],
    "src/run": ["src/tune"],
    "src/verify": ["src/run"],
    "src/train/ref": ["src/ops"],
    "src/train/cpu": ["platform/cpu", "src/train/ref"],
    "src/train": ["src/run", "src/models/dense", "src/train/cpu"],
    "src/cli/common": ["include/fovea", "src/json"],
    "src/cli/picture": ["src/cli/common"],
    "src/cli/run": ["src/cli/picture"],
    "src/cli/bench": ["src/cli/common", "src/act"],
    "src/cli/adapt": ["src/cli/common"],
    "src/cli/eval": ["src/cli/common"],
    "platform/cpu": ["src/device"],
    "gpu": ["src/device"],
    "cl": ["gpu"],
    "cuda": ["gpu"],
}

# A file that includes it is recompiled whenever any public header changes.
UMBRELLA = "include/fovea/fovea.h"

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = re.compile(r'^\s*#\s*include (?:"|<(?=fovea/))([^">]+)[">]', re.M)


def part(path):
    """The folder of MAY that contains a file, or None: tests and examples may include anything."""
    while path:
        path = os.path.dirname(path)
        if path in MAY:
            return path
    return None


def allowed(folder):
    """The folder itself and all that it may include."""
    seen, todo = set(), [folder]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += MAY[one]
    return seen


def find(name, includer):
    """The path of an included file from the root of the tree; None for a generated one."""
    for folder in ("", "src", "include", os.path.dirname(includer)):
        path = os.path.normpath(os.path.join(folder, name))
        if os.path.exists(os.path.join(ROOT, path)):
            return path
    return None


def included():
    """{path: the files that it includes}"""
    files = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.inc"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    edges = {}
    for path in files:
        with open(os.path.join(ROOT, path), encoding="utf-8") as text:
            names = INCLUDE.findall(text.read())
        edges[path] = [other for other in (find(name, path) for name in names) if other]
    return edges


def circle(edges, path, above, done):
    """A path of includes from `path` back to a file of `above`, or None."""
    if path in above:
        return above[above.index(path):] + [path]
    if path in done:
        return None
    for other in edges.get(path, []):
        found = circle(edges, other, above + [path], done)
        if found:
            return found
    done.add(path)
    return None


def main():
    edges = included()
    checked = wrong = 0
    for path, others in edges.items():
        own = part(path)
        for other in others if own else []:
            checked += 1
            if part(other) and part(other) not in allowed(own):
                print(f"{path}: {own} may not include {other}")
                wrong += 1
            elif other == UMBRELLA:
                print(f"{path}: include the public headers that it names, not {other}")
                wrong += 1
    done = set()
    for path in edges:
        # A list such as ops.inc may be included by a header that it mentions in no line of its own.
        found = circle(edges, path, [], done)
        if found:
            print("a circle: " + " -> ".join(found))
            wrong += 1
            break
    print(f"{checked} includes of {len(edges)} files, {wrong} against the order")
    return 1 if wrong or checked < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
