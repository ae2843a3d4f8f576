#!/usr/bin/env python3
"""drivers.py: runs Fovea on OpenCL drivers that it fetches, and on those of the machine, and prints a table.

    drivers.py path/to/build [NAME] [--all]

NAME selects the drivers whose names contain it, and --all runs every golden case instead of a sample. Intel's runtime comes from Python's package index, other drivers
from Debian's releases, each in a Debian of its own; all of them are unpacked in build/drivers, and nothing is
installed. Debian's releases need root and debootstrap. A driver that cannot be fetched is skipped.

Of each driver the table states how many golden operators and models are right, for how many types `fovea verify`
finds every step of a model right, the seconds until the first frame of a model (without compiled kernels, and with
them), the milliseconds of a frame with float32 and with float16 weights, and how many processes ended without a
message of Fovea or ran longer than the limit. After a few of the latter, the driver's other cases are not run. Lines
above the table name every case that failed. Standard library only.
"""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "models"))
import test_devices
import test_golden

LIMIT = 180  # seconds of processor time of one process
MAX_WAIT = 4 * LIMIT  # seconds of one process that waits for others, or for nothing
MAX_HUNG = 3  # processes that may reach the limit, before the driver's other cases are left out
MODELS, OPERATORS = 6, 8  # one in this number of golden cases is run
TYPES = {"f32": ["--compute", "f32"], "f16": ["--dtype", "f16"], "bf16": ["--dtype", "bf16"],
         "int8": ["--compute", "int8"]}
TIMED = ["bench", "model", "synthetic:dinov2-s", "--size", "224", "--runs", "1", "--warmup", "0", "--verify", "off",
         "--device", "cl:0", "-o", "json"]
INTEL = ["intel-opencl-rt==2026.2.0", "intel-cmplr-lib-rt==2026.2.0", "tbb==2023.2.0", "tcmlib==1.6.0", "umf==1.2.0"]
LLVMPIPE = {"RUSTICL_ENABLE": "llvmpipe"}
ZINK = {"RUSTICL_ENABLE": "llvmpipe", "GALLIUM_DRIVER": "zink", "LIBGL_ALWAYS_SOFTWARE": "1"}


class Missing(Exception):
    """The driver is not available here; the text says why."""


class Machine:
    """Runs programs with a driver of this machine, or one unpacked in a folder."""

    def __init__(self, libraries=None):
        self.libraries = libraries

    def command(self, arguments, environment, shared):
        given = dict(environment)
        if self.libraries:
            given["LD_LIBRARY_PATH"] = self.libraries
        return ["env"] + ["%s=%s" % pair for pair in given.items()] + arguments

    def library(self, name):
        """The driver's library, as an .icd file names it."""
        path = "/etc/OpenCL/vendors/%s.icd" % name
        if self.libraries:
            return os.path.join(self.libraries, name)
        if not os.path.exists(path):
            raise Missing("this machine has no " + path)
        with open(path) as f:
            return f.read().strip()


class Box:
    """Runs programs in a folder with a release of Debian."""

    def __init__(self, release, folder):
        self.release, self.folder = release, folder

    def script(self, folder, *arguments):
        return ["unshare", "-m", "sh", os.path.join(HERE, "driver_box.sh"), self.release, folder, *arguments]

    def command(self, arguments, environment, shared):
        return self.script(self.folder, "run", " ".join(shared), "env",
                           *("%s=%s" % pair for pair in environment.items()), *arguments)

    def library(self, name):
        with open("%s/etc/OpenCL/vendors/%s.icd" % (self.folder, name)) as f:
            return f.read().strip()


