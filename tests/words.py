"""words.py: phrases that the headers, the documentation and the messages of the program must not
have, each with what to write instead.

    words.py [FILE]...    these files, else all that COVERED names

Phrases are searched for in the text that a reader sees: comments of headers, prose of Markdown
without its code, string literals of code. A phrase may go on in the next line or the next literal.
"""
import ast
import bisect
import os
import re
import subprocess
import sys

# What is checked: a path of git, and what of the files is text: "prose", "comments", "strings".
COVERED = [
    ("*.md", "prose"),
    ("docs/*.md", "prose"),
    ("include/fovea", "comments"),
    ("src", "strings"),
    ("python", "strings"),
    ("gstreamer", "strings"),
    ("ros2", "strings"),
]

# A space of a pattern is any white space. Words that have a usual meaning too are refused only
# next to words that show the other one.
BANNED = [
    (r"so many", "the number, 'this many', or 'the number of ..'"),
    (r"what (?:\w+ )?(?:stands?|lies?)", "name the thing: 'the prefix', 'the last value'"),
    (r"(?:stands?|stood|standing) (?:behind|around|before|beside|between|last|there|in its|at its)",
     "'follows', 'precedes', 'is stored in', or name the position"),
    (r"worked out|works? out", "'computed', 'calculated'"),
    (r"(?:lies?|lay|lying) (?:in|at|on|together|beside|among|so|between|below|elsewhere)",
     "'is in', 'is stored at', 'is contiguous'"),
    (r"(?:where|as) (?:it|they) lies?", "'in place', 'without a copy'"),
    (r"beside", "'next to', 'in the same folder as', 'compared with', 'in addition to'"),
    (r"the (?:more|less) the|the \w+er the (?:more|less)", "'larger is nearer', 'grows with'"),
    (r"(?:is|are) none to", "'there is no .. to'"),
    (r"that (?:is|are) no (?!longer|more|less|larger|smaller)", "'that is not a ..'"),
    (r"rooms|room (?:for|that|left|to hold)|(?:has|have|no|there is|enough|whose|where the) room",
     "'capacity', 'space', 'memory', 'buffer size'"),
    (r"(?:of|by) (?:few|all|the|its|\w+) turns|(?:in|further|loop'?s?) turns|turns (?:of|count)",
     "'iterations'; of measurements 'alternating'"),
    (r"(?:(?:rounded|packed|read|only|two|both|products'?) )factors|factors (?:of|for) (?:each "
     r"|a |the )?(?:channels?|products?)", "'operands'; of channels 'scales'"),
    (r"(?:in the|vector|vocabulary's|its) words? of|word of it", "'instruction', 'function'"),
    (r"(?<!developer\x20)(?<!development\x20)kits?", "'microkernel'"),
    (r"(?:bytes|rows|frames|elements|floats|values|distance|times) apart|cut apart|to part them",
     "'stride', 'frame stride'; 'split'"),
    (r"(?:runs?|running|rows) ahead|compiled ahead(?! of time)|ahead of (?!time)(?:it|the|a|softmax)",
     "'halo', 'a pass before', 'compiled ahead of time'"),
    (r"(?:whatever|what) becomes? of", "'what happens to', 'after'"),
    (r"to be had", "'available'"),
    (r"but for", "'except for'"),
    (r"in one word|a word of its own", "'as one argument'"),
    (r"remarks?", "'log message', 'warning', 'note'"),
    (r"the place of the", "name the argument or the position"),
    (r"(?:is|are) told(?! to| otherwise| apart)", "'is reported', 'is printed'"),
    (r"(?:it|0|layout) is none|none either", "'it is not one', 'no limit', 'neither'"),
    (r"(?<!there\x20)(?:is|are) no (?:wisdom|text|journal|number|state|picture|name of)",
     "'is not a ..'"),
    (r"anew", "'again', 'start over'"),
    (r"(?:that|what) (?:is|are|was) there", "'existing', 'present'"),
    (r"how \w+ come of|comes of", "'how .. are made from'"),
    (r"the one is taken", "'the one with the fewest .. is taken'"),
    (r"where it stands", "'from its current position'"),
    (r"(?:and|or) (?:its|their) like", "'such as', 'and similar'"),
]

