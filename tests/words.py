"""words.py: phrases that comments, docstrings, documentation and messages must not have, and words that
names must not have, each with what to write instead.

    words.py [FILE]...    these files, else all that COVERED names

Phrases are searched for in the text that a reader sees: comments, docstrings, prose of Markdown
without its code, string literals of code. A phrase may go on in the next line, comment or literal.
"""
import ast
import io
import os
import re
import subprocess
import sys
import tempfile
import tokenize

# What is checked: a path of git, and what of its files: prose, comments (and docstrings of Python),
# strings, names.
COVERED = [
    ("*.md", "prose"),
    ("docs/*.md", "prose"),
    ("meson*", "comments"),
    ("pyproject.toml", "comments"),
    ("include/fovea", "comments names"),
    ("src", "comments strings names"),
    ("platform", "comments names"),
    ("gpu", "comments names"),
    ("cl", "comments names"),
    ("cuda", "comments names"),
    ("python", "comments strings names"),
    ("gstreamer", "comments strings names"),
    ("ros2", "comments strings names"),
    ("examples", "comments names"),
    ("bench", "comments names"),
    ("tests", "comments names"),
]

# Pattern, what to write instead, and text that it must refuse. A space of a pattern is any white
# space. Words that have a usual meaning too are refused only next to words that show the other one.
BANNED = [
    (r"so many", "the number, 'this many', or 'the number of ..'", "a cache of so many tokens"),
    (r"what (?:\w+ )?(?:stands?|lies?)", "name the thing: 'the prefix', 'the last value'",
     "what stands behind the prefix"),
    (r"(?:stands?|stood|standing) (?:behind|around|before|beside|between|last|there|in its|at its|"
     r"together|under|in the|in rows)",
     "'follows', 'precedes', 'is stored in', or name the position", "a name stands before it"),
    (r"worked out|works? out", "'computed', 'calculated'", "the product is worked out in float32"),
    (r"(?:lies?|lay|lying) (?:in|at|on|together|beside|among|so|between|below|elsewhere|across|"
     r"side|one after|far|close|inside|outside|under|before|beyond|apart|packed|within|unaligned)",
     "'is in', 'is stored at', 'is contiguous', 'is spread across'",
     "the state lies in memory once"),
    (r"(?:where|as) (?:it|they) lies?", "'in place', 'without a copy'", "read where they lie"),
    (r"beside", "'next to', 'in the same folder as', 'compared with', 'in addition to'",
     "the file beside it"),
    (r"the (?:more|less) the|the \w+er the (?:more|less)", "'larger is nearer', 'grows with'",
     "the nearer the more"),
    (r"(?:is|are) none to", "'there is no .. to'", "there is none to call"),
    (r"that (?:is|are) no (?!longer|more|less|larger|smaller)", "'that is not a ..'",
     "rows that are no patches"),
    (r"rooms|room (?:for|that|left|to hold)|(?:has|have|no|there is|enough|whose|where the) room",
     "'capacity', 'space', 'memory', 'buffer size'", "out has room for n floats"),
    (r"(?:of|by) (?:few|all|the|its|\w+) turns|(?:in|further|loop'?s?) turns|turns (?:of|count)",
     "'iterations'; of measurements 'alternating'", "loops of few turns"),
    (r"(?:(?:rounded|packed|read|only|two|both|products'?) )factors|"
     r"factors (?:of|for) (?:each |a |the )?(?:channels?|products?)",
     "'operands'; of channels 'scales'", "rounded factors"),
    (r"(?:in the|vector|vocabulary's|its) words? of|word of it", "'instruction', 'function'",
     "in the words of the vocabulary"),
    (r"(?<!developer\x20)(?<!development\x20)kits?", "'microkernel'", "a kit of products"),
    (r"(?:bytes|rows|frames|elements|floats|values|distance|times) apart|cut apart|to part them",
     "'stride', 'frame stride'; 'split'", "rows are n bytes apart"),
    (r"(?:runs?|running|rows) ahead|compiled ahead(?! of time)|"
     r"ahead of (?!time)(?:it|the|a|softmax)",
     "'halo', 'a pass before', 'compiled ahead of time'", "a pass ahead of the tile"),
    (r"(?:whatever|what) becomes? of", "'what happens to', 'after'",
     "whatever becomes of the files"),
    (r"to be had", "'available'", "where units are to be had"),
    (r"but for", "'except for'", "all values but for boxes"),
    (r"in one word|a word of its own", "'as one argument'", "X,Y,OUT in one word"),
    (r"remarks?", "'log message', 'warning', 'note'", "a remark says so"),
    (r"the place of the", "name the argument or the position", "the place of the ticket"),
    (r"takes? (?:its|their|the) place", "'replaces'", "the teacher takes its place"),
    (r"the same of(?! many| it)", "'the same for'", "the same of every row"),
    (r"(?<!leaves\x20)(?<!leave\x20)(?<!far\x20)(?<!close\x20)(?<!lag\x20)(?<!weeks\x20)"
     r"behind (?:it|them|the|that|those|each|all|another|one)(?! same calls)",
     "'after', 'following'", "zeros behind the last row"),
    (r"nobody's", "'not owned', 'unused'", "bytes between rows are nobody's"),
    (r"(?:is|are) told(?! to| otherwise| apart)", "'is reported', 'is printed'", "which is told"),
    (r"(?:it|0|layout) is none|none either", "'it is not one', 'no limit', 'neither'",
     "a limit; 0 is none"),
    (r"(?<!there\x20)(?:is|are) no (?!longer|more|less|larger|smaller|slower|faster|better|"
     r"worse|use|other|one|work|good|matter|separator|need|such)\w+",
     "'is not a ..'", "the file is no wisdom"),
    (r"anew", "'again', 'start over'", "each is compiled anew"),
    (r"(?:that|what) (?:is|are|was) there", "'existing', 'present'", "the file that is there"),
    (r"how \w+ come of|comes of", "'how .. are made from'", "how boxes come of outputs"),
    (r"the one is taken", "'the one with the fewest .. is taken'", "the one is taken that fits"),
    (r"where it stands", "'from its current position'", "a file from where it stands"),
    (r"(?:is|are) to be", "'must be', or an imperative", "the kernel is to be released"),
    (r"memory is short|no memory for", "'memory ran out', 'cannot allocate'", "memory is short"),
    (r"of theirs|of his own", "repeat the noun: 'of these libraries'", "no header of theirs"),
    (r"added up", "'added', 'accumulated'", "parts are added up outside"),
    (r"none of the others", "name the other things", "none of the others"),
    (r"packed plainly|finished (?:grids?|tensors?)", "'unpacked', 'complete'", "packed plainly"),
    (r"(?:and|or) (?:its|their) like", "'such as', 'and similar'", "the manual and its like"),
]

