"""peer_process.py: the other end of peer_worker.py: starts it, gives it turns, keeps it still in between."""
import dataclasses
import json
import os
import signal
import subprocess
import sys

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_worker.py")


class Failed(Exception):
    """The process ended; its last words."""


class Process:
    """One engine with one model. Between its turns it is stopped, so that no thread of it spins."""

    def __init__(self, job, pixels, folder):
        stem = os.path.join(folder, "%s-%s" % (job.peer, job.attention))
        self.rows = stem + ".npy"
        self._said = open(stem + ".log", "w+")
        environment = dict(os.environ, OMP_NUM_THREADS=str(job.threads), MKL_NUM_THREADS=str(job.threads))
        self._process = subprocess.Popen([sys.executable, WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=self._said, text=True, env=environment)
        try:
            self.opened = self._ask(job=dataclasses.asdict(job), pixels=pixels, rows=self.rows)
            self._signal(signal.SIGSTOP)
        except Failed:
            self.close()
            raise

    def turn(self, runs, warm):
        """Seconds of each run, and the memory so far."""
        self._signal(signal.SIGCONT)
        answer = self._ask(runs=runs, warm=warm)
        self._signal(signal.SIGSTOP)
        return answer

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._said.close()

    def _signal(self, number):
        self._process.send_signal(number)

    def _ask(self, **question):
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has said why
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._said.seek(0)
            words = self._said.read().strip().splitlines()
            raise Failed(words[-1] if words else "exit status %d" % status)
        return json.loads(line)
