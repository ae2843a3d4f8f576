"""embed.py: device sources as a C file: those that both GPU backends have, or CUDA's own.

usage: embed.py OUT.c OP_H ACTIVATIONS_INC MECH_DIR FILE.cl...
       embed.py --cuda OUT.c FILE...
"""
import re
import sys
from pathlib import Path

from mech_text import mechanism_text, mechanisms

ROOT = Path(__file__).resolve().parent.parent


QUOTED_OR_BLANK = re.compile(r"""(?P<quoted>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\s+""")
NO_BLANK_AROUND = re.compile(r"[][(){},;?:]")
OPERATOR_AND_WORD = re.compile(r"[-+*/%&|^<>=!~][\w.]|[\w.][-+*/%&|^<>=!~]")
# In 0xe + 1 the space must stay, because 0xe+1 would be read as one number.
NUMBER_BEFORE_SIGN = re.compile(r"(?<![\w.])\.?\d[\w.]*[eEpP]$")


def squeeze(code):
    """Code of one line without the blanks that separate no tokens. Those next to a quote or a
    backslash and between two operators stay."""
    def shorter(found):
        before, after = code[:found.start()], code[found.end():]
        around = before[-1:] + after[:1]
        if found["quoted"]:
            return found[0]
        if NO_BLANK_AROUND.search(around):
            return ""
        if OPERATOR_AND_WORD.fullmatch(around) and not NUMBER_BEFORE_SIGN.search(before):
            return ""
        return " "
    return QUOTED_OR_BLANK.sub(shorter, code.strip())


def squeeze_line(line):
    """A line of code or of the preprocessor's, where the blank after a name decides whether a macro
    has parameters."""
    line = line.strip()
    if not line.startswith("#"):
        return squeeze(line)
    found = re.match(r"#(?:define \w+ ?|(?:el)?if )", line)
    return found[0] + squeeze(line[found.end():]) if found else line


def without_comments(text):
    """The same lines without their comments."""
    text = re.sub(r"/\*.*?\*/", lambda found: " " + "\n" * found[0].count("\n"), text, flags=re.S)
    return re.sub(r"//.*", "", text)


def literal(text):
    """C strings, one a line, without comments and blanks, which are nearly half of it all. Lines
    stay lines, so that a compiler's messages name the right ones."""
    lines = [squeeze_line(line).replace("\\", "\\\\").replace('"', '\\"')
             for line in without_comments(text).splitlines()]
    return "\n".join(f'    "{line}\\n"' for line in lines) or '    ""'


def names(op_h, activations):
    """FV_FLAG_* and FV_EPI_* of op.h and activations.inc: the kernels' side sees the same bits."""
    found = re.findall(r"(FV_(?:FLAG|EPI)_\w+) = 1u << (\d+)", Path(op_h).read_text())
    found += [("FV_EPI_" + name, bit) for name, bit in
              re.findall(r"^FV_ACTIVATION\((\w+), \w+, (\d+),", Path(activations).read_text(), re.M)]
    return "".join(f"#define {name} (1u << {bit})\n" for name, bit in found)


def source(path):
    """A file's text, with those it includes, by their paths in the repository, in their places. What
    a header of C's includes is for C alone."""
    lines = []
    for line in path.read_text().splitlines():
        found = re.match(r'#include ["<](.+)[">]$', line)
        if not found:
            lines.append(line)
        elif path.suffix != ".h":
            lines += source(ROOT / found[1]).splitlines()
    return "\n".join(lines)


def is_list(text):
    """Whether what is in parentheses at the beginning of a text has a comma outside of others."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth == 0 or depth == 1 and character == ",":
            return depth == 1
    return False


def for_both(text):
    """OpenCL C that a CUDA compiler takes, too, with cuda_prelude.h before it. A vector literal of
    several numbers would be a comma operator's result there; FV_VEC makes it what it should be. And
    `global` may not be a macro there: it is what CUDA's own __global__ is made of."""
    text = re.sub(r"\bglobal\b", "__global", text)
    return re.sub(r"\(((?:uchar|ushort|int|uint|float)(?:2|3|4|8|16))\)(?=\()",
                  lambda found: f"FV_VEC({found[1]})" if is_list(text[found.end():]) else found[0],
                  text)


def table(name, files):
    """The C table of files' texts."""
    lines = [f"const fv_gpu_source {name}[] = {{"]
    for file in map(Path, files):
        text = source(file) if file.suffix == ".h" else for_both(source(file))
        called = file.name if file.suffix == ".cu" else file.stem
        lines.append(f'    {{"{called}",\n{literal(text)}}},')
    return lines + ["    {0},\n};"]


def shared_sources(op_h, activations, mech, *files):
    parts = ['#include "gpu/gpu_sources.h"']
    parts.append(f"const char fv_gpu_names[] =\n{literal(names(op_h, activations))};\n")
    parts += table("fv_gpu_sources", files)
    parts.append("const char *const fv_gpu_mechanisms[] = {\n    \"\",")
    for name in mechanisms(mech):
        parts.append(f"    /* {name} */\n{literal(mechanism_text(mech, name))},")
    parts.append("};")
    return parts


def cuda_sources(*files):
    return ['#include "cuda/cuda_sources.h"'] + table("fv_cuda_sources", files)


def main():
    cuda = sys.argv[1] == "--cuda"
    out, *inputs = sys.argv[1 + cuda:]
    parts = cuda_sources(*inputs) if cuda else shared_sources(*inputs)
    Path(out).write_text("\n".join(["/* Written by embed.py. */", *parts]) + "\n")


if __name__ == "__main__":
    main()