# Words in names of files, functions, types and variables. A word of a name ends at a '_' or a digit.
BANNED_IN_NAMES = [
    (r"rooms?", "'capacity', 'buffer', 'scratch'", "make_room"),
    (r"apart", "'stride', 'delta'", "rows_apart"),
    (r"ahead", "'halo', 'prefetch', 'pre_pass'", "MAX_AHEAD"),
    (r"beside", "what it is: 'sibling', 'temporary'", "open_beside"),
    (r"kits?", "'microkernel'", "gemm_kit"),
    (r"factors", "'operands', 'scales'", "read_factors"),
    (r"turns", "'iterations', 'rounds', 'revolutions'", "few_turns"),
    (r"remark(?:s|ed)?", "'message', 'note', 'status'", "last_remark"),
    (r"heirs?", "'reused_by'", "heir"),
]

# Names of others: fields of configurations.
NAMES_OF_OTHERS = re.compile(r"\breassemble_factors\b")

# Ordinary English with the same words, which must pass.
ORDINARY = [
    "The picture is turned by its EXIF; a linear layer turns rows into columns; models take turns.",
    "A scale factor, powers of two as factors, within a factor of two; a loss times a factor.",
    "Depth of a living room. Words of a sentence, one 32-bit word, a keyword, in other words.",
    "Kernels are told apart by their names, and are compiled ahead of time with the CUDA toolkit.",
    "AUTO stands for the fastest precision; the standard says so; an underlying type that is no "
    "longer used; all but the last one.",
]

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
C_LIKE = (".c", ".h", ".cpp", ".hpp", ".inc", ".h.in", ".cl", ".cu", ".cuh")
HASHED = (".py", ".sh", ".sh.in", ".msg", ".toml", ".ini", "CMakeLists.txt", "meson.build",
          "meson_options.txt", "debian/rules", ".ci/run")
