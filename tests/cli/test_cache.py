#!/usr/bin/env python3
"""test_cache.py: `fovea cache` lists what is on disk, and removes nothing else.

    test_cache.py path/to/fovea

Standard library only.
"""
import errno
import json
import os
import struct
import subprocess
import sys
import tempfile

import expected
from expected import expect

WISDOM = "fovea wisdom 1\n"


class Cache:
    def __init__(self, exe, folder):
        self.exe = exe
        self.wisdom = os.path.join(folder, "wisdom")
        self.kernels = os.path.join(folder, "kernels")
        self.weights = os.path.join(folder, "weights")

    def fovea(self, *arguments, code=0, weights=""):
        env = dict(os.environ, FOVEA_WISDOM=self.wisdom, FOVEA_CACHE=self.kernels, FOVEA_WEIGHTS_CACHE=weights,
                   FOVEA_LOG="all")
        p = subprocess.run([self.exe, *arguments], capture_output=True, text=True, env=env)
        expect("%s: exit %d, wanted %d: %s" % (" ".join(arguments), p.returncode, code, p.stderr),
               p.returncode == code)
        return p

    def run(self, *arguments, **how):
        return self.fovea("cache", *arguments, **how).stdout

    def json(self, *arguments, **how):
        return json.loads(self.run(*arguments, "--json", **how))

    def put(self, name, text):
        os.makedirs(self.kernels, mode=0o700, exist_ok=True)
        path = os.path.join(self.kernels, name)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, 0o600)

    def has(self, name):
        return os.path.exists(os.path.join(self.kernels, name))


def empty(c):
    seen = c.json("list")
    expect("nothing is there", not seen["wisdom"]["exists"] and seen["entries"] == 0)
    expect("and nothing is made", not os.path.exists(c.kernels))
    c.run("verify")
    c.run("clear")


def unsound(c):
    if c.json("list")["folder"] == "":
        return  # a build without OpenCL compiles nothing
    c.put("0123456789abcdef.bin", "damaged")
    c.put("notes.txt", "not ours")
    seen = c.json("verify", code=3)
    expect("a damaged entry is told", seen["entries"] == seen["unsound"] == 1 and
           seen["kernels"][0]["problem"])
    c.run("clear")
    expect("it is removed", not c.has("0123456789abcdef.bin"))
    expect("what is not ours stays", c.has("notes.txt"))


