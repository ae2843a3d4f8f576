#!/usr/bin/env python3
"""wheel_tag.py: names a wheel after the oldest glibc that has every symbol which its ELF files need.

    wheel_tag.py IN.whl FOLDER      writes it there as py3-none-manylinux_2_N; prints its name
    wheel_tag.py --needs IN.whl     lists what it needs of the system

What is inside knows nothing of Python's C interface, which meson-python takes for granted: one wheel is for
every Python 3. A wheel that needs a library which the systems of PEP 600 need not have is refused. Needs
readelf.
"""
import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile

# The libraries of PEP 600's list that are part of glibc.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2",
          "ld-linux-aarch64.so.1", "ld-linux-armhf.so.3"}
OLDEST = (2, 17)  # the first for which pip knows manylinux_2_N on every architecture


def readelf(option, data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return subprocess.run(["readelf", option, "--wide", file.name], capture_output=True, text=True,
                              check=True, env=dict(os.environ, LC_ALL="C")).stdout


def needs(wheel):
    """(libraries, (major, minor) of glibc) that the ELF files of an open wheel need."""
    own, libraries, glibc = set(), set(), OLDEST
    for name in wheel.namelist():
        data = wheel.read(name)
        if not data.startswith(b"\x7fELF"):
            continue
        own.add(os.path.basename(name))
        libraries.update(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", data)))
        for version in re.findall(r"\bGLIBC_(\d+(?:\.\d+)+)", readelf("--version-info", data)):
            glibc = max(glibc, tuple(int(n) for n in version.split(".")[:2]))
    return libraries - own, glibc


def record(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "%s,sha256=%s,%d\n" % (name, digest, len(data))


def renamed(wheel, path, tag):
    """Writes an open wheel to `path` with another tag."""
    records = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for info in wheel.infolist():
            data = wheel.read(info)
            if info.filename.endswith(".dist-info/RECORD"):
                data = (records + info.filename + ",,\n").encode()
            elif info.filename.endswith(".dist-info/WHEEL"):
                data = re.sub(rb"(?m)^Tag: .*$", b"Tag: " + tag.encode(), data)
            if not info.is_dir():
                records += record(info.filename, data)
            out.writestr(info, data, zipfile.ZIP_DEFLATED, 9)


def main(arguments):
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    listing = arguments[0] == "--needs"
    path = arguments[1 if listing else 0]
    with zipfile.ZipFile(path) as wheel:
        libraries, glibc = needs(wheel)
        if listing:
            print("glibc %d.%d" % glibc, *sorted(libraries), sep="\n")
            return
        foreign = libraries - SYSTEM
        if foreign:
            raise SystemExit("%s needs %s, which a system need not have; build it with -Dstatic_deps=true"
                             % (os.path.basename(path), ", ".join(sorted(foreign))))
        name, version, _, _, platform = os.path.basename(path)[:-4].split("-")
        tag = "py3-none-manylinux_%d_%d_%s" % (*glibc, platform.split("_", 1)[1])
        to = os.path.join(arguments[1], "%s-%s-%s.whl" % (name, version, tag))
        renamed(wheel, to, tag)
    print(to)


if __name__ == "__main__":
    main(sys.argv[1:])
