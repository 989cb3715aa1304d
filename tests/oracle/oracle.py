#!/usr/bin/env python3
"""oracle.py - what was recorded, worked out again: of shim/trace/schema.sql's description, and no code of the recorder's. BUILD is the
build directory.

    oracle.py seeds FIRST COUNT [-j N] [--keep DIR]   random programs: run each, check its recording
    oracle.py check DB [LOG]                          one recording; LOG: what the program says it did
    oracle.py mutate TRIES SEED...                    proof that it can fail: see mutate.py
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mutate import prove
from ooms import Ooms
from recording import Recording
from replay import Replay
from tables import Tables
from truth import Truth
from unused import Unused
from views import Views

BUILD = pathlib.Path(os.environ.get("BUILD", "build/release")).resolve()


def judge(db, log, complain):
    recording = Recording(db)
    replay = Replay(recording, complain)
    for part in (Tables, Ooms, Views):
        part(recording, replay, complain).check()
    if log:
        Truth(recording, replay, log, complain).check()
    return recording


def check(db, log=None):
    """The list of complaints about one recording."""
    found = []
    recording = judge(db, log, found.append)
    Unused(recording, found.append).check(BUILD / "bin/vramscope", db)
    recording.db.close()
    return found


class Complaint(Exception):
    pass


def check_file(db, log):
    """The first complaint, without what the commands show of it."""

    def complain(what):
        raise Complaint(what)

    try:
        judge(db, log, complain).db.close()
    except Complaint as complaint:
        return [str(complaint)]
    return []


def environment(seed, directory):
    shim = BUILD / "lib/libvramscope.so"
    env = dict(os.environ, LD_LIBRARY_PATH=str(BUILD / "sim"), LD_PRELOAD=str(shim), NVTX_INJECTION64_PATH=str(shim),
               VRAMSCOPE_OUTPUT=f"{directory}/run.db", VRAMSCOPE_JOURNAL_DIR=str(directory), SIMCUDA_BANNER="0")
    env |= {"VRAMSCOPE_RING_EVENTS": "65536", "VRAMSCOPE_EXIT_MS": "60000"}  # all of it, on a busy machine as well
    env["VRAMSCOPE_STACKS"] = ("driver", "off", "all", "driver")[seed % 4]
    env["VRAMSCOPE_SAMPLE_MS"] = ("100", "0", "1")[seed % 3]
    return env


def run_seed(seed, keep=None):
    """Complaints about the recording of one random program."""
    directory = keep or tempfile.mkdtemp(prefix="vramscope-oracle.")
    try:
        done = subprocess.run([BUILD / "tests/prog_random", str(seed), f"{directory}/log"], env=environment(seed, directory),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=100, text=True)
        if done.returncode:
            return [f"the program ended with {done.returncode}: {done.stderr.strip()[-300:]}"]
        found = check(f"{directory}/run.db", f"{directory}/log")
        for other in pathlib.Path(directory).glob("run?*.db"):  # of the process that shared memory with it
            found += [f"{other.name}: {f}" for f in check(other)]
        return found
    except Exception as problem:  # a database that cannot even be read is a finding too
        return [f"{type(problem).__name__}: {problem}"]
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def seeds(first, count, jobs, keep):
    failed = 0
    here = os.path.relpath(__file__)
    with ProcessPoolExecutor(jobs) as pool:
        for seed, found in zip(range(first, first + count), pool.map(run_seed, range(first, first + count), [keep] * count, chunksize=4)):
            if not found:
                continue
            failed += 1
            print(f"seed {seed}: {len(found)} disagreements, as: BUILD={BUILD} {here} seeds {seed} 1 --keep DIR")
            for f in found[:5]:
                print(f"    {f}")
    print(f"{count} seeds, {failed} of them disagree")
    return failed != 0


def mutations(tries, chosen):
    with tempfile.TemporaryDirectory(prefix="vramscope-oracle.") as directory:
        recordings = []
        for seed in chosen:
            os.mkdir(f"{directory}/{seed}")
            found = run_seed(seed, f"{directory}/{seed}")
            if found:
                print(f"seed {seed} disagrees before anything is changed: {found[0]}")
                return True
            recordings.append((f"{directory}/{seed}/run.db", f"{directory}/{seed}/log"))
        return not prove(recordings, tries, check_file, directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("check")
    one.add_argument("db")
    one.add_argument("log", nargs="?")
    many = commands.add_parser("seeds")
    many.add_argument("first", type=int)
    many.add_argument("count", type=int)
    many.add_argument("-j", type=int, default=os.cpu_count())
    many.add_argument("--keep", help="directory for database and log (one seed)")
    proof = commands.add_parser("mutate")
    proof.add_argument("tries", type=int)
    proof.add_argument("seeds", type=int, nargs="+")
    a = parser.parse_args()
    if a.command == "check":
        found = check(a.db, a.log)
        print("\n".join(found) or "all agree")
        return bool(found)
    if a.command == "mutate":
        return mutations(a.tries, a.seeds)
    if a.keep:
        os.makedirs(a.keep, exist_ok=True)
    return seeds(a.first, a.count, a.j, a.keep)


if __name__ == "__main__":
    sys.exit(main())
