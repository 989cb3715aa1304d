#!/bin/bash
# Files that are not what they are called (FIFOs, sockets, devices; views and pages without end): every command ends soon, takes little memory, and
# says in one line what is wrong.
. "$(dirname "$0")/../lib/lib.bash"
src=$(cd "$(dirname "$0")/../../.." && pwd)
export VRAMSCOPE_JOURNAL_DIR=$dir/journals
mkdir "$VRAMSCOPE_JOURNAL_DIR"
cd "$dir" || exit 1
python3 "$src/tests/data/make_db.py" "$src/shim/trace/schema.sql" good.db || fail "make_db.py"
"$V" report --all good.db >good.txt || fail "report of a good file"

# soon COMMAND...: within 60 seconds, of a machine that may be busy, and 1.5 GiB
soon() {
    timeout --kill-after=1 300 bash -c 'ulimit -v 1572864; exec "$@"' - "$@" >out 2>err </dev/null
    status=$?
    case $status in 124 | 137) fail "$* took more than 60 seconds" ;; esac
}
# refused WHAT COMMAND...: with status 2 and one line
refused() {
    local what=$1
    shift
    soon "$@"
    [ $status = 2 ] || fail "$*: status $status: $(head -n 5 out err)"
    [ "$(wc -l <err)" = 1 ] || fail "$*: not one line: $(head -n 5 err)"
    grep -q -- "$what" err || fail "$*: not '$what': $(cat err)"
}
every() { # WHAT FILE: each command that reads
    refused "$1" "$V" report --all "$2"
    refused "$1" "$V" peak "$2"
    refused "$1" "$V" plot "$2"
    refused "$1" "$V" diff "$2" good.db
    refused "$1" "$V" recover "$2"
}

# ---- no files ----
mkfifo fifo.db fifo.vsj "$VRAMSCOPE_JOURNAL_DIR/left.vsj"
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket.db")'
every "fifo.db is no regular file" fifo.db
every "socket.db is no regular file" socket.db
every "/dev/zero is no regular file" /dev/zero
refused "fifo.vsj is not a journal" "$V" recover fifo.vsj
if unshare --mount true 2>/dev/null; then # with a /dev/shm of its own: finds FIFOs for journals, and goes on
    soon unshare --mount sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' sh "$V" recover
    [ "$(grep -c 'is not a journal' err)" = 2 ] || fail "recover over FIFOs: $(cat err)"
fi
rm fifo.vsj "$VRAMSCOPE_JOURNAL_DIR/left.vsj"
for beside in wal shm journal; do
    cp good.db "beside-$beside.db"
    mkfifo "beside-$beside.db-$beside"
    every "beside-$beside.db-$beside is no regular file" "beside-$beside.db"
done
# a journal that a database names, and the modules whose functions are looked up
mkfifo named
cp good.db names.db
sqlite3 names.db "UPDATE meta SET value = 0 WHERE key = 'clean_end'; INSERT INTO meta(key, value) VALUES('journal', '$dir/named')"
soon "$V" report --all names.db
[ $status = 3 ] || fail "a FIFO for the journal: status $status"
grep -q "^INCOMPLETE: its journal $dir/named can't be merged: $dir/named is not a journal" out || fail "a FIFO for the journal: $(head -n 1 out)"
cp good.db modules.db
sqlite3 modules.db "UPDATE module SET path = '$dir/named', build_id = NULL; UPDATE frame SET function = NULL; DELETE FROM meta WHERE key = 'named_frames'"
soon "$V" peak modules.db
[ $status = 0 ] || fail "FIFOs for modules: status $status: $(cat err)"

