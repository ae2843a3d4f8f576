#!/usr/bin/env python3
"""test_wheel_tag.py: platform/package/wheel_tag.py, on a wheel made of the build's own library.

    test_wheel_tag.py path/to/libfovea.so

Needs readelf and objdump.
"""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
if len(sys.argv) < 2:
    raise SystemExit(__doc__)
LIBRARY = os.path.abspath(sys.argv[1])
SCRIPT = os.path.join(ROOT, "platform", "package", "wheel_tag.py")
INFO = "thing-1.0.dist-info/"


def tool(*command):
    return subprocess.run([sys.executable, SCRIPT, *command], capture_output=True, text=True)


class Tags(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def wheel(self, **files):
        path = os.path.join(self.folder, "thing-1.0-cp311-cp311-linux_x86_64.whl")
        with zipfile.ZipFile(path, "w") as out:
            for name, data in files.items():
                out.writestr("thing/" + name, data)
            out.writestr(INFO + "WHEEL", "Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n")
            out.writestr(INFO + "RECORD", "old\n")
        return path

    def test_a_library_that_a_system_need_not_have(self):
        with open(LIBRARY, "rb") as file:
            path = self.wheel(lib=file.read())
        done = tool(path, self.folder)
        needs = subprocess.run(["objdump", "-p", LIBRARY], capture_output=True, text=True, check=True).stdout
        if "libjansson" not in needs:
            self.skipTest("jansson is inside of the library")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "needs libjansson.so.4, which a system need not have; .*static_deps")

    def test_symbols_of_glibc(self):
        with open(LIBRARY, "rb") as file:
            done = tool("--needs", self.wheel(lib=file.read()))
        symbols = subprocess.run(["objdump", "-T", LIBRARY], capture_output=True, text=True, check=True).stdout
        newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", symbols))
        self.assertEqual(done.stdout.splitlines()[0], "glibc %d.%d" % max(newest, (2, 17)))
        self.assertIn("libc.so.6", done.stdout.splitlines())

    def test_name_and_records(self):
        done = tool(self.wheel(data=b"no ELF"), self.folder)
        path = done.stdout.strip()
        self.assertEqual(os.path.basename(path), "thing-1.0-py3-none-manylinux_2_17_x86_64.whl")
        with zipfile.ZipFile(path) as wheel:
            self.assertIn("\nTag: py3-none-manylinux_2_17_x86_64\n", wheel.read(INFO + "WHEEL").decode())
            lines = wheel.read(INFO + "RECORD").decode().splitlines()
            self.assertEqual(sorted(line.split(",")[0] for line in lines), sorted(wheel.namelist()))
            for name, digest, size in (line.split(",") for line in lines):
                if digest:
                    data = wheel.read(name)
                    want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, int(size)), ("sha256=" + want, len(data)))


if __name__ == "__main__":
    for program in "readelf", "objdump":
        if not shutil.which(program):
            print("no %s; sh platform/setup-debian.sh test installs it\n0 passed, 0 failed, 1 skipped" % program)
            sys.exit(77)
    counted.main()
