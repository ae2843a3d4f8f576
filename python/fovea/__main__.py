"""python -m fovea, and the command `fovea` of a wheel: the program."""
from __future__ import annotations

import os
import shutil
import sys


def program() -> str:
    """The path of the program: inside the package, in the repository's build folder, or in PATH."""
    package = os.path.dirname(os.path.abspath(__file__))
    for path in (os.environ.get("FOVEA_PROGRAM"), os.path.join(package, "bin", "fovea"),
                 os.path.join(package, "..", "..", "build", "src", "cli", "fovea")):
        if path and os.access(path, os.X_OK):
            return os.path.abspath(path)
    found = shutil.which("fovea")
    if found is None or os.path.realpath(found) == os.path.realpath(sys.argv[0]):
        sys.exit("fovea: the program was not found; install a wheel of fovea, or build it and set FOVEA_PROGRAM")
    return found


def main() -> None:
    if sys.argv[1:2] == ["convert"]:  # run by this Python, which has numpy
        from .convert.command import main as convert
        convert(sys.argv[2:])
        return
    path = program()
    os.execv(path, ["fovea", *sys.argv[1:]])


if __name__ == "__main__":
    main()
