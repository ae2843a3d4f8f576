#!/usr/bin/env python3
"""comments.py: a public header as Doxygen is to read it, on standard output.

    comments.py HEADER

The headers have plain comments with plain text. Here the comment before a declaration and the one behind it
become documentation; comments that no declaration follows describe the file, and those with dashes
begin a group. A function without a comment of its own has that of the function above it; where there is
none either, it gets a command that Doxygen does not know and warns of.
"""
import re
import sys

COMMENT = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def plain(line):
    """Nothing in the text means anything to Doxygen but `names` and *terms*."""
    line = re.sub(r"([\\@&$#<>%|])", r"\\\1", line)
    line = re.sub(r"`([^`]*)`", r"<code>\1</code>", line)
    return re.sub(r"(?<!\S)\*(\w+)\*(?!\w)", r"<em>\1</em>", line)


def body(comment):
    """The text of a comment that begins a line. Tables, equations and code, which are indented, keep their form."""
    verbatim = item = False
    for line in comment[2:-2].split("\n"):
        line = re.sub(r"^\s*\* ?", "", line).rstrip() if line.lstrip().startswith("*") else line.strip()
        item = not verbatim and (bool(re.match(r" +- ", line)) or (item and line.startswith(" ")))
        form = line.startswith(" ") and not item
        if form and not verbatim:
            yield "@verbatim"
        elif verbatim and line and not form:
            yield "@endverbatim"
        verbatim = form or (verbatim and not line)
        yield line if verbatim else " * " + plain(line)
    if verbatim:
        yield "@endverbatim"


def section(comment):
    """A line of dashes around a title, or above it and what holds for the group."""
    lines = [line.strip("*- ") for line in body(comment) if line.strip("*- ")]
    ends = 1 if comment[2:].lstrip().startswith("-----") else len(lines)
    title, more = " ".join(lines[:ends]), lines[ends:]
    return "/** @name %s\n%s\n@{ */" % (title, "\n".join(more))


def documented(text, begin, end):
    """The comment text[begin:end] as Doxygen knows it."""
    comment = text[begin:end]
    before = text[text.rfind("\n", 0, begin) + 1 : begin].strip()
    after = text[end:].split("\n")
    if before:
        if after[0].strip() or re.match(r"#\s*(if|el|endif)|//|}", before):
            return comment
        return "/**< " + plain(re.sub(r"\s*\n\s*", " ", comment[2:-2]).strip()) + " */"
    if re.match(r"/\* ?--", comment):
        return section(comment)
    following = after[1] if len(after) > 1 else ""
    if not following.strip() or not begin:
        return "/** @file\n" + "\n".join(body(comment)) + " */"
    if following.startswith("#") and not following.startswith("#define"):
        return comment
    return "/**\n" + "\n".join(body(comment)) + " */"


def shared(text):
    """Functions without a comment of their own."""
    last, above = "", ""
    for line in text.split("\n"):
        if line.startswith(("FOVEA_API", "FOVEA_TRAIN_API")):
            if not above.endswith("*/"):
                yield "/** @copydoc %s */" % last if above and last else "/** @without_a_comment */"
            found = re.search(r"(\w+)\(", line)
            last = found[1] if found else ""
        yield line
        above = line.strip()


def main(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    out, at, group = "", 0, False
    for found in COMMENT.finditer(text):
        made = documented(text, *found.span()) if found[0].startswith("/*") else found[0]
        if made.startswith("/** @name"):
            made, group = ("/** @} */ " if group else "") + made, True
        out += text[at : found.start()] + made
        at = found.end()
    out += text[at:].replace("FOVEA_END_DECLS", "/** @} */ FOVEA_END_DECLS" if group else "FOVEA_END_DECLS")
    print("\n".join(shared(out)))


if __name__ == "__main__":
    main(sys.argv[1])
