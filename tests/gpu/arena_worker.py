"""arena_worker.py - processes that take turns: each is started once, and works only when it is told to.

A worker reads commands from its standard input and answers each with lines of JSON.  So that several allocators can be
measured in turn within one run of the GPU, all are started at once (importing PyTorch takes longer than what is measured).
"""
import json
import os
import queue
import signal
import subprocess
import threading
import time


class Worker:
    def __init__(self, argv, env, log):
        self.log, self.answers, self.failed = log, queue.Queue(), None
        with open(log, "w") as errors:
            self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                                            start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.answers.put(json.loads(line))
        self.answers.put(None)

    def fail(self, why):
        self.failed = why
        try:  # what it started, too: `vramscope run` is not the program itself
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def answer(self, key, limit):
        """The next answer that has KEY; None where the worker failed."""
        end = time.monotonic() + limit
        while not self.failed:
            try:
                found = self.answers.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                self.fail(f"no answer within {limit:g} s")
                break
            if found is None:
                self.fail(f"ended with status {self.process.wait()}")
            elif key in found:
                return found
        return None

    def ask(self, command, key, limit):
        if self.failed:
            return None
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except OSError:
            self.fail(f"ended with status {self.process.wait()}")
            return None
        return self.answer(key, limit)

    def end(self, limit=20):
        """Lets it end by itself; its exit status."""
        if not self.failed:
            try:
                self.process.stdin.close()
                status = self.process.wait(limit)
                if status:
                    self.failed = f"ended with status {status}"
            except (subprocess.TimeoutExpired, OSError):
                self.fail(f"did not end within {limit} s")
        return self.process.returncode

    def last_words(self, lines=6):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, errors="replace") as file:
            return "".join("      | " + line for line in file.readlines()[-lines:])