STRING = r"""'(?:\\.|[^'\\\n])+'|(?P<string>"(?:\\.|[^"\\\n])*")"""
COMMENT_OR_STRING = re.compile(r"(?P<comment>//[^\n]*|/\*.*?\*/)|" + STRING, re.S)
HASH_OR_STRING = re.compile(r"(?P<comment>(?:^|(?<=\s))#[^\n]*)|" + STRING, re.M)
PATTERNS = [(re.compile(r"\b(?:%s)\b" % pattern.replace(" ", r"\s+"), re.I), instead)
            for pattern, instead, _ in BANNED]
NAME_PATTERNS = [(re.compile(r"(?<![A-Za-z])(?:%s)(?![A-Za-z])" % pattern, re.I), instead)
                 for pattern, instead, _ in BANNED_IN_NAMES]


def blank(match):
    """Replaces a match by a text of the same length and line ends, without words."""
    return re.sub(r"[^\n]", "~", match.group())


def prose(text):
    """[(line, text)] of Markdown without code and link targets."""
    text = re.sub(r"^ *```.*?^ *```", blank, text, flags=re.S | re.M)
    text = re.sub(r"`[^`]*`", blank, text)
    return [(1, re.sub(r"\]\([^)]*\)", blank, text))]


def pieces(text, kind, syntax):
    """[(line, text)] of the comments or strings of code. Those that only white space separates are joined."""
    found, last = [], None
    for m in syntax.finditer(text):
        if not m.group(kind):
            continue
        line = text.count("\n", 0, m.start()) + 1
        if kind == "comment":
            piece = re.sub(r"(?m)^\s*(?:\*|//|#)", blank_start, m.group())
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


