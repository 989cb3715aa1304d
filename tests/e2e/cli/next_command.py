#!/usr/bin/env python3
"""Each sentence that ends without a result names the next step: next_command.txt has what is typed, the sentence, and what a user types next.

That is made of words that were typed or stand in the sentence, of files' names and numbers, and works (typed by tests/run.sh full).  Every
sentence of the folders in HELD has a row, or a reason in UNTRIED.  UPDATE=1 writes the sentences into the table, to be read.
"""
import gzip
import os
import pickle
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.normpath(os.path.join(HERE, "../../.."))
BUILD = os.path.abspath(os.environ["BUILD"])
TABLE = os.path.join(HERE, "next_command.txt")
in_full = bool(os.environ.get("FULL"))  # tests/run.sh full types the next commands, too
HELD = ("analysis", "base", "cli", "export", "fit", "law", "plot", "read", "run", "show", "sweep")

CONFIG = b'''{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100,
"max_position_embeddings": 64}'''
# A user's program: 4 MiB on the driver that is found.
TRAIN = """import ctypes, sys
cuda, context, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4 << 20)) == 0
"""


def make_files(folder):
    """The files that rows name: recordings, what looks like one, and programs."""
    os.mkdir(folder)
    os.chdir(folder)

    def made(*words):
        subprocess.run([sys.executable, f"{SRC}/tests/data/make_db.py", f"{SRC}/shim/trace/schema.sql", *words], check=True)

    for name, *words in (
        ("good.db",), ("two.db", "--devices", "2", "--start", "9"), ("oom.db", "--kind", "oom"), ("none.db", "--kind", "empty"), ("killed.db", "--kind", "killed"),
        ("folded.db", "--kind", "thinned"), ("nosteps.db", "--steps", "0"), ("newer.db", "--schema-version", "99"), ("older.db", "--schema-version", "4"),
    ):
        made(name, *words)
    os.mkdir("job")
    for rank in "01":
        made(f"job/rank{rank}.db", "--rank", rank, "--world", "2")
    made("other.job.db", "--rank", "0", "--world", "2", "--start", "99")
    subprocess.run(["vramscope", "merge", "-o", "merged.db", "job"], check=True, stdout=subprocess.DEVNULL)
    with open("demo.db", "wb") as out:
        out.write(gzip.open(f"{BUILD}/share/vramscope/demo.db.gz").read())
    os.mkdir("empty")
    open("empty.db", "w").close()
    with open("good.db", "rb") as file:
        whole = file.read()
    for name, content in (
        ("text.db", b"hello, this is no database\n"), ("short.db", whole[:20000]), ("damaged.db", whole[:4096] + bytes(byte ^ 0x5A for byte in whole[4096:])),
        ("nothing.pickle", pickle.dumps({"segments": [], "device_traces": []}, 4)), ("junk.vsj", b"junk\n"), ("config.json", CONFIG), ("train.py", TRAIN.encode()),
        ("prog", b"#!/bin/sh\n"), ("half.json", b'{"a\0": 1}'), ("notes.json", b"nope\n"), ("moe.json", b'{"model_type": "mixtral"}\n'),
    ):
        with open(name, "wb") as out:
            out.write(content)
    for name, what in ("other.db", "TABLE t(x)"), ("view.db", "VIEW ev AS SELECT 1"):
        database = sqlite3.connect(name)
        database.execute("CREATE " + what)
        database.close()
    subprocess.run(["vramscope", "export", "--format=pytorch", "-o", "snapshot.pickle", "good.db"], check=True, stdout=subprocess.DEVNULL)
    shutil.copy("prog", "prog2")
    os.chmod("prog", 0o755)
    os.mkdir("nocuda")
    open("nocuda/libcuda.so.1", "w").close()  # of a machine with a driver, too


# Exit statuses by part of the sentence; else 2.
STATUS = {
    "fit: train.py": (2,), "command not found": (127,), "No such file or directory: is the name right": (127,), "can't be started: Permission": (126,), "top: no process": (3,), "resume: ": (3,), "junk.vsj is no journal": (3,),
    "nothing was recorded:": (0, 3, 127, -9), "Error: ": (1,),
}

# Words of a shell for words of a sentence.
SHELL = {"cp": "copy", "mkdir": "make its directory", "rm": "remove", "chmod": "chmod", "&&": "", "p": "make its directory", "git": ""}


def rows_of(text):
    """[typed, sentence, next] of each paragraph; the first is about the table itself."""
    return [paragraph.split("\n") for paragraph in text.strip().split("\n\n")[1:]]