def fetch_intel(folder):
    """Intel's runtime for processors, from Python's package index."""
    if not os.path.isdir(folder):
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        need([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", part + "/wheels"] + INTEL)
        # pip leaves the folder lib of such wheels out if it installs to a folder.
        for name in os.listdir(part + "/wheels"):
            with zipfile.ZipFile(os.path.join(part, "wheels", name)) as wheel:
                for member in wheel.infolist():
                    head, found, rest = member.filename.partition(".data/data/lib/")
                    if found and rest and "/" not in rest:
                        os.makedirs(part + "/lib", exist_ok=True)
                        with wheel.open(member) as source, open(os.path.join(part, "lib", rest), "wb") as target:
                            shutil.copyfileobj(source, target)
        shutil.rmtree(part + "/wheels")
        os.rename(part, folder)
    return Machine(folder + "/lib")


def fetch_debian(folder):
    """A release of Debian with the drivers that it has; the folder's name is the release's."""
    box = Box(os.path.basename(folder), folder)
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Missing("a Debian of its own needs root, and the right to mount")
    if not os.path.isdir(folder):
        if not shutil.which("debootstrap"):
            raise Missing("debootstrap is not installed (apt-get install debootstrap)")
        shutil.rmtree(folder + ".part", ignore_errors=True)
        need(box.script(folder + ".part", "make"))
        os.rename(folder + ".part", folder)
    return box


def need(command):
    """Runs a command without which a driver cannot be fetched."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        raise Missing("%s failed: %s" % (command[0], (done.stdout.strip().splitlines() or ["no output"])[-1]))


# Name, what provides it, the name of the .icd file or library, environment.
DRIVERS = [
    ("pocl", None, "pocl", {}),
    ("rusticl", None, "rusticl", LLVMPIPE),
    ("intel", "intel", "libintelocl.so", {}),
    *[(name + "-" + release, release, icd, environment) for release in ("trixie", "sid")
      for name, icd, environment in (("pocl", "pocl", {}), ("rusticl", "rusticl", LLVMPIPE), ("zink", "rusticl", ZINK))],
]


def provide(provider, folder):
    if provider is None:
        return Machine()
    return (fetch_intel if provider == "intel" else fetch_debian)(os.path.join(folder, provider))


def end_of(text):
    """The end of a process's messages, in one line."""
    return " ".join(text.split())[-240:]


class Launcher:
    """Runs the program on one driver, with limits of time, and counts the processes that ended badly."""

    def __init__(self, command, limit=LIMIT, wait=MAX_WAIT):
        self.command, self.limit, self.wait = command, limit, wait
        self.ended, self.hung, self.output = 0, 0, ""

    def __call__(self, arguments):
        """Exit status and message of a process, as test_golden.launch returns them."""
        process = subprocess.Popen(self.command(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", start_new_session=True,
                                   preexec_fn=lambda: resource.setrlimit(
                                       resource.RLIMIT_CPU, (self.limit, self.limit + 1)))
        try:
            self.output, errors = process.communicate(timeout=self.wait)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.hung += 1
            return -1, "no result after %d s" % self.wait
        if process.returncode in (-signal.SIGXCPU, 128 + signal.SIGXCPU):
            self.hung += 1
            return -1, "no result after %d s of processor time" % self.limit
        by_signal = process.returncode < 0 or process.returncode > 128
        if by_signal or (process.returncode and "fovea: " not in errors and not self.output):
            self.ended += 1
            return -1, "the process ended, status %d: %s" % (process.returncode, end_of(errors))
        return process.returncode, end_of(errors or self.output)

    def gave_up(self):
        return self.hung >= MAX_HUNG


class Row:
    """What one driver's runs gave."""

    def __init__(self, name):
        self.name, self.version = name, ""
        self.right = {"operators": 0, "models": 0, "types": 0}
        self.tried = dict.fromkeys(self.right, 0)
        self.left_out = 0
        self.times = {}
        self.failures = []
        self.ended = self.hung = 0

    def add(self, kind, name, bad):
        self.tried[kind] += 1
        self.right[kind] += not bad
        if bad:
            self.failures.append("%s, %s: %s" % (self.name, name, bad))

    def cells(self):
        def of(kind):
            return "%d/%d" % (self.right[kind], self.tried[kind])

        def pair(first, second, form):
            return ", ".join(form % self.times[k] if k in self.times else "-" for k in (first, second))

        return [self.name + (": " + self.version if self.version else ""), of("operators"), of("models"), of("types"),
                pair("first", "second", "%.1f"), pair("f32", "f16", "%.0f"), str(self.ended), str(self.hung),
                str(self.left_out)]


HEAD = ["driver", "operators", "models", "types", "start: first, second (s)", "frame: f32, f16 (ms)", "ended",
        "hung", "not run"]


def table(rows):
    lines = [HEAD, ["---"] + ["---:"] * (len(HEAD) - 1)] + [row.cells() for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def selected(cases, every_case):
    """The golden cases to run: (kind, case)."""
    models = [c for c in cases if c.name.startswith("models/")]
    operators = [c for c in cases if not c.name.startswith("models/") and not c.long]
    steps = (1, 1) if every_case else (OPERATORS, MODELS)
    return [("operators", c) for c in operators[::steps[0]]] + [("models", c) for c in models[::steps[1]]]


def timed(row, launch, exe, key, options, start):
    """Measures a frame, and the time from opening the device to the end of the first frame."""
    code, message = launch([exe] + TIMED + options)
    if code == 0:
        got = json.loads(launch.output)[0]
        row.times[key] = got["p50_ms"]
        if start:
            row.times[start] = (got["open_ms"] + got["plan_ms"] + got["first_ms"]) / 1000
    else:
        row.failures.append("%s, a frame of %s: %s" % (row.name, key, message))


def run_driver(row, launch, exe, cases, folder):
    """Fills a row."""
    timed(row, launch, exe, "f32", TYPES["f32"], "first")
    timed(row, launch, exe, "f32", TYPES["f32"], "second")
    timed(row, launch, exe, "f16", TYPES["f16"], None)
    for kind, case in cases:
        for extra in test_devices.options(case):
            if launch.gave_up():
                row.left_out += 1
                continue
            code, message, got = test_golden.run(case.command, ["--device", "cl:0"] + extra, folder, launch)
            if code in test_golden.REFUSALS and not case.must_work:
                continue
            row.add(kind, " ".join([case.name] + extra), message if code else case.compare(got))
    for name, options in TYPES.items():
        if launch.gave_up():
            row.left_out += 1
            continue
        code, message = launch([exe, "verify", "synthetic:vit-ti16", "--size", "64", "--device", "cl:0"] + options)
        row.add("types", "verify " + name, message if code else None)
    row.ended, row.hung = launch.ended, launch.hung


def try_driver(name, provider, icd, environment, exe, shared, folder, cases):
    """The row of a driver."""
    place = provide(provider, folder)
    work = os.path.join(folder, "work", name)  # nothing here was compiled before
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work + "/vendors")
    with open(work + "/vendors/one.icd", "w") as f:
        f.write(place.library(icd) + "\n")
    given = dict(environment, OCL_ICD_VENDORS=work + "/vendors", HOME=work, FOVEA_CACHE=work + "/kernels",
                 FOVEA_WISDOM="", FOVEA_WEIGHTS_CACHE="")
    launch = Launcher(lambda arguments: place.command(arguments, given, shared))
    row = Row(name)
    code, message = launch([exe, "info", "--json"])
    info = {} if code else json.loads(launch.output)
    found = [d for d in info.get("devices", []) if d["id"] == "cl:0"]
    if not found:
        said = [message] if code else [line for line in info["remarks"] if line.startswith("cl:")]
        row.failures.append("%s: no device: %s" % (name, " ".join(said)))
        return row
    row.version = found[0]["driver"]
    run_driver(row, launch, exe, cases, work)
    return row


def main(build, *options):
    match = ([o for o in options if o != "--all"] + [""])[0]
    build = os.path.abspath(build)
    exe, folder = os.path.join(build, "src", "cli", "fovea"), os.path.join(build, "drivers")
    os.makedirs(folder, exist_ok=True)
    chosen = [driver for driver in DRIVERS if match in driver[0]]
    if not chosen:
        raise SystemExit("no driver has a name like %s; there are %s" % (match, ", ".join(d[0] for d in DRIVERS)))
    shared = sorted({test_golden.ROOT, build, test_golden.golden_folder()})
    cases = selected(test_golden.cases(exe, ""), "--all" in options)
    rows, skipped = [], 0
    for name, provider, icd, environment in chosen:
        try:
            row = try_driver(name, provider, icd, environment, exe, shared, folder, cases)
        except Missing as reason:
            skipped += 1
            print("%s skipped: %s" % (name, reason), flush=True)
            continue
        rows.append(row)
        print("\n".join(row.failures + ["| " + " | ".join(row.cells()) + " |"]), flush=True)
    print("\n" + table(rows) + "\n")
    print("%d passed, %d failed, %d skipped"
          % (sum(sum(row.right.values()) for row in rows), sum(len(row.failures) for row in rows), skipped))
    return 1 if any(row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
