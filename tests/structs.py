"""structs.py: no struct of the C sources has more than 25 fields, unless a comment where its fields begin
says why: `struct name { /* More than 25 fields: REASON */`. A struct of that size usually holds what belongs
to several phases or several concerns. A reason that is no longer needed is a failure too.
"""
import os
import re
import subprocess
import sys

MOST = 25
REASON = "More than %d fields: " % MOST
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A comment, a string, a character or a line of the preprocessor.
SKIPPED = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
STRUCT = re.compile(r"\b(?:struct|union)\b\s*(\w*)\s*\{")
COMMENT = re.compile(r"\{\s*/\*((?:(?!\*/).)*)\*/", re.S)


def blank(match):
    """Replaces a skipped text by spaces, so that positions stay the same."""
    return re.sub(r"[^\n]", " ", match.group())


def closing(code, opening):
    """The position of the brace that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at
    raise SystemExit("structs.py: a brace that is not closed: %s" % code[opening : opening + 60])


def count(body):
    """The fields of a struct with this body. A struct inside it counts by its declarators; one without any
    is part of the struct that holds it."""
    fields = 0
    while (inner := STRUCT.search(body)) is not None:
        end = closing(body, inner.end() - 1)
        names = body[end + 1 : body.index(";", end)].strip()
        fields += 0 if names else count(body[inner.end() : end])
        rest = "inner " + names if names else ""
        body = body[: inner.start()] + rest + body[end + 1 + body[end + 1 :].index(";") :]
    for declaration in body.split(";"):
        if not declaration.strip():
            continue
        depth, declarators = 0, 1
        for letter in declaration:
            depth += (letter in "([{") - (letter in ")]}")
            declarators += letter == "," and depth == 0
        fields += declarators
    return fields


def structs(text):
    """Name, number of fields and first comment of every struct of a file."""
    code = SKIPPED.sub(blank, text)
    for match in STRUCT.finditer(code):
        opening = match.end() - 1
        first = COMMENT.match(text, opening)
        comment = " ".join(first.group(1).split()) if first else ""
        end = closing(code, opening)
        name = match.group(1) or (re.match(r"\s*(\w*)", code[end + 1 :]).group(1) or "a struct")
        yield name, count(code[match.end() : end]), comment


def failures(path, text):
    for name, fields, comment in structs(text):
        reason = comment.partition(REASON)[2].strip()
        if fields > MOST and not reason:
            yield "%s: %s has %d fields; divide it, or begin it with /* %sREASON */" % (
                path, name, fields, REASON)
        if fields <= MOST and reason:
            yield "%s: %s has %d fields, and its comment excuses more than %d" % (path, name, fields, MOST)


def check_itself():
    """Checks that the check itself finds planted errors."""
    def made(fields, comment):
        lines = "".join("    int a%d; /* %d; */\n" % (i, i) for i in range(fields - 4))
        more = "    int *b[2], c;\n    void (*d)(int x, int y);\n    struct {\n        int e;\n    };\n"
        return "typedef struct planted { %s\n%s%s} planted;\n" % (comment, lines, more)

    reason = "/* More than 25 fields: a test */"
    for fields, comment, found in ((25, "", 0), (26, "", 1), (26, "/* planted */", 1), (26, reason, 0), (25, reason, 1)):
        got = len(list(failures("planted", made(fields, comment))))
        if got != found:
            raise SystemExit("structs.py: %d failures of %d fields after %r, not %d" % (got, fields, comment, found))


def main():
    check_itself()
    names = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.hpp", "*.cpp"], cwd=ROOT, capture_output=True,
                           text=True, check=False)
    if names.returncode:
        print("structs.py needs the list of git's files")
        sys.exit(77)
    found, seen = [], 0
    for path in names.stdout.split():
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
            text = file.read()
        seen += sum(1 for _ in structs(text))
        found += failures(path, text)
    print("\n".join(found + ["%d structs, %d failures" % (seen, len(found))]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