def entry(texts, data):
    """A file of the cache: sizes, a checksum, the texts of the key and the data."""
    key = b"".join(text.encode() + b"\0" for text in texts)
    sizes = struct.pack("<QQ", len(key), len(data))
    checksum = 0xcbf29ce484222325
    for byte in sizes + key + data:
        checksum = (checksum ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return b"FOVEACL1" + sizes + struct.pack("<Q", checksum) + key + data


def skipped(c):
    """A note that a program is not compiled is listed, does not count as damage, and is removed alone."""
    if c.json("list")["folder"] == "":
        return
    for name, tries, limit in (("0123456789abcdef.note", 1, 0.0), ("0123456789abcde0.note", 1, 120.0)):
        c.put(name, entry(["1\n2\n3\nMali-G610\n5", "options", "hash", "gemm.cl"],
                          struct.pack("<Qd", tries, limit)))
    c.put("0123456789abcdef.bin", entry(["1\n2\n3\nMali-G610\n5", "softmax.cl"], b"binary"))
    seen = c.json("verify")
    reasons = sorted(note["reason"] for note in seen["skipped"])
    expect("notes are listed apart", seen["entries"] == 1 and len(reasons) == 2)
    expect("with program and device", all(note["program"] == "gemm.cl" and note["device"] == "Mali-G610"
                                          for note in seen["skipped"]))
    expect("with the reason: %s" % reasons, "a process ended" in reasons[0] and "within 120 s" in reasons[1] and
           all("fovea cache retry" in reason for reason in reasons))
    expect("as text", "skipped  gemm.cl" in c.run("list"))
    expect("how many are removed", c.run("retry").startswith("2 skipped programs"))
    expect("kernels stay", c.has("0123456789abcdef.bin") and not c.json("list")["skipped"])
    c.put("0123456789abcdef.note", entry(["1\n2\n3\nMali-G610\n5", "options", "hash", "gemm.cl"],
                                         struct.pack("<Qd", 2, 0.0)))
    c.run("clear")
    expect("clear removes both", not c.has("0123456789abcdef.bin") and not c.has("0123456789abcdef.note"))


def packed(c):
    """The files of packed weights, and their bytes."""
    there = os.listdir(c.weights) if os.path.exists(c.weights) else []
    files = [name for name in there if name.endswith(".weight")]
    return len(files), sum(os.path.getsize(os.path.join(c.weights, name)) for name in files)


def picture(c):
    path = c.wisdom + ".ppm"
    with open(path, "wb") as f:
        f.write(b"P6 32 32 255\n" + bytes(range(256)) * 12)
    return path


def weights(c):
    folder = ("--weights-cache", c.weights)
    run = ("run", "synthetic:vit-ti16", picture(c), "--size", "32", "--json")
    expect("none is named", c.json("list")["weights"] == {"folder": "", "files": 0, "bytes": 0})
    expect("an empty one", c.json("list", *folder)["weights"] == {"folder": c.weights, "files": 0, "bytes": 0})
    expect("which is not made", not os.path.exists(c.weights))
    plain = c.fovea(*run)
    c.fovea(*run, "--weights-cache", "none", weights=c.weights)
    expect("none keeps nothing, whatever the environment says", not os.path.exists(c.weights))
    first = c.fovea(*run, *folder)
    files, size = packed(c)
    expect("weights are kept", files > 0 and size > 0 and "wrote %d of them" % files in first.stderr)
    second = c.fovea(*run, *folder)
    expect("and mapped by the next process", "%d packed weights are mapped; this process wrote 0 of them" % files in second.stderr)
    def outputs(p):
        return [json.loads(line)["top"] for line in p.stdout.splitlines()]
    expect("which sees the same", outputs(plain) == outputs(first) == outputs(second))
    for seen in (c.json("list", *folder), c.json("list", weights=c.weights)):
        expect("they are listed", seen["weights"] == {"folder": c.weights, "files": files, "bytes": size})
    expect("as text", "weights  %s\n  %d packed, " % (c.weights, files) in c.run("list", *folder))
    c.run("clear")
    expect("no folder, nothing removed", packed(c) == (files, size))
    for name in ("notes.txt", "0123456789abcdef.weight"):
        open(os.path.join(c.weights, name), "w").close()
    expect("how many are removed", "%d packed weights were removed" % (files + 1) in c.run("clear", *folder))
    expect("what is not ours stays", os.listdir(c.weights) == ["notes.txt"])


def wisdom(c):
    with open(c.wisdom, "w") as f:
        f.write("a diary\n")
    expect("what is no wisdom is told", c.json("verify", code=3)["wisdom"]["problem"])
    c.run("clear", code=7)
    expect("and stays", os.path.exists(c.wisdom))
    with open(c.wisdom, "w") as f:
        f.write(WISDOM)
    expect("wisdom is sound", c.json("verify")["wisdom"]["problem"] == "")
    c.run("clear")
    expect("wisdom is removed", not os.path.exists(c.wisdom))


def files(c):
    path = c.wisdom + ".export"
    c.run("export", path)
    expect("an export is imported", "imported" in c.run("import", path))
    for damage in ("", "fovea cache 1 ", "fovea cache 1 99999\nfovea", "something else\n"):
        with open(path, "w") as f:
            f.write(damage)
        c.run("import", path, code=7)
    c.run("import", path + ".missing", code=7)
    c.run("export", code=1)
    c.run("list", "more", code=1)
    c.run("burn", code=1)


def refused_folder(c):
    """The message gives the reason why the folder could not be made, not errors about files in it."""
    parent = "/sys/fovea-test" if os.path.ismount("/sys") else ""  # refused for every user, root included
    if os.geteuid() != 0:
        parent = os.path.join(os.path.dirname(c.wisdom), "locked", "one")
        os.mkdir(os.path.dirname(parent), mode=0o500)
    if not parent or os.path.exists(parent):
        print("skipped: no folder here refuses root")
        return
    home = dict(os.environ, HOME=parent)
    for name in ("FOVEA_WISDOM", "XDG_CACHE_HOME"):
        home.pop(name, None)
    p = subprocess.run([c.exe, "tune", "synthetic:vit-ti16", "--size", "32", "--time", "1"],
                       capture_output=True, text=True, env=home)
    expect("exit %d: %s" % (p.returncode, p.stderr), p.returncode == 7)
    expect("the folder and the reason: " + p.stderr, parent in p.stderr and "cannot create this folder" in p.stderr)
    expect("another reason: " + p.stderr, os.strerror(errno.ENOENT) not in p.stderr)


def main():
    exe = os.path.abspath(sys.argv[1])

    def call(test):
        with tempfile.TemporaryDirectory() as folder:
            test(Cache(exe, folder))

    return expected.run((empty, unsound, skipped, weights, wisdom, files, refused_folder), call)


if __name__ == "__main__":
    sys.exit(main())