# Phrases that are right where they are: path, text of the phrase, why.
ALLOWED = []

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = (".c", ".h", ".cpp", ".hpp", ".py", ".h.in", ".md")
COMMENT_OR_STRING = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|'(?:\\.|[^'\\\n])+'|(?P<string>"(?:\\.|[^"\\\n])*")""", re.S)
PATTERNS = [(re.compile(r"\b(?:%s)\b" % p.replace(" ", r"\s+"), re.I), s) for p, s in BANNED]


def blank(match):
    """As long as what it replaces, with the same ends of lines, and no word."""
    return re.sub(r"[^\n]", "~", match.group())


def prose(text):
    """[(line, text)] of Markdown: all of it without code and addresses of links."""
    text = re.sub(r"^ *```.*?^ *```", blank, text, flags=re.S | re.M)
    text = re.sub(r"`[^`]*`", blank, text)
    return [(1, re.sub(r"\]\([^)]*\)", blank, text))]


def pieces(text, kind):
    """[(line, text)] of the comments or strings of C; those without anything between are one."""
    found, last = [], None
    for m in COMMENT_OR_STRING.finditer(text):
        if not m.group(kind):
            continue
        line = text.count("\n", 0, m.start()) + 1
        if kind == "comment":
            piece = re.sub(r"(?m)^\s*(?:\*|//)", blank_start, m.group())
        else:
            piece = m.group()[1:-1].replace("\\n", " ")
        if last is not None and not text[last:m.start()].strip():
            before = found[-1]
            lines = line - before[0] - before[1].count("\n")
            found[-1] = (before[0], before[1] + "\n" * lines + piece)
        else:
            found.append((line, piece))
        last = m.end()
    return found


def blank_start(match):
    return " " * len(match.group())


def python_strings(text):
    """[(line, text)] of Python's strings, docstrings included."""
    return [(n.lineno, n.value) for n in ast.walk(ast.parse(text))
            if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def read(path, kind):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if path.endswith(".md"):
        return prose(text)
    if path.endswith(".py"):
        return python_strings(text)
    # Strings without a space are names.
    return [p for p in pieces(text, kind.rstrip("s")) if " " in p[1]]


def failures(path, kind):
    """(line, phrase, what to write instead) of each phrase of a file that is refused."""
    allowed = [a[1] for a in ALLOWED if a[0] == os.path.relpath(path, ROOT)]
    found = set()
    for line, text in read(path, kind):
        ends = [m.start() for m in re.finditer("\n", text)]
        for pattern, instead in PATTERNS:
            for m in pattern.finditer(text):
                phrase = " ".join(m.group().split())
                if phrase not in allowed:
                    found.add((line + bisect.bisect_left(ends, m.start()), phrase, instead))
    return sorted(found)


def covered():
    """[(path, kind)] of the files of COVERED that git knows."""
    files = []
    for spec, kind in COVERED:
        glob = ":(glob)" if "*" in spec else ""
        listed = subprocess.run(["git", "ls-files", "-z", "--", glob + spec], cwd=ROOT, check=True,
                                stdout=subprocess.PIPE).stdout.decode()
        files += [(os.path.join(ROOT, f), kind) for f in listed.split("\0") if f.endswith(CODE)]
    return files


def main():
    files = [(os.path.abspath(f), "comments" if f.endswith((".h", ".hpp")) else "strings")
             for f in sys.argv[1:]] or covered()
    if not files:
        sys.exit("words.py: git lists no file of %s" % ", ".join(c[0] for c in COVERED))
    count = 0
    for path, kind in files:
        for line, phrase, instead in failures(path, kind):
            print('%s:%d: "%s": write %s' % (os.path.relpath(path, ROOT), line, phrase, instead))
            count += 1
    if count:
        sys.exit("words.py: %d phrases of %d files are refused" % (count, len(files)))
    print("%d files, %d patterns" % (len(files), len(BANNED)))


if __name__ == "__main__":
    main()
