#!/bin/bash
# Every bad input is one line on stderr that says what, where and what to do; exit 2; nothing is left behind.
. "$(dirname "$0")/../lib/command.bash"
trap 'chmod -R u+w "$D"; rm -rf "$D"' EXIT

# expect STATUS 'PATTERN' COMMAND...: that status, one line on stderr that matches
expect() {
    local status=$1 pattern=$2
    shift 2
    "$@" >out 2>err </dev/null
    local got=$?
    if [ $got != "$status" ] || [ "$(wc -l <err)" != 1 ] || ! grep -Eq "^vramscope: $pattern" err; then
        echo "FAILED: $*: exit $got (want $status), want one line '$pattern', got:"
        sed 's/^/    /' err
        failures=$((failures + 1))
    fi
}

make_db good.db || exit 1

# a page of the events is damaged: found in the middle of a query, after others went well
make_db torn.db --kind oom --steps 200 || exit 1
python3 - torn.db <<'PY' || exit 1
import sqlite3, struct, sys
root, = sqlite3.connect(sys.argv[1]).execute("SELECT rootpage FROM sqlite_master WHERE name = 'ev'").fetchone()
with open(sys.argv[1], "r+b") as f:
    def page(n):
        f.seek((n - 1) * 4096)
        return f.read(4096)
    at = root
    while page(at)[0] == 5:  # down the middle of the tree
        head = page(at)
        cells = struct.unpack(">H", head[3:5])[0]
        cell = struct.unpack(">H", head[12 + cells // 2 * 2:14 + cells // 2 * 2])[0]
        at = struct.unpack(">I", head[cell:cell + 4])[0]
    f.seek((at - 1) * 4096)
    f.write(b"\0" * 4096)
PY
expect 2 "torn.db is truncated or damaged: database disk image is malformed" "$V" report --all torn.db

# commands and options
expect 2 "unknown command 'repotr': did you mean 'report'" "$V" repotr good.db
expect 2 "unknown command 'frobnicate': 'vramscope --help'" "$V" frobnicate
expect 2 "unknown command 'polt': did you mean 'plot'" "$V" help polt
[ "$("$V" help plot)" = "$("$V" plot --help)" ] || no "help plot is not plot --help"
expect 2 "unknown option '--jsno'" "$V" --jsno
expect 2 "report: unknown option '--jsno': did you mean --json" "$V" report --all --jsno good.db
expect 2 "plot: unknown option '-z'" "$V" plot -z good.db
expect 2 "plot: --size takes WIDTHxHEIGHT" "$V" plot --size=big good.db
expect 2 "plot: --size: a picture needs at least" "$V" plot --size=9x9 good.db -o x.png
expect 2 "plot: --from takes a time" "$V" plot --from=yesterday good.db
expect 2 "plot: --from is beyond the end of the run" "$V" plot --from=99h good.db
expect 2 "plot: --step takes a step or steps, such as 7 or 7-9, not '9-7'" "$V" plot --step=9-7 good.db
expect 2 "plot: --step takes a step" "$V" plot --step=0 good.db
expect 2 "plot: --step: good.db has steps 1 to 3" "$V" plot --step=4 good.db
expect 2 "plot: --step and --from or --to exclude each other" "$V" plot --step=2 --to=1s good.db
expect 2 "peak: --by takes" "$V" peak --by=colour good.db
expect 2 "peak: --top takes a whole number" "$V" peak --top=many good.db
expect 2 "good.db has nothing on device 7" "$V" peak --device 7 good.db
expect 2 "report: which file" "$V" report
expect 2 "run: which command" "$V" run -o x.db

python3 "$SRC/tests/data/make_db.py" "$SRC/shim/trace/schema.sql" nosteps.db --steps 0
expect 2 "plot: --step: nosteps.db tells no steps: use --from and --to" "$V" plot --step=1 nosteps.db

# files
expect 2 "nowhere.db: No such file" "$V" report --all nowhere.db
: >empty.db
expect 2 "empty.db is empty" "$V" report --all empty.db
echo "hello, this is no database" >foreign.db
expect 2 "foreign.db is not a database" "$V" report --all foreign.db
# a snapshot of PyTorch's where a recording is wanted: the command that makes one of the other
python3 -c 'import pickle; pickle.dump({"segments": [], "device_traces": []}, open("snap.pickle", "wb"), 4)' || exit 1
expect 2 "snap.pickle is a pickle: .*vramscope import -o run.db snap.pickle$" "$V" report --all snap.pickle
echo -n "SQL" >stub.db
expect 2 "stub.db is truncated" "$V" report --all stub.db
head -c 20000 good.db >short.db
expect 2 "short.db is truncated" "$V" report --all short.db
version=$(sqlite3 good.db "SELECT value FROM meta WHERE key = 'schema_version'")
make_db newer.db --schema-version 99
expect 2 "newer.db was made by a newer vramscope \(schema 99\), this one reads $version: upgrade" "$V" report --all newer.db
make_db older.db --schema-version 4
expect 2 "older.db was made by a vramscope older than any release \(schema 4\), this one reads $version: record the run again" "$V" report --all older.db
python3 -c "import sqlite3; sqlite3.connect('other.db').executescript('CREATE TABLE t(x); INSERT INTO t VALUES(1)')"
expect 2 "other.db is a database, but none that vramscope wrote" "$V" peak other.db
python3 - <<'PY'
data = bytearray(open("good.db", "rb").read())
for i in range(4096, len(data)):
    data[i] ^= 0x5a
open("damaged.db", "wb").write(data)
PY
expect 2 "damaged.db .*(damaged|can't be read)" "$V" report --all damaged.db
# the same for every command that opens a database, and none of them changes the file
for command in report peak "plot -o never.txt" recover; do
    for file in nowhere foreign stub short newer other damaged; do
        [ -e $file.db ] && cp $file.db before
        # shellcheck disable=SC2086 # words
        expect 2 "(${command%% *}: )?$file.db.*" "$V" $command $file.db
        [ ! -e $file.db ] || cmp -s before $file.db || { echo "FAILED: $command changed $file.db" && failures=$((failures + 1)); }
    done
done
[ -e never.txt ] && echo "FAILED: a plot of a bad file was left" && failures=$((failures + 1))
mkdir nothing
expect 2 "nothing: no database" "$V" report --all nothing
expect 2 "/dev/null is no regular file" "$V" report --all /dev/null
expect 2 "nowhere.vsj: no such file" "$V" recover nowhere.vsj
echo junk >junk.vsj
expect 2 "junk.vsj is not a journal of vramscope" "$V" recover junk.vsj

# output that can't be written
expect 2 "plot: no/such/dir/x.gp can't be written" "$V" plot good.db -o no/such/dir/x.gp
expect 2 "plot: x.bmp: the name must end in" "$V" plot good.db -o x.bmp
small_disk() (
    trap '' XFSZ # files end after 1 KiB: what a full disk does, without one
    ulimit -f 1
    exec "$@"
)
expect 2 "plot: full.gp can't be written: is the disk full" small_disk "$V" plot good.db -o full.gp
[ -e full.gp ] && echo "FAILED: half a file was left" && failures=$((failures + 1))
full_stdout() { "$@" >/dev/full; }
expect 2 "the output can't be written" full_stdout "$V" report --all good.db

# gnuplot missing: the picture names what to install, script and text need none
mkdir empty_path
expect 2 "plot: gnuplot is not installed: .*apt-get install gnuplot-nox" env PATH="$D/empty_path" "$V" plot good.db -o x.png
[ -e x.png ] || [ -e x.png.part ] && echo "FAILED: a picture was left" && failures=$((failures + 1))
env PATH="$D/empty_path" "$V" plot good.db -o x.gp && [ -s x.gp ] || failures=$((failures + 1))
env PATH="$D/empty_path" "$V" plot good.db -o x.txt && [ -s x.txt ] || failures=$((failures + 1))

# run refuses before it starts anything
touch there.db
expect 2 "run: there.db exists|run: .*/there.db exists and is never overwritten" "$V" run -o there.db -- touch started
expect 2 "run: the directory of .*can't be used: Not a directory" "$V" run -o there.db/such/x.db -- touch started
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod a-w locked
    expect 2 "run: the directory .*locked is not writable" "$V" run -o locked/x.db -- touch started
fi
expect 2 "run: the directory /proc.* is not writable|run: the directory of /proc" "$V" run -o /proc/nope/x.db -- touch started
expect 2 "run: --stacks takes off, driver, python or all" "$V" run --stacks=some -o a.db -- touch started
expect 2 "run: --sample-ms takes a whole number" "$V" run --sample-ms=often -o a.db -- touch started
expect 2 "run: --journal-dir .*can't be used" "$V" run --journal-dir=/no/such -o a.db -- touch started
[ -e started ] && echo "FAILED: the command ran all the same" && failures=$((failures + 1))
expect 127 "run: no-such-command-here: command not found" "$V" run -o a.db -- no-such-command-here
expect 127 "run: ./no-such can't be started: No such file" "$V" run -o a.db -- ./no-such
touch not-executable
expect 126 "run: ./not-executable can't be started: Permission denied" "$V" run -o a.db -- ./not-executable
expect 127 "run: train.py: command not found; a Python program is started as vramscope run -- python train.py" "$V" run -o a.db -- train.py

# a directory that can't be read is not one without databases
as_nobody=()
[ "$(id -u)" != 0 ] || as_nobody=(setpriv --reuid=65534 --clear-groups)
mkdir locked && chmod 0 locked
if "${as_nobody[@]}" true 2>/dev/null && ! "${as_nobody[@]}" ls locked >/dev/null 2>&1; then
    chmod 755 .
    expect 2 "$PWD/locked: this directory can't be read: Permission denied" "${as_nobody[@]}" "$V" report --all "$PWD/locked"
fi

[ $failures = 0 ] && echo "all bad inputs are one line" || exit 1
