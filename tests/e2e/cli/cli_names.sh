#!/bin/bash
# Whatever a phase, library, host, command or file is called, no command prints a byte of it that acts, or as a line of its own; --json
# gives it back.
. "$(dirname "$0")/../lib/command.bash"
python3 - "$SRC" "$V" <<'PY' || exit 1
import base64, json, lzma, os, re, sqlite3, subprocess, sys, zlib

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
                          ("thread", "name"), ("module", "path"), ("frame", "function"), ("frame", "file"), ("sample", "source")):
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

def harmless(what, text, breaks="\n"):
    shown = text.decode() if isinstance(text, bytes) else text  # all of it is UTF-8
    bad = [c for c in shown if c not in breaks and (ord(c) < 32 or 0x7f <= ord(c) <= 0x9f or c in "\u2028\u2029\u202e\u200b")]
    assert not bad, (what, bad[0], shown[:2000])
    assert not any(line.startswith(FORGED) for line in shown.split("\n")), (what, shown[:2000])

def check(*args):
    done = subprocess.run([vramscope, *args], capture_output=True)
    for text in (done.stdout, done.stderr):
        harmless(args, text)
    return done

def texts(value):
    """All strings of a JSON value."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)

def check_page(*files):
    """A page: its markup, and the names in its data, which are shown as they stand there."""
    done = check(b"view", b"-o", b"page.html", *files)
    assert done.returncode in (0, 3), done
    page = open("page.html", "rb").read()
    harmless((b"view", *files), page)
    found = 0
    for data in re.findall(rb'<script type="text/plain" id="[^"]*">([^<]*)</script>', page):
        plain = zlib.decompress(base64.b64decode(data))
        if not plain.startswith(b"{"):
            continue  # numbers
        for text in texts(json.loads(plain)):
            found += "touch run" in text
            # a frame's kind, function and file stand in one string
            harmless(files, text[text.index("\n") + 1:].replace("\n", " ", 1) if re.match(r"\d\n", text) else text, "")
    assert found > 10, found

for file in (b"oom.db", name):
    for args in ([b"report"], [b"peak"], [b"plot"], [b"recover"], [b"plot", b"-o", b"out.gp"], [b"plot", b"--overlay", b"job/r0.db"],
                 [b"waste"], [b"whatif"], [b"check", b"--max-peak=1KiB"], [b"check", b"--against", b"job/r0.db"],
                 *([b"peak", b"--full", b"--why", b"--by=" + by] for by in (b"line", b"layer", b"role", b"tensor", b"stack")),
                 *([b"export", b"--format=" + to, b"-o", b"out", b"--force"] for to in (b"perfetto", b"pytorch", b"pprof"))):
        check(*args, file)
    check_page(file)
    for to in (b"csv", b"folded"):
        check(b"export", b"--format=" + to, b"-o", b"out", b"--force", file)
        harmless((to, file), open("out", "rb").read().replace(b"\r\n", b"\n"))
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
# changes of a program that has no room in a phase of such a name
with lzma.open(src + "/tests/data/llama-h200.db.xz") as packed, open("llama.db", "wb") as plain:
    plain.write(packed.read())
db = sqlite3.connect("llama.db")
db.execute("INSERT INTO phase(id, name) VALUES(900, ?)", (EVIL,))
db.execute("UPDATE ev SET phase = 900 WHERE phase = (SELECT id FROM phase WHERE name = 'forward')")
db.commit()
said = check(b"whatif", b"--why", b"--capacity=25GiB", b"--edit=optimizer=fused", b"llama.db")
assert b"no room for" in said.stdout and b"touch run" in said.stdout, said
assert not os.path.exists("run")
PY
echo "no name acts on anything"
