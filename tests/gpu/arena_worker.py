"""arena_worker.py TREE NAME DATABASE PROGRAM... - becomes that program, under the allocator NAME; as a module, processes under each
allocator that take turns.

native, expandable and async are PyTorch's own; nocache is PyTorch without any; arena is `vramscope run --allocator=arena`;
nocache-arena is nocache with the arena under cudaMalloc. "+recorded" runs PyTorch's own under `vramscope run`, "+quiet" the arena
without recording and without the phases' hooks.

All Workers are started at once, since importing PyTorch takes longer than what is measured; each answers commands with lines of
JSON.
"""
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

NAMES = {
    "native": "torch native",
    "expandable": "torch expandable_segments",
    "async": "torch cudaMallocAsync",
    "arena": "arena",
    "arena+quiet": "arena, not recording",
    "nocache": "no caching",
    "nocache-arena": "no caching, arena",
    "nocache-arena+quiet": "no caching, arena, not recording",
    "native+recorded": "torch native, recorded",
}
CONF = {"native": None, "expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}


def clean():
    drop = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "LD_PRELOAD")
    env = {k: v for k, v in os.environ.items() if k not in drop and not k.startswith("VRAMSCOPE_")}
    return dict(env, PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1")


def command(tree, name, database, program):
    env, argv = clean(), [sys.executable] + program
    base, _, how = name.partition("+")
    run = [os.path.join(tree, "bin/vramscope"), "run", "-q", "-o", database]
    if how == "quiet":
        run += ["--start-off", "--no-auto-phases", "--no-nvtx"]
    if CONF.get(base):
        env["PYTORCH_CUDA_ALLOC_CONF"] = env["PYTORCH_ALLOC_CONF"] = CONF[base]
    if base.startswith("nocache"):
        env["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    if base == "nocache-arena":
        env.update(VRAMSCOPE_ALLOCATOR="arena", VRAMSCOPE_ARENA_FREE="defer", VRAMSCOPE_OUTPUT=database, VRAMSCOPE_STACKS="off",
                   VRAMSCOPE_ENABLED="off" if how == "quiet" else "on", LD_PRELOAD=os.path.join(tree, "lib/libvramscope.so"))
    elif base == "arena":
        argv = run + ["--allocator=arena", "--"] + argv
    elif how == "recorded":
        argv = run + ["--"] + argv
    return argv, env


def start(tree, name, program, path, **env):
    """A worker under the allocator NAME; PATH.db is its recording, PATH.log its standard error."""
    argv, own = command(tree, name, path + ".db", program)
    return Worker(argv, {**own, **env}, path + ".log")


def folder(out, name):
    """An empty one, for recordings and logs."""
    path = os.path.join(out, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


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


if __name__ == "__main__":
    argv, env = command(*sys.argv[1:4], sys.argv[4:])
    os.execvpe(argv[0], argv, env)
