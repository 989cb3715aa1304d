#!/bin/bash
# Names are data: whatever a phase, a library, a host, a command or a file is called, no command prints a byte of it that a
# terminal or gnuplot would act on, no name makes a line of its own, and --json gives every name back as it was recorded.
set -u
BUILD=${BUILD:?the build directory}
SRC=$(cd "$(dirname "$0")/../../.." && pwd)
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
cd "$D" || exit 1
python3 - "$SRC" "$BUILD/bin/vramscope" <<'PY' || exit 1
import json, os, sqlite3, subprocess, sys

src, vramscope = sys.argv[1:]
FORGED = "complete: no events lost"
# a line of our own, colours, the end of a line, the other direction, no UTF-8, what gnuplot and the shell would run
EVIL = "x\n%s\n\x1b[31m\r\x9b\u2028\u202e\u200b`touch run`$(touch run)\"'\\" % FORGED
make = [sys.executable, src + "/tests/data/make_db.py", src + "/shim/trace/schema.sql"]
name = b"evil\n" + FORGED.encode() + b"\n\x1b[31m\xff.db"
for kind, out in (("oom", b"oom.db"), ("train", name)):
    subprocess.run(make + [out.decode("utf-8", "surrogateescape"), "--kind", kind], check=True)
    db = sqlite3.connect(out)
    for phase in ("forward", "logits", "backward"): # of all phases there are, one may keep its name
        db.execute("UPDATE phase SET name = ? || name WHERE name = ?", (EVIL, phase))
    for table, column in (("device", "name"), ("device", "uuid"), ("process", "host"), ("process", "command"), ("string", "text"),
                          ("thread", "name"), ("module", "path"), ("frame", "function")):
        db.execute(f"UPDATE {table} SET {column} = ?", (EVIL,))
    db.execute("INSERT INTO loss VALUES(1,5,3,?,?)", (EVIL, EVIL))
    db.execute("INSERT INTO mismatch VALUES(1,5,5,0,?,1,2)", (EVIL,))
    db.execute("INSERT OR REPLACE INTO meta(key, value) VALUES('journal', ?)", (EVIL,))
    db.execute("UPDATE meta SET value = 0 WHERE key = 'clean_end'")
    db.commit()
os.mkdir("job")
for r in 0, 1:
    subprocess.run(make + [f"job/r{r}.db", "--rank", str(r), "--world", "2"], check=True)
    db = sqlite3.connect(f"job/r{r}.db")
    db.execute("UPDATE phase SET name = ? WHERE name = 'logits'", (EVIL,))
    db.execute("UPDATE process SET host = ?, command = ?", (EVIL, EVIL))
    db.commit()

def check(*args):
    done = subprocess.run([vramscope, *args], capture_output=True)
    for text in (done.stdout, done.stderr):
        text.decode()  # all of it is UTF-8
        shown = text.decode()
        bad = [c for c in shown if c != "\n" and (ord(c) < 32 or 0x7f <= ord(c) <= 0x9f or c in "\u2028\u2029\u202e\u200b")]
        assert not bad, (args, bad[0], shown)
        assert not any(line.startswith(FORGED) for line in shown.split("\n")), (args, shown)
    return done

for file in (b"oom.db", name):
    for args in ([b"report"], [b"peak"], [b"plot"], [b"recover"], [b"plot", b"-o", b"out.gp"], [b"plot", b"--overlay", b"job/r0.db"]):
        check(*args, file)
    check(b"diff", b"job/r0.db", file)
    check(b"report", b"job/r0.db", file)
    script = open("out.gp", "rb").read().decode()
    assert "`" not in script and not any(line.startswith(FORGED) for line in script.split("\n")), script
check(b"peak", b"--at", b"oom", b"oom.db")
check(b"report", b"job")
check(b"peak", b"job")
check(b"report", name + b"-is-not-there")
check(b"report", b"--" + name)
report = json.loads(check(b"report", b"--json", b"oom.db").stdout)["files"][0]
assert report["command"] == EVIL and report["losses"][0]["why"] == EVIL and report["devices"][0]["name"] == EVIL
assert EVIL + "logits" in [p["phase"] for p in report["devices"][0]["phases"]]
assert not os.path.exists("run")
PY
echo "no name acts on anything"
