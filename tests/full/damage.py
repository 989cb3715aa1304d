#!/usr/bin/env python3
"""damage.py COUNT [SEED] - commands on spoiled databases, journals and ELF files: whatever the bytes, an answer or an error of a few lines, within
60 seconds and 2 GiB.
"""
import os
import pathlib
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
from oracle import BUILD, environment

VRAMSCOPE = str(BUILD / "bin/vramscope")
LIMIT_S, LIMIT_BYTES, LINES = 60, 2 << 30, 60
STATUSES = (0, 1, 2, 3)


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def program(directory, seed, times):
    env = environment(seed, directory) | {"VRAMSCOPE_RING_EVENTS": "65536"}  # the journal is copied for each try
    return subprocess.Popen([BUILD / "tests/prog_random", str(seed), f"{directory}/log", str(times)], env=env,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def good_database(directory):
    os.mkdir(directory)
    program(directory, 155, 1).wait()
    return f"{directory}/run.db"


def good_journal(directory):
    """A killed program's journal, and the database beside it."""
    os.mkdir(directory)
    process = program(directory, 23, 2000)  # longer than anything that comes now
    there = pathlib.Path(directory)
    while not (list(there.glob("*.vsj")) and (there / "run.db").exists()):
        assert process.poll() is None
        time.sleep(0.005)
    time.sleep(0.1)
    process.kill()
    process.wait()
    return directory


# ---- what is done to a file ----

def spoil(path, chance):
    size = os.path.getsize(path)
    with open(path, "r+b") as f:
        kind = chance.randrange(6)
        if kind == 0:
            os.truncate(path, chance.randrange(size + 1))
            return f"cut to {os.path.getsize(path)}"
        if kind == 1:
            f.seek(0, 2)
            f.write(chance.randbytes(chance.randrange(1, 10000)))
            return "lengthened"
        if kind == 2:  # the beginning decides most
            at = chance.randrange(min(size, 4096))
            f.seek(at)
            f.write(chance.randbytes(chance.randrange(1, 16)))
            return f"bytes at {at}"
        for _ in range(chance.choice((1, 3, 20, 200))):
            at = chance.randrange(size)
            length = 1 if kind == 3 else chance.randrange(1, 513)
            f.seek(at)
            f.write({3: chance.randbytes(1), 4: b"\xff" * length, 5: chance.randbytes(length)}[kind])
        return {3: "bytes", 4: "ones", 5: "blocks"}[kind]


def database(good, directory, chance):
    shutil.copyfile(good["database"], f"{directory}/run.db")
    what = spoil(f"{directory}/run.db", chance)
    return what, chance.choice((["report", "run.db"], ["report", "--json", "run.db"], ["peak", "run.db"], ["plot", "run.db"], ["view", "run.db"],
                                ["diff", "run.db", good["database"]], ["diff", good["database"], "run.db"]))


def journal(good, directory, chance):
    for file in pathlib.Path(good["journal"]).iterdir():
        shutil.copyfile(file, f"{directory}/{file.name}")
    (path,) = list(pathlib.Path(directory).glob("*.vsj"))
    # it names its database, which must be the copy
    data = path.read_bytes().replace(good["journal"].encode(), directory.encode())
    path.write_bytes(data)
    used = len(data.rstrip(b"\0"))
    os.truncate(path, max(used, 4096))
    what = spoil(path, chance)
    if chance.random() < 0.7:
        os.truncate(path, max(len(data), os.path.getsize(path)))
    return what, chance.choice((["recover", path.name], ["report", "run.db"]))


def elf(good, directory, chance):
    """The file that a module's row names is another one than it was."""
    shutil.copyfile(good["database"], f"{directory}/run.db")
    shutil.copyfile(BUILD / "tests/prog_random", f"{directory}/program")
    what = spoil(f"{directory}/program", chance)
    connection = sqlite3.connect(f"{directory}/run.db")
    connection.execute("UPDATE module SET path = ?, build_id = '' WHERE path LIKE '%prog_random'", (f"{directory}/program",))
    connection.execute("UPDATE frame SET function = NULL, file = NULL, line = NULL")
    connection.commit()
    connection.close()
    return what, chance.choice((["report", "run.db"], ["peak", "run.db"]))


# ---- ----

def one(seed, good, base):
    chance = random.Random(seed)
    directory = f"{base}/{seed % 10**7:07d}"  # as long as good["journal"]
    os.mkdir(directory)
    make = chance.choice((database, journal, elf))
    what, command = make(good, directory, chance)
    begin = time.monotonic()
    try:
        done = subprocess.run([VRAMSCOPE, *command], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, preexec_fn=limited)
        bad = None if done.returncode in STATUSES else f"ended with {done.returncode}"
        if done.stderr.count(b"\n") > LINES:
            bad = f"said {done.stderr.count(10)} lines on stderr"
    except subprocess.TimeoutExpired:
        bad = f"had not ended after {time.monotonic() - begin:.0f} s"
    if bad:
        kept = tempfile.mkdtemp(prefix="vramscope-damaged.")
        shutil.copytree(directory, kept, dirs_exist_ok=True)
        print(f"damage.py 1 {seed}: {make.__name__}, {what}: {' '.join(command)} {bad}; kept in {kept}")
    shutil.rmtree(directory)
    return bad is not None, make.__name__


def main():
    count = int(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    failed, kinds = 0, {}
    with tempfile.TemporaryDirectory(prefix="vramscope-damage.") as base:
        good = {"database": good_database(f"{base}/database"), "journal": good_journal(f"{base}/journal")}
        for seed in range(first, first + count):
            bad, kind = one(seed, good, base)
            failed += bad
            kinds[kind] = kinds.get(kind, 0) + 1
    print(f"{count} damaged files ({', '.join(f'{n} {k}' for k, n in sorted(kinds.items()))}), {failed} answered badly")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
