#!/usr/bin/env python3
"""test_wheel.py: tests the wheels of platform/package/wheel.sh, for this machine and from cross builds.

    test_wheel.py [WHEEL...]

Without arguments it builds the wheels, without a network: that of this machine if there is a Python with meson-python
($FOVEA_WHEEL_PYTHON, build-wheel-tools/bin/python as wheel.sh makes it, or this one), others if compilers and
libraries for them are installed. A wheel for this machine is installed into a new environment and run without a
compiler in PATH; the program of other wheels runs in qemu. Needs numpy and readelf.
"""
import glob
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

np = counted.need("numpy")
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODEL = os.path.join(ROOT, "tests", "data", "golden", "models", "dinov2-03")
TAGGER = os.path.join(ROOT, "platform", "package", "wheel_tag.py")
MOST = 6 << 20  # bytes of a wheel
# Machine of the ELF header, an emulator, and the requirements of a cross build.
MACHINES = {"x86_64": ("Advanced Micro Devices X86-64", "qemu-x86_64", None),
            "aarch64": ("AArch64", "qemu-aarch64", "aarch64-linux-gnu"),
            "armv7l": ("ARM", "qemu-arm", "arm-linux-gnueabihf")}
HERE = platform.machine()

USER = os.path.join(ROOT, "tests", "packages", "wheel_user.py")


