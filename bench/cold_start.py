#!/usr/bin/env python3
"""cold_start.py: measures the time from the start of a process to its first frame, with and without the
cache of packed weights.

    ninja -C build bench/cold_start
    cold_start.py [--size N] [--threads N] [--rounds N] [--no-disk] [MODEL | dinov2-s | dinov2-b | dinov2-l]

MODEL is a folder; the names stand for a checkpoint of that size with random weights. Prints the medians
of several rounds, in which these cases alternate:

    nothing kept    the cache is empty: weights are packed
    weights kept    packed weights are mapped from the cache
    ... from disk   the same, with none of the files' pages in memory

Also prints the memory of two such processes that run at the same time, from /proc/PID/smaps_rollup: private
pages of each, and pages that both share. Needs numpy, Linux, and an otherwise idle machine.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import vit_checkpoint  # noqa: E402


class Process:
    """A process that has run its frames and waits for commands."""

    def __init__(self, program, arguments, cache):
        environment = dict(os.environ, FOVEA_WEIGHTS_CACHE=cache, FOVEA_WISDOM="", FOVEA_RIGOR="estimate")
        begin = time.clock_gettime(time.CLOCK_MONOTONIC)
        self.child = subprocess.Popen([program, *arguments, "%.9f" % begin], env=environment, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit("cold_start failed")
        self.ready, self.first, self.frame = map(float, line.split())

    def memory(self):
        """MiB of memory: (of this process alone, shared with others)."""
        total = {}
        with open("/proc/%d/smaps_rollup" % self.child.pid) as file:
            for line in list(file)[1:]:
                key, kilobytes = line.split()[:2]
                total[key[:-1]] = int(kilobytes) / 1024
        return (total["Private_Clean"] + total["Private_Dirty"], total["Shared_Clean"] + total["Shared_Dirty"])

    def end(self):
        self.child.communicate()


def forget(folders):
    """Removes the files' pages from memory."""
    for folder in folders:
        for name in os.listdir(folder):
            fd = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def measure(program, arguments, ways, rounds):
    times = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (cache, forgotten) in ways.items():
            forget(forgotten)
            process = Process(program, arguments, cache)
            process.end()
            times[way].append((process.ready, process.first, process.frame))
    for way, rows in times.items():
        print("%-28s %12.3f %12.3f %12.3f" % (way, *(statistics.median(column) for column in zip(*rows))))


def compare_memory(program, arguments, caches):
    print("\n%-28s %12s %12s" % ("two processes, MiB of each", "its alone", "shared"))
    for way, cache in caches.items():
        both = [Process(program, arguments, cache) for _ in range(2)]
        alone, shared = map(statistics.mean, zip(*(process.memory() for process in both)))
        print("%-28s %12.0f %12.0f" % (way, alone, shared))
        for process in both:
            process.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default="dinov2-b")
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"))
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-disk", action="store_true")
    options = parser.parse_args()
    program = os.path.join(options.build, "bench", "cold_start")
    if not os.path.exists(program):
        raise SystemExit("%s not found; build it: ninja -C %s bench/cold_start" % (program, options.build))
    with tempfile.TemporaryDirectory() as folder:
        model, cache = options.model, os.path.join(folder, "cache")
        if model in vit_checkpoint.SIZES:
            model = os.path.join(folder, "model")
            vit_checkpoint.write(model, options.model)
            time.sleep(3)  # a file changed within the resolution of its time stamp cannot be recognised
        arguments = [model, str(options.size), str(options.threads)]
        first = Process(program, arguments, cache)
        first.end()
        kept = sum(os.stat(os.path.join(cache, name)).st_size for name in os.listdir(cache))
        print("%s at %d pixels; the first process, which writes %d files of %.0f MiB: %.3f s\n"
              % (options.model, options.size, len(os.listdir(cache)), kept / 2**20, first.first))
        ways = {"nothing kept": ("", []), "weights kept": (cache, [])}
        print("%-28s %12s %12s %12s" % ("seconds since the start", "plan ready", "first frame", "a later one"))
        measure(program, arguments, ways, options.rounds)
        if not options.no_disk:
            measure(program, arguments, {"nothing kept, from disk": ("", [model]),
                                         "weights kept, from disk": (cache, [model, cache])}, 3)
        compare_memory(program, arguments, {"nothing kept": "", "weights kept": cache})


if __name__ == "__main__":
    main()