# ---- what is called a table ----
endless="WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
python3 - "$endless" <<'PY' || fail "hostile databases"
import shutil, sqlite3, struct, sys
good = sqlite3.connect("good.db")
tables = [r[0] for r in good.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'meta'")]
def columns(name):
    return [r[1] for r in good.execute(f"PRAGMA table_info({name})")]
for name in tables + ["meta"]:
    shutil.copy("good.db", f"view-{name}.db")
    db = sqlite3.connect(f"view-{name}.db")
    if name == "meta":
        version = good.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()[0]
        rows = f"SELECT 'schema_version', {version}, 0 UNION ALL SELECT * FROM (" + sys.argv[1] + " 'thinned_from_seq', i, 1 FROM n)"
    else:
        rows = sys.argv[1] + " " + ", ".join("i" for _ in columns(name)) + " FROM n"
    db.execute(f"DROP TABLE {name}")
    db.execute(f"CREATE VIEW {name}({', '.join(columns(name))}) AS {rows}")
    db.commit()
# the file's own views are not asked
shutil.copy("good.db", "own-views.db")
db = sqlite3.connect("own-views.db")
for (name,) in good.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
    db.execute(f"DROP VIEW {name}")
    db.execute(f"CREATE VIEW {name} AS {sys.argv[1]} i AS seq, i AS t_ns FROM n")
db.commit()
# a table in a view's place, by another spelling: nothing may ask it
shutil.copy("good.db", "table-as-view.db")
db = sqlite3.connect("table-as-view.db")
db.execute("DROP VIEW live_at_peak")
db.execute("CREATE TABLE Live_at_peak(process, device, phase, category, size_bytes, stack, owner, line, layer, role)")
db.execute("INSERT INTO Live_at_peak VALUES(1, 0, 'x', 'x', 1, 0, 'x', 'x', 'x', 'x')")
db.commit()
# a column that computes
shutil.copy("good.db", "computed.db")
db = sqlite3.connect("computed.db")
db.execute("DROP TABLE loss")
db.execute("CREATE TABLE loss(process INT, t_ns INT, events INT, code TEXT, why TEXT AS (hex(zeroblob(400000000))))")
db.execute("INSERT INTO loss(process, t_ns, events) VALUES(1, 1, 1)")
db.commit()
# a trigger, where names of functions are written
shutil.copy("good.db", "trigger.db")
db = sqlite3.connect("trigger.db")
db.execute("CREATE TRIGGER x AFTER UPDATE ON frame BEGIN DELETE FROM ev; END")
db.commit()
# pages that lead 400 times to the next, nineteen deep: 400^19 rows
shutil.copy("good.db", "pages.db")
db = sqlite3.connect("pages.db")
db.executemany("INSERT INTO mismatch(seq, t_ns) VALUES(?, ?)", [(i, i) for i in range(3)])
db.commit()
root, = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'mismatch'").fetchone()
db.close()
with open("pages.db", "r+b") as f:
    head = bytearray(f.read(100))
    size = struct.unpack(">H", head[16:18])[0]
    pages = f.seek(0, 2) // size
    f.seek((root - 1) * size)
    leaf = f.read(size)
    def interior(child):
        cells = b"".join(struct.pack(">IB", child, 1 + k % 100) for k in range(400))
        start = size - len(cells)
        body = struct.pack(">BHHHBI", 5, 0, 400, start, 0, child) + b"".join(struct.pack(">H", start + 5 * k) for k in range(400))
        return body + bytes(start - len(body)) + cells
    depth = 17
    f.seek((root - 1) * size)
    f.write(interior(pages + 1))
    f.seek(pages * size)
    for k in range(depth):
        f.write(interior(pages + 2 + k))
    f.write(leaf)
    head[28:32] = struct.pack(">I", pages + depth + 1)
    head[92:96] = head[24:28]
    f.seek(0)
    f.write(head)
PY
for db in view-*.db; do
    name=${db#view-}
    refused "${name%.db} is not its table\|none that vramscope wrote" "$V" report --all "$db"
done
every "ev is not its table" view-ev.db
every "loss is not its table" computed.db
every "Live_at_peak is not its table" table-as-view.db
every "pages.db is damaged: its tables do not end where its size says" pages.db
soon "$V" report --all own-views.db
sed -i 's/own-views.db/good.db/' out
cmp -s good.txt out || fail "a file's own views change its report: $(diff good.txt out)"
soon "$V" peak trigger.db
[ "$(sqlite3 trigger.db 'SELECT count(*) > 0 FROM ev')" = 1 ] || fail "a trigger of the file has run"
echo "nothing is waited for"