def png(pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def builder():
    """A Python that builds wheels without a network, or None."""
    tools = os.path.join(ROOT, "build-wheel-tools", "bin", "python")
    for python in os.environ.get("FOVEA_WHEEL_PYTHON"), tools, sys.executable:
        if python and shutil.which(python):
            path = os.path.dirname(python) + os.pathsep + os.environ["PATH"]
            asks = "import mesonpy, sys; sys.exit(bool(mesonpy.get_requires_for_build_wheel()))"
            if subprocess.run([python, "-c", asks], env=dict(os.environ, PATH=path),
                              stderr=subprocess.DEVNULL).returncode == 0:
                return python
    return None


def can_cross_build(triplet):
    return triplet and shutil.which(triplet + "-gcc") and all(
        os.path.exists("/usr/lib/%s/lib%s.a" % (triplet, name)) for name in ("jansson", "png", "jpeg"))


def emulator_of(architecture):
    """The command that runs programs of an architecture, or None."""
    if architecture == HERE:
        return []
    _, emulator, triplet = MACHINES[architecture]
    if not shutil.which(emulator):
        return None
    # libc of the cross compiler, if that of the architecture is not installed itself.
    loaders = glob.glob("/lib/ld-linux-%s.so.*" % {"armv7l": "armhf"}.get(architecture, architecture))
    return [emulator] if loaders else [emulator, "-L", "/usr/" + triplet]


def built(folder):
    """Wheels for this machine and others, made by wheel.sh."""
    python = builder()
    if python is None:
        print("no Python with meson-python; sh platform/package/wheel.sh makes build-wheel-tools")
        return []
    wheels = []
    for architecture, (_, _, triplet) in MACHINES.items():
        if architecture == HERE or can_cross_build(triplet):
            done = subprocess.run(["sh", os.path.join(ROOT, "platform", "package", "wheel.sh"), architecture,
                                   folder], capture_output=True, text=True,
                                  env=dict(os.environ, PYTHON=python, PIP_NO_INDEX="1"))
            if done.returncode:
                raise SystemExit(done.stderr[-4000:])
            wheels.append(done.stdout.strip())
        else:
            print("no wheel for %s: no cross compiler and libraries for it" % architecture)
    return wheels


class Wheels(unittest.TestCase):
    wheels = []

    def each(self):
        for path in self.wheels:
            architecture = re.search(r"manylinux_\d+_\d+_(\w+)\.whl$", path)
            self.assertTrue(architecture, path)
            print(os.path.basename(path))
            yield path, architecture.group(1)

    def unpacked(self, path):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(folder.name)
        program = os.path.join(folder.name, "fovea", "bin", "fovea")
        os.chmod(program, 0o755)
        return folder.name, program

    def test_there_are_some(self):
        if not self.wheels:
            self.skipTest("nothing to look at")

    def test_name_and_content(self):
        sources = {os.path.relpath(os.path.join(folder, name), os.path.join(ROOT, "python"))
                   for folder, _, names in os.walk(os.path.join(ROOT, "python", "fovea"))
                   for name in names if name.endswith((".py", "py.typed"))}
        for path, _ in self.each():
            self.assertIn("-py3-none-manylinux_", path)
            self.assertLessEqual(os.path.getsize(path), MOST)
            with zipfile.ZipFile(path) as wheel:
                names = set(wheel.namelist())
                info = next(n for n in names if n.endswith("/METADATA")).split("/")[0]
                inside = {n for n in names if not n.startswith(info) and "/licences/" not in n}
                self.assertEqual(inside, sources | {"fovea/libfovea.so", "fovea/bin/fovea"})
                self.assertTrue(any(n.endswith("/LICENSE") for n in names))
                licences = " ".join(n for n in names if "/licences/" in n)
                for library in "jansson", "png", "jpeg", "zlib":
                    self.assertIn(library, licences)
                self.assertTrue(wheel.getinfo("fovea/bin/fovea").external_attr >> 16 & 0o100)

    def test_what_it_needs_of_a_system(self):
        for path, architecture in self.each():
            done = subprocess.run([sys.executable, TAGGER, "--needs", path], capture_output=True, text=True,
                                  check=True)
            glibc, *libraries = done.stdout.splitlines()
            self.assertIn(glibc.replace("glibc ", "manylinux_").replace(".", "_") + "_" + architecture, path)
            for library in libraries:
                self.assertRegex(library, r"^(libc\.so\.6|libm\.so\.6|ld-linux.*)$")

    def test_machine_and_run_path(self):
        for path, architecture in self.each():
            folder, program = self.unpacked(path)
            for file in program, os.path.join(folder, "fovea", "libfovea.so"):
                said = subprocess.run(["readelf", "--file-header", "--dynamic", "--wide", file],
                                      capture_output=True, text=True, check=True).stdout
                self.assertRegex(said, r"Machine: +" + MACHINES[architecture][0])
                paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", said)
                self.assertEqual(paths, ["$ORIGIN/.."] if file == program else [])

    def test_program(self):
        """The program reads PNG, and its features are those of this machine's program, in an emulator too."""
        features = {}
        for path, architecture in self.each():
            emulator = emulator_of(architecture)
            if emulator is None:
                print("%s is not run: no %s" % (architecture, MACHINES[architecture][1]))
                continue
            folder, program = self.unpacked(path)
            picture = os.path.join(folder, "picture.png")
            with open(picture, "wb") as file:
                file.write(png(np.random.default_rng(1).integers(0, 256, (70, 84, 3), np.uint8)))
            out = os.path.join(folder, "features.npy")
            done = subprocess.run([*emulator, program, "run", MODEL, picture, "--features", out],
                                  capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            features[architecture] = np.load(out)
        for other in features.values():
            np.testing.assert_allclose(other, next(iter(features.values())), atol=1e-4)

    def test_a_fresh_environment(self):
        for path, architecture in self.each():
            if architecture != HERE:
                continue
            with tempfile.TemporaryDirectory() as folder:
                # numpy is the system's, because there may be no network.
                subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder], check=True)
                python = os.path.join(folder, "bin", "python")
                subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", path],
                               check=True)
                bare = {"PATH": "/nonexistent", "HOME": folder}
                done = subprocess.run([python, USER, MODEL], capture_output=True, text=True, env=bare, cwd=folder)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(" of " + folder, done.stdout)
                for command in [python, "-m", "fovea"], [os.path.join(folder, "bin", "fovea")]:
                    done = subprocess.run([*command, "info"], capture_output=True, text=True, env=bare, cwd=folder)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("cpu", done.stdout)


if __name__ == "__main__":
    given = [os.path.abspath(path) for path in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as made:
        Wheels.wheels = given or built(made)
        counted.main()
