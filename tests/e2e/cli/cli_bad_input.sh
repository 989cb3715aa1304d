#!/bin/bash
# Of bad input nothing is left behind, and no file is changed (what is said: next_command.txt).
. "$(dirname "$0")/../lib/command.bash"
trap 'chmod -R u+w "$D"; rm -rf "$D"' EXIT

make_db good.db

# a page of the events is damaged: found in the middle of a query, after others went well
make_db torn.db --kind oom --steps 200
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
refused "torn.db is truncated or damaged: database disk image is malformed" "$V" report --all torn.db

# files
echo "hello, this is no database" >foreign.db
echo -n "SQL" >stub.db
head -c 20000 good.db >short.db
make_db newer.db --schema-version 99
python3 -c "import sqlite3; sqlite3.connect('other.db').executescript('CREATE TABLE t(x); INSERT INTO t VALUES(1)')"
python3 - <<'PY'
data = bytearray(open("good.db", "rb").read())
for i in range(4096, len(data)):
    data[i] ^= 0x5a
open("damaged.db", "wb").write(data)
PY
# the same for every command that opens a database, and none of them changes the file
for command in report peak "plot -o never.txt" recover; do
    for file in nowhere foreign stub short newer other damaged; do
        [ -e $file.db ] && cp $file.db before
        # shellcheck disable=SC2086 # words
        refused "$file.db" "$V" $command $file.db
        [ ! -e $file.db ] || cmp -s before $file.db || no "$command changed $file.db"
    done
done
[ -e never.txt ] && no "a plot of a bad file was left"

# output that can't be written
small_disk() (
    trap '' XFSZ # files end after 1 KiB: what a full disk does, without one
    ulimit -f 1
    exec "$@"
)
refused "plot: full.gp can't be written: is the disk full" small_disk "$V" plot good.db -o full.gp
[ -e full.gp ] && no "half a file was left"
"$V" report --all good.db >/dev/full 2>err
[ $? = 2 ] && grep -q "^vramscope: the output can't be written" err || no "a full standard output: $(cat err)"

# without gnuplot no picture is left, and script and text need none
mkdir empty_path
env PATH="$D/empty_path" "$V" plot good.db -o x.png 2>/dev/null && no "a picture without gnuplot"
[ -e x.png ] || [ -e x.png.part ] && no "a picture was left"
for kind in gp txt; do env PATH="$D/empty_path" "$V" plot good.db -o x.$kind && [ -s x.$kind ] || no "plot -o x.$kind"; done

# run refuses before it starts anything
touch there.db
refused "exists and is never overwritten" "$V" run -o there.db -- touch started
refused "can't be used: Not a directory" "$V" run -o there.db/such/x.db -- touch started
refused "/proc" "$V" run -o /proc/nope/x.db -- touch started
refused "run: --stacks takes off, driver, python or all" "$V" run --stacks=some -o a.db -- touch started
[ -e started ] && no "the command ran all the same"

# a directory that can't be read is not one without databases
as_nobody=()
[ "$(id -u)" != 0 ] || as_nobody=(setpriv --reuid=65534 --clear-groups)
mkdir locked && chmod 0 locked
if "${as_nobody[@]}" true 2>/dev/null && ! "${as_nobody[@]}" ls locked >/dev/null 2>&1; then
    chmod 755 .
    refused "$PWD/locked: this directory can't be read: Permission denied" "${as_nobody[@]}" "$V" report --all "$PWD/locked"
fi

[ $failures = 0 ] && echo "bad input leaves nothing behind" || exit 1