def docstrings(text):
    """[(line, text)] of the docstrings of Python."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [(n.body[0].lineno, n.body[0].value.value) for n in ast.walk(ast.parse(text))
            if isinstance(n, documented) and ast.get_docstring(n, clean=False) is not None]


def python_strings(text):
    """[(line, text)] of Python's strings, docstrings included."""
    return [(n.lineno, n.value) for n in ast.walk(ast.parse(text))
            if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def names(path, text, syntax):
    """[(line, text)] of code without comments and strings, and of its file's name."""
    if path.endswith(".py"):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        found = [(t.start[0], t.string) for t in tokens if t.type == tokenize.NAME]
    else:
        found = [(1, syntax.sub(blank, text))]
    return [(line, NAMES_OF_OTHERS.sub(blank, code))
            for line, code in [(1, os.path.basename(path))] + found]


def read(path, kind):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if path.endswith(".md"):
        return prose(text)
    if path.endswith(".py") and kind == "strings":
        return python_strings(text)
    syntax = HASH_OR_STRING if path.endswith(HASHED) else COMMENT_OR_STRING
    if kind == "names":
        return names(path, text, syntax)
    # Strings without a space are names.
    found = [p for p in pieces(text, kind.rstrip("s"), syntax) if " " in p[1]]
    return found + docstrings(text) if path.endswith(".py") else found


def phrases(text, patterns):
    """[(offset, phrase, what to write instead)] of each refused phrase of a text."""
    return [(m.start(), " ".join(m.group().split()), instead)
            for pattern, instead in patterns for m in pattern.finditer(text)]


def failures(path, kind):
    """(line, phrase, what to write instead) of each refused phrase of a file."""
    patterns = NAME_PATTERNS if kind == "names" else PATTERNS
    return sorted({(line + text.count("\n", 0, offset), phrase, instead)
                   for line, text in read(path, kind)
                   for offset, phrase, instead in phrases(text, patterns)})


def check_itself():
    """Checks that the examples are refused: alone, and across two lines of a header, a message and a document;
    and that ordinary English passes."""
    for (pattern, instead), (_, _, example) in zip(PATTERNS + NAME_PATTERNS,
                                                   BANNED + BANNED_IN_NAMES):
        if not pattern.search(example):
            sys.exit('words.py: "%s" is not refused; write %s' % (example, instead))
    for text in ORDINARY:
        if phrases(text, PATTERNS):
            sys.exit('words.py: ordinary English is refused: "%s"' % phrases(text, PATTERNS)[0][1])
    with open(os.path.join(ROOT, "include/fovea/plans.h"), encoding="utf-8") as f:
        header = f.read()
    planted = [
        ("plans.h", "comments", header + "/* The values of so\n * many frames. */\n",
         header.count("\n") + 1),
        ("a.c", "strings", '/* beside */\nfail("%d: a cache of so "\n     "many tokens");\n', 2),
        ("a.py", "strings", '# beside\nfail("a cache of so "\n     "many tokens")\n', 2),
        ("a.py", "comments", 'fail("# beside")\nn = 1  # of so\n# many tokens\n', 2),
        ("a.py", "comments", 'n = "beside"\ndef f():\n    """Of so\n    many."""\n', 3),
        ("a.sh", "comments", "echo $# 'beside'  # a cache of so\n#   many tokens\n", 1),
        ("a.md", "prose", "```\nbeside\n```\n`beside` [so\nmany](beside)\n", 4),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kit.c")
        with open(path, "w", encoding="utf-8") as f:
            f.write("/* turns */\nint MAX_AHEAD, headroom, reassemble_factors;\n")
        if [f[1] for f in failures(path, "names")] != ["kit", "AHEAD"]:
            sys.exit("words.py: planted names are not found: %s" % failures(path, "names"))
        for name, kind, text, line in planted:
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            found = [(at, phrase) for at, phrase, _ in failures(path, kind)]
            if found != [(line, "so many")]:
                sys.exit("words.py: planted in %s, line %d: found %s" % (name, line, found))


def covered():
    """[(path, kind)] of the files of COVERED that git knows."""
    files = []
    for spec, kinds in COVERED:
        glob = ":(glob)" if "*" in spec else ""
        listed = subprocess.run(["git", "ls-files", "-z", "--", glob + spec], cwd=ROOT, check=True,
                                stdout=subprocess.PIPE).stdout.decode()
        files += [(os.path.join(ROOT, f), kind) for f in listed.split("\0")
                  if f.endswith(C_LIKE + HASHED + (".md",)) for kind in kinds.split()]
    return files


def main():
    check_itself()
    files = [(os.path.abspath(f), kind) for f in sys.argv[1:]
             for kind in (["prose"] if f.endswith(".md") else ["comments", "strings", "names"])
             ] or covered()
    if not files:
        sys.exit("words.py: git lists no file of %s" % ", ".join(c[0] for c in COVERED))
    count = 0
    for path, kind in files:
        for line, phrase, instead in failures(path, kind):
            print('%s:%d: "%s": write %s' % (os.path.relpath(path, ROOT), line, phrase, instead))
            count += 1
    if count:
        sys.exit("words.py: %d phrases of %d files are refused" % (count, len(files)))
    print("%d files, %d patterns" % (len(files), len(PATTERNS + NAME_PATTERNS)))


if __name__ == "__main__":
    main()
