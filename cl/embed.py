"""embed.py: OpenCL sources as a C file.

usage: embed.py OUT.c KERNEL_H MECH_DIR FILE.cl...
"""
import re
import sys
from pathlib import Path

from mech_text import mechanism_text, mechanisms


def literal(text):
    """C strings, one a line, without comments and indentation, which are a third of it all. Lines
    stay lines, so that a compiler's messages name the right ones."""
    text = re.sub(r"/\*.*?\*/", lambda comment: " " + "\n" * comment[0].count("\n"), text, flags=re.S)
    lines = [line.strip().replace("\\", "\\\\").replace('"', '\\"')
             for line in re.sub(r"//.*", "", text).splitlines()]
    return "\n".join(f'    "{line}\\n"' for line in lines) or '    ""'


def names(kernel_h):
    """FV_FLAG_* and FV_EPI_* of kernel.h: the kernels' side sees the same bits."""
    found = re.findall(r"(FV_(?:FLAG|EPI)_\w+) = 1u << (\d+)", kernel_h)
    return "".join(f"#define {name} (1u << {bit})\n" for name, bit in found)


def source(path):
    """A file's text, with those it includes in their places."""
    lines = []
    for line in path.read_text().splitlines():
        found = re.match(r'#include "(\w+\.cl)"$', line)
        lines += source(path.with_name(found[1])).splitlines() if found else [line]
    return "\n".join(lines)


def main():
    out, kernel_h, mech, *files = sys.argv[1:]
    parts = ['/* Written by embed.py. */\n#include "cl_sources.h"\n']
    parts.append(f"const char fv_cl_names[] =\n{literal(names(Path(kernel_h).read_text()))};\n")
    parts.append("const fv_cl_source fv_cl_sources[] = {")
    for file in map(Path, files):
        parts.append(f'    {{"{file.stem}",\n{literal(source(file))}}},')
    parts.append("    {0},\n};")
    parts.append("const char *const fv_cl_mechanisms[] = {\n    \"\",")
    for name in mechanisms(mech):
        parts.append(f"    /* {name} */\n{literal(mechanism_text(mech, name))},")
    parts.append("};")
    Path(out).write_text("\n".join(parts) + "\n")


main()
