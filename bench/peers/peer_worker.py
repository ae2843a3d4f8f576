#!/usr/bin/env python3
"""peer_worker.py: one engine with one model in a process of its own, so that its memory is its own.

Started by peers.py, on Linux; it ends with it. The first line of standard input is the job, as JSON; each
later one a turn: how many runs are to be timed, and whether one goes before that is not. Answers are lines
of JSON.
"""
import ctypes
import json
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1


def status(field):
    """A line of /proc/self/status, in bytes."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(field + ":"))


def forget_peak():
    """Starts the peak of resident memory anew; false where the kernel has no way to."""
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        return True
    except OSError:
        return False


def timed(run, pixels):
    begin = time.perf_counter()
    run(pixels)
    return time.perf_counter() - begin


def main():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # stopped as it may be
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an engine prints is not an answer

    def answer(**values):
        print(json.dumps(values), file=answers, flush=True)

    import numpy as np
    import peer_engines
    job = json.loads(sys.stdin.readline())
    job, pixels_file, rows_file = peer_engines.Job(**job["job"]), job["pixels"], job["rows"]
    pixels = np.load(pixels_file)
    load = peer_engines.peer(job.peer).prepare()

    before = status("VmRSS")
    begin = time.perf_counter()
    run = load(job)
    opened = time.perf_counter() - begin
    first = timed(lambda p: np.save(rows_file, run(p)), pixels)
    highest = status("VmHWM")
    forget_peak()
    answer(open_s=opened, first_s=first, before=before)

    for line in sys.stdin:
        turn = json.loads(line)
        if turn["warm"]:
            run(pixels)
        seconds = [timed(run, pixels) for _ in range(turn["runs"])]
        peak = status("VmHWM")
        answer(seconds=seconds, running=peak, highest=max(highest, peak))


if __name__ == "__main__":
    main()
