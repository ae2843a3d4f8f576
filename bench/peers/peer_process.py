"""peer_process.py: runs one engine with one model in a separate process, so that its memory can be measured.
Linux only."""
import ctypes
import errno
import multiprocessing
import os
import signal
import time

import peer_engines

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
SECCOMP_MODE_FILTER, SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 2, 0x00050000, 0x7fff0000
ARCH_PRCTL, ARCH_REQ_XCOMP_PERM = 158, 0x1023  # of x86-64
SPAWN = multiprocessing.get_context("spawn")


class Failed(Exception):
    """Raised when the process ended; contains its last output."""


class Process:
    """The engine's process. It is stopped while other engines are measured, so that none of its threads spins."""

    def __init__(self, job, pixels, folder):
        stem = os.path.join(folder, "%s-%s-%s" % (job.peer, job.attention, job.precision))
        self.rows, self._log = stem + ".npy", stem + ".log"
        open(self._log, "w").close()
        self._commands, other = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_work, args=(other, self._log, job, pixels, self.rows))
        self._process.start()
        other.close()
        try:
            self.opened = self._answer()
            os.kill(self._process.pid, signal.SIGSTOP)
        except Failed:
            self.close()
            raise

    def turn(self, runs, warm):
        """Returns the seconds of each run, and the memory so far; with `warm`, an untimed run precedes them."""
        os.kill(self._process.pid, signal.SIGCONT)
        self._commands.send((runs, warm))
        answer = self._answer()
        os.kill(self._process.pid, signal.SIGSTOP)
        return answer

    def close(self):
        self._process.kill()
        self._process.join()
        self._commands.close()

    def _answer(self):
        try:
            return self._commands.recv()
        except EOFError:
            self._process.join()
            with open(self._log) as f:
                words = f.read().strip().splitlines()
            raise Failed(words[-1] if words else "exit status %d" % self._process.exitcode) from None


# ---- in that process ----

def _status(field):
    """A line of /proc/self/status, in bytes."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(field + ":"))


def _forget_peak():
    """Resets the peak of resident memory, if the kernel supports that."""
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        pass


def _timed(run, pixels):
    begin = time.perf_counter()
    run(pixels)
    return time.perf_counter() - begin


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("of", ctypes.POINTER(_Instruction))]


def refuse_amx(libc):
    """Makes the kernel refuse AMX to this process: Linux permits AMX only after a request by arch_prctl, which a
    seccomp filter rejects. An engine that relied on CPUID alone would crash at its first AMX instruction."""
    # BPF opcodes: load a word of the call's data; compare it with k; return a value
    load, equal, answer = 0x20, 0x15, 0x06
    program = (_Instruction * 6)((load, 0, 0, 0), (equal, 0, 3, ARCH_PRCTL),
                                 (load, 0, 0, 16), (equal, 0, 1, ARCH_REQ_XCOMP_PERM),
                                 (answer, 0, 0, SECCOMP_RET_ERRNO | errno.EOPNOTSUPP),
                                 (answer, 0, 0, SECCOMP_RET_ALLOW))
    of = _Filter(len(program), program)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
                                                                 ctypes.byref(of)):
        raise OSError("AMX cannot be refused: the kernel takes no seccomp filter")


def _work(commands, log, job, pixels, rows):
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # ends with its parent, even while it is stopped
    said = open(log, "a")
    for stream in (1, 2):
        os.dup2(said.fileno(), stream)
    if not job.amx:
        refuse_amx(libc)
    os.environ.update(OMP_NUM_THREADS=str(job.threads), MKL_NUM_THREADS=str(job.threads))
    import numpy as np
    pixels = np.load(pixels)
    load = peer_engines.peer(job.peer).prepare(job)

    before = _status("VmRSS")
    begin = time.perf_counter()
    run, says = load()
    opened = time.perf_counter() - begin
    first = _timed(lambda p: np.save(rows, run(p)), pixels)
    highest = _status("VmHWM")
    _forget_peak()
    commands.send({"open_s": opened, "first_s": first, "before": before, "highest": highest, "says": says})

    while True:
        runs, warm = commands.recv()
        if warm:
            run(pixels)
        seconds = [_timed(run, pixels) for _ in range(runs)]
        peak = _status("VmHWM")
        commands.send({"seconds": seconds, "running": peak, "highest": max(highest, peak)})
