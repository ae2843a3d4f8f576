"""mech_text.py: the text of a mechanism for OpenCL: src/mech/mech.h and the mechanism's header, with
what they include, and the constants of wants.h that they name."""
import os
import re

INCLUDE = re.compile(r'^#include "(?:mech/)?(\w+\.h)"$')
# Headers that mech.h includes only in C. In kernels, other texts define the vector functions, and
# the core's tables are not needed.
LEFT_OUT = ("scalar.h", "wants.h")


def flatten(folder, header, mechanism):
    """The lines of a header with those of what it includes in their places, without comments."""
    with open(os.path.join(folder, header), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    lines = []
    for line in text.splitlines():
        line = line.rstrip()
        found = INCLUDE.match(line)
        if line == "#include FV_MECH_HEADER(FV_MECHANISM)":
            lines += flatten(folder, mechanism + ".h", mechanism)
        elif found and found[1] not in LEFT_OUT:
            lines += flatten(folder, found[1], mechanism)
        elif not found and line:
            lines.append(line)
    return lines


def forward(lines):
    """Without what only gradients need, which are computed on the CPU: #ifdef FV_DERIVE to #endif."""
    depth = 0
    for line in lines:
        if depth:
            depth += line.startswith("#if") - line.startswith("#endif")
        elif line == "#ifdef FV_DERIVE":
            depth = 1
        else:
            yield line


def constants(folder):
    """FV_WANT_* of wants.h."""
    with open(os.path.join(folder, "wants.h"), encoding="utf-8") as f:
        return re.findall(r"^#define FV_WANT_\w+ \w+", f.read(), flags=re.M)


def mechanisms(folder):
    """Every name in mech.inc."""
    with open(os.path.join(folder, "mech.inc"), encoding="utf-8") as f:
        return re.findall(r'^FV_MECH\(\w+, (\w+), .*\)$', f.read(), flags=re.M)


def mechanism_text(folder, mechanism):
    """What comes between vocabulary.cl and a kernel of the mechanism."""
    lines = list(forward(flatten(folder, "mech.h", mechanism)))
    return "\n".join(constants(folder) + lines) + "\n"
