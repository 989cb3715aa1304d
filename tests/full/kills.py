#!/usr/bin/env python3
"""kills.py COUNT [SEED] - random programs (tests/oracle) killed at any moment, and the commands that complete their files killed as well, up to three
times.  The next report must find everything that was in the journal, as the independent oracle says, and a second one the same.
"""
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
from oracle import BUILD, check, environment

VRAMSCOPE = str(BUILD / "bin/vramscope")


def start(command, **more):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)


def kill_after(process, seconds):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


def run_and_kill(seed, directory, chance):
    process = start([BUILD / "tests/prog_random", str(seed), f"{directory}/log", "1000"], env=environment(seed, directory))
    until = time.monotonic() + 10
    while not list(pathlib.Path(directory).glob("*.vsj")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    return kill_after(process, chance.random() ** 2 * 0.1)


def complete(directory, chance):
    """The command, killed or not; how often it was."""
    killed = 0
    for _ in range(chance.randrange(4)):
        journals = list(pathlib.Path(directory).glob("*.vsj"))
        command = [VRAMSCOPE, "report", "--all", f"{directory}/run.db"]
        if journals and chance.random() < 0.4:
            command = [VRAMSCOPE, "recover", str(journals[0])]
        killed += kill_after(start(command), chance.random() ** 2 * 0.1)
    return killed


def report(directory):
    wide = dict(os.environ, COLUMNS="1000")  # a sentence is a line
    done = subprocess.run([VRAMSCOPE, "report", "--all", f"{directory}/run.db"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=wide)
    # who merges says so, and who comes later says how the process ended
    told = [line for line in done.stdout.splitlines() if not line.startswith(("recovered: ", "the process was killed, or left", "the process came to its exit"))]
    return done.returncode, told, done.stderr


def merged(db):
    connection = sqlite3.connect(db)
    (value,) = connection.execute("SELECT max(value) FROM meta WHERE key = 'journal_merged'").fetchone()
    connection.close()
    return value == 1


def names(journal, db):
    with open(journal, "rb") as f:  # its first bytes: the whole is many MiB
        return f"{db}\0".encode() in f.read(1 << 16)


def judge(directory):
    """Complaints, and whether the oracle was asked; None where there is nothing to judge: the kill came before the first
    event was on its way."""
    status, text, error = report(directory)
    if not os.path.exists(f"{directory}/run.db") or not os.path.getsize(f"{directory}/run.db"):
        return None, False
    if status not in (0, 3):
        return [f"report ended with {status}: {error.strip()[-200:]}"], False
    connection = sqlite3.connect(f"{directory}/run.db")
    (holes,) = connection.execute("SELECT count(*) FROM loss WHERE events > 0").fetchone()
    connection.close()
    left = [p for p in pathlib.Path(directory).glob("*.vsj") if names(p, f"{directory}/run.db")]
    # a command that was killed between its last commit and the removal leaves the journal, which is merged: nothing is lost
    found = [f"{p.name} is left behind" for p in left if not merged(f"{directory}/run.db")]
    if not holes:  # killed in the middle of an event, which is said: then no sum can agree
        found += check(f"{directory}/run.db")
    if report(directory)[1] != text:
        found.append("the second report says something else")
    return found, not holes


def main():
    count = int(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    failed = judged = programs = commands = 0
    for seed in range(first, first + count):
        directory = tempfile.mkdtemp(prefix="vramscope-kills.")
        chance = random.Random(seed)
        programs += run_and_kill(seed, directory, chance)
        commands += complete(directory, chance)
        found, whole = judge(directory)
        judged += whole
        if found:
            failed += 1
            print(f"kills.py 1 {seed}: {len(found)} disagreements; kept in {directory}")
            print("".join(f"    {f}\n" for f in found[:5]), end="")
        else:
            shutil.rmtree(directory)
    print(f"{count} programs, {programs} killed, {commands} commands killed, {judged} whole files judged, {failed} wrong")
    return failed != 0 or judged == 0


if __name__ == "__main__":
    sys.exit(main())
