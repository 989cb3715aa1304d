#!/bin/bash
# What a process leaves that is killed while it makes its journal is removed by recover, and by the next run.  What a process has open, what is not
# named like a journal and what holds something stays.  A journal that cannot be merged keeps no other from it.
. "$(dirname "$0")/../lib/lib.bash"
export VRAMSCOPE_JOURNAL_DIR=$dir/journals
mkdir "$VRAMSCOPE_JOURNAL_DIR"
cd "$dir" || exit 1
# others' journals in /dev/shm are not touched
unshare --mount sh -c 'mount -t tmpfs none /dev/shm' 2>/dev/null || skip "there may be no mount namespace here"
alone() { unshare --mount sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' sh "$@"; }
left() { find "$dir" -name '*.vsj' -printf '%f\n' | sort | tr '\n' ' '; }

python3 - "$VRAMSCOPE_JOURNAL_DIR/vramscope-4194303-77.vsj" <<'PY' || skip "there are no leases here"
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
PY
truncate -s 20M "$VRAMSCOPE_JOURNAL_DIR/vramscope-4194303-78-2.vsj"
: >run.db && truncate -s 1M run.db.vsj
alone "$V" recover >out 2>err || fail "recover over what was never finished: $(cat err)"
[ "$(grep -c 'removed, its process ended before it recorded anything' out)" = 3 ] || fail "recover says: $(cat out)"
[ -z "$(left)" ] || fail "left: $(left)"

# what must stay
: >some.vsj                # no journal's name
: >full.db.vsj && echo x >full.db
echo "not a journal" >"$VRAMSCOPE_JOURNAL_DIR/vramscope-4194303-79.vsj"
truncate -s 1M "$VRAMSCOPE_JOURNAL_DIR/vramscope-4194303-80.vsj" "$VRAMSCOPE_JOURNAL_DIR/vramscope-4194303-81.vsj"
exec 5<"$VRAMSCOPE_JOURNAL_DIR/vramscope-4194303-80.vsj" # somebody has it open
python3 -c '
import mmap, sys, time
with open(sys.argv[1], "r+b") as f:
    m = mmap.mmap(f.fileno(), 4096)
print("mapped", flush=True)
time.sleep(60)' "$VRAMSCOPE_JOURNAL_DIR/vramscope-4194303-81.vsj" >mapped & # or mapped
pid=$!
for _ in {1..100}; do
    [ ! -s mapped ] || break
    sleep 0.05
done
stay="full.db.vsj some.vsj vramscope-4194303-79.vsj vramscope-4194303-80.vsj vramscope-4194303-81.vsj "
(LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/killed.db" "$tests/prog_exit" kill 1000) >/dev/null 2>&1
(LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/gone/killed.db" "$tests/prog_exit" kill 1000) >/dev/null 2>&1
mkdir away
(LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$dir/away/killed.db" "$tests/prog_exit" kill 1000) >/dev/null 2>&1
rm -r away
[ "$(left | wc -w)" = 7 ] || fail "not the journals of two kills: $(left)"
alone "$V" recover >out 2>err
[ $? = 3 ] || fail "recover over what it can't merge: not status 3: $(cat out err)"
grep -q "killed.db: .* recovered" out || fail "one journal kept another from being merged: $(cat out err)"
grep -q "away/killed.db" err || fail "what can't be merged is not named: $(cat err)"
find "$VRAMSCOPE_JOURNAL_DIR" -name '*.vsj' ! -name 'vramscope-4194303-*' -delete
[ "$(left)" = "$stay" ] || fail "left: $(left), not $stay"
kill $pid
exec 5<&-
wait $pid 2>/dev/null

# the next run does it as well
"$V" run -q -o next.db -- true || fail "run"
[ "$(left)" = "full.db.vsj some.vsj vramscope-4194303-79.vsj " ] || fail "after a run: $(left)"
echo "what holds nothing is removed"