def run(line, folder):
    done = subprocess.run(["bash", "-c", line], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    said = done.stderr.decode("utf-8", "replace").replace(folder, "/here").strip().split("\n")
    return done.returncode, said if line.startswith("vramscope") or "vramscope " in line else said[-1:]


def strange_words(line, before, folder):
    """Words of LINE that a user cannot have from BEFORE, nor from the files that are there."""
    strange, words = [], shlex.split(line)
    for at, word in enumerate(words):
        if at and words[at - 1] == "-o" and "-o" in before:  # any name
            continue
        for part in re.split(r"[=:,]|^--?", word):
            known = part in before or re.fullmatch(r"[0-9.-]+[A-Za-z]*%?", part) or (part in SHELL and SHELL[part] in before) or os.path.exists(os.path.join(folder, part))
            if not known and part not in ("python", "train.py"):  # the user's own
                strange.append(part)
    return strange


def try_row(row, files, folder):
    """What is wrong with it."""
    os.mkdir(folder)
    typed, sentence, after = row
    for name in os.listdir(files):
        if name in typed + sentence + after:
            (shutil.copytree if os.path.isdir(f"{files}/{name}") else shutil.copy)(f"{files}/{name}", f"{folder}/{name}")
    status, said = run(typed, folder)
    if os.environ.get("UPDATE"):
        row[1] = "  " + " ".join(said)
    elif said != [sentence.strip()]:
        return f"says {' / '.join(said)}"
    if status not in next((known for part, known in STATUS.items() if part in sentence), (2,)):
        return f"status {status}"
    if after.startswith("("):  # no command, or none that a test may run: why
        return None
    strange = strange_words(after, typed + row[1], folder)
    if strange:
        return f"next: nobody said {', '.join(strange)}"
    if not in_full:
        return None
    status, said = run(after, folder)
    if status in (2, 126, 127) or status < 0:
        return f"next: {after.strip()}: status {status}, {' / '.join(said)}"
    return None


# ---- every sentence has a row ----

LITERAL = r'"(?:[^"\\]|\\.)*"'
CALL = re.compile(r'\b(?:complain\(|snprintf\((?:t->)?why, [^,]+,)((?:[^;"]|%s)*?);' % LITERAL)
TEXT = re.compile(r'%s(?:\s*(?:%s|GIVE|PRId64))*' % (LITERAL, LITERAL))

UNTRIED = {  # part of a sentence: why it has no row
    "it gets NVTX's ranges": "nvtx_relabel.sh",
    "is the disk full": "cli_bad_input.sh",
    "is damaged: install vramscope anew": "demo.sh",
    "is not there: install vramscope with": "demo.sh",
    "its process is still running": "a moment",
    "still empty: its process has just begun": "a moment",
    "another vramscope run writes to": "a moment",
    "is still being written": "a moment",
    "is locked by another program": "a moment",
    "no process records on this host now": "others may record here",
    "xdg-open can't show": "what a desktop has",
    "can't be merged": "recover/*.sh",
    "only its owner can find": "another user",
    "belongs to %s": "another user",
    "is another user's": "another user",
    "this directory can't be read": "another user: cli_bad_input.sh",
    "is not writable": "another user: cli_bad_input.sh",
    "copy it to where you may read it": "another user",
    "by a newer vramscope; use that one": "test_leftover.c",
    "by a vramscope older than any release: vramscope run": "a journal of another version",
    "is of a newer vramscope": "a journal of another version",
    "is not in this build": "another build: arena_left_out.sh",
    "built without the simulated driver": "another build",
    "is missing: reinstall vramscope": "another build",
    "there is a blank or a colon in it": "a home and /tmp that can't be written",
    "no process can be started": "a machine without memory",
    "can't be removed": "a file system that changes",
    "can't be read: %s": "a disk that fails",
    "can't be copied": "a disk that fails",
    "ax%cs of the sweeps' points": "said beside a result",
    "of no point of the sweep": "said beside a result",
    "stay without names": "said beside a result",
    "snapshots are more than": "256 snapshots",
    "more than %zu MiB": "a large file",
    "lacks entries, as some": "import/whatif.sh",
    "are folded into one": "a longer recording",
    "do not end where its size says": "hostile/*.sh",
    "n_positions": "said beside a result",
    "max_position_embeddings": "said beside a result",
    "--edit: not known": "whatif_edits.sh",
    "it was the host's memory that ran out": "cli_choices.sh",
    "export: %s is damaged": "hostile/*.sh",
    "events were folded": "said beside a result",
    "older events are folded": "said beside a result",
    "pools of libraries held memory": "said beside a result",
    "is not in the snapshot, whose greatest": "said beside a result",
    "too many call stacks for one profile": "a large recording",
    "standard output is a terminal": "a terminal",
    "nobody reads standard output any more": "a moment",
    "gnuplot failed": "another gnuplot",
    "gnuplot can't be started": "a machine without memory",
    "TMPDIR may name another directory": "cli_pictures.sh",
    "are too many to tell apart": "cli_overlay.sh",
    "a picture of a sweep needs": "sweep tests",
    "not every process was recorded": "said beside a result",
    "a panel has room for": "said beside a result",
    "has recordings of": "laws/*.sh",
    "recordings taken": "said beside a result",
    "%zu of its %s taken": "said beside a result",
    "not of one program": "laws/*.sh",
    "have blocks of the same sizes": "laws/*.sh",
    "birth and free do not agree": "a damaged recording",
    "was recorded under the arena": "laws/*.sh",
    "another sweep runs in": "a moment",
    "127.0.0.1 can't be had": "a moment",
    "nothing can be served any more": "a moment",
    "the points can't be written": "a disk that fails",
    "a log of SQLite's lies beside": "a killed writer",
    "more than %d": "large grids",
    "interrupted": "a moment",
    "can't be ended": "a moment",
    "has no answer": "a moment",
    "was killed": "a moment",
    "built without what a dry run stands on": "another build",
    "no run can begin": "a machine without memory",
    "fit: %s can't be kept": "a disk that fails",
    "fit: %s can't be made": "a disk that fails",
    "and not shown": "said beside a result",
    "takes 4, 1,2,4 or 1..64": "laws/*.sh",
    "%s: pid %lld (%s) %s: %s": "cli_suspend.sh",
    "is at it for longer than --timeout": "cli_suspend.sh",
    "was suspended and is resumed": "cli_suspend.sh",
    "stays suspended: vramscope resume": "cli_suspend.sh",
    "name a shorter one": "cli_suspend.sh",
    "which can't be asked: start it again": "a journal of another version",
}


def formats():
    for room in HELD:
        for folder, _, names in os.walk(f"{SRC}/analyzer/{room}"):
            for name in sorted(names):
                if not name.endswith(".c"):
                    continue
                with open(f"{folder}/{name}") as file:
                    source = file.read()
                for call in CALL.finditer(source):
                    for text in TEXT.findall(call.group(1)):
                        words = "".join(part[1:-1] if part[0] == '"' else "" for part in re.findall(LITERAL + "|GIVE|PRId64", text))
                        if len(words) > 15 and "%" in words or len(words) > 40:
                            yield f"{room}/{name}", words


def untold(said):
    for place, words in formats():
        pattern = re.sub(r"%[-+0-9.*\\]*(?:ll|z)?[a-zA-Z%]|%", lambda m: "%" if m.group(0).endswith("%") and len(m.group(0)) > 1 else ".*", re.escape(words.replace('\\"', '"')).replace(r"\%", "%"))
        if not any(re.search(pattern, sentence) for sentence in said) and not any(part in words for part in UNTRIED):
            yield f"{place}: no row says: {words}"


def main():
    if not shutil.which("gnuplot") or not os.path.exists(f"{BUILD}/sim/libcuda.so.1"):
        print("skipped: there is no gnuplot, or no simulated driver")
        return 77
    os.environ["LC_ALL"] = "C"
    for name in ("VRAMSCOPE_OUTPUT", "VRAMSCOPE_JOURNAL_DIR", "LD_PRELOAD"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as top:
        os.mkdir(f"{top}/bin")
        os.symlink(f"{BUILD}/bin/vramscope", f"{top}/bin/vramscope")
        os.symlink(sys.executable, f"{top}/bin/python")
        os.environ.update(PYTHONPATH=f"{BUILD}/share/vramscope/python", PATH=f"{top}/bin:{os.environ['PATH']}", LD_LIBRARY_PATH=f"{BUILD}/sim", HOME=top, TMPDIR=top)
        make_files(f"{top}/files")
        with open(TABLE) as file:
            text = file.read()
        rows, wrong = rows_of(text), []
        for number, row in enumerate(rows):
            what = try_row(row, f"{top}/files", f"{top}/{number}") if len(row) == 3 else "three lines make a row"
            if what:
                wrong.append(f"{row[0]}: {what}")
            shutil.rmtree(f"{top}/{number}", ignore_errors=True)
        os.chdir("/")
    wrong += untold([row[1] for row in rows])
    if os.environ.get("UPDATE"):
        with open(TABLE, "w") as file:
            file.write(text.split("\n\n")[0] + "\n\n" + "\n\n".join("\n".join(row) for row in rows) + "\n")
    print("\n".join(wrong) or f"{len(rows)} sentences name the next step{', and it works' * in_full}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
