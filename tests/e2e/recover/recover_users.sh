#!/bin/bash
# Of other users' journals and databases root's commands believe none and write none; they say who can complete the file, by which command, and that
# user can.
. "$(dirname "$0")/../lib/lib.bash"
[ "$(id -u)" = 0 ] || skip "not root: only root can be other users"
user=nobody
as_user() { setpriv --reuid="$user" --regid="$(id -g $user)" --clear-groups "$@"; }
chmod 711 "$dir"
as_user "$V" --version >/dev/null 2>&1 || skip "$user cannot be, or cannot run $V"
home=$dir/home journals=$dir/journals
mkdir -m 755 "$home"
chown $user "$home"
mkdir -m 1777 "$journals" # as /dev/shm
export VRAMSCOPE_JOURNAL_DIR=$journals

killed() { # as the user, after so many ALLOCATIONS
    (as_user env LD_PRELOAD="$shim" VRAMSCOPE_RING_EVENTS=1048576 VRAMSCOPE_OUTPUT="$1" "$tests/prog_exit" kill "${2:-24000}") >/dev/null 2>&1
    journal=$(find "$journals" -name '*.vsj')
    [ -n "$journal" ] || fail "no journal was left"
}
unchanged() { find "$home" "$journals" -type f -printf '%p %u %s %T@\n' | grep -v -e '-shm ' | sort; }
quietly_root() { # root's recover finds everything that lies about, its own and others'
    (cd "$dir" && unshare --mount sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' sh "$V" recover) >"$dir/out" 2>"$dir/err"
}
unshare --mount true 2>/dev/null || skip "there may be no mount namespace here"

# the name is taken, nothing is in it yet
as_user touch "$home/empty.db"
"$V" report --all "$home/empty.db" 2>"$dir/err" && fail "an empty file is shown"
grep -q "empty.db is empty: .*sudo -u '$user' vramscope recover $home/empty.db" "$dir/err" || fail "root is told: $(cat "$dir/err")"
rm "$home/empty.db"

# begun: whether the file and its log name their journal.  The first page is written before anything is in it.
begun() {
    rm -rf "$dir/copy"
    mkdir "$dir/copy"
    cp "$home"/run.db* "$dir/copy"
    [ -n "$(sqlite3 "$dir/copy/run.db" "SELECT value FROM meta WHERE key = 'journal' AND value <> ''" 2>/dev/null)" ]
}
count=24000
killed "$home/run.db"
for ((i = 0; i < 20; i++)); do # until the kill comes late enough
    ! begun || break
    rm -f "$home"/run.db* "$journal"
    count=$((count + 24000))
    killed "$home/run.db" $count
done
unchanged >"$dir/before"
COLUMNS=1000 "$V" report --all "$home/run.db" >"$dir/out" 2>"$dir/err"
[ $? = 3 ] || fail "root's report of another user's file: not status 3: $(cat "$dir/out" "$dir/err")"
head -n 1 "$dir/out" | grep -q "^INCOMPLETE: .*$journal belongs to $user: sudo -u '$user' vramscope recover $journal" || fail "root is told: $(head -n 1 "$dir/out")"
"$V" peak "$home/run.db" >/dev/null 2>&1 # which looks up names of functions, and writes them down
"$V" recover "$journal" >"$dir/out" 2>"$dir/err"
[ $? = 2 ] || fail "recover of another user's journal: not status 2"
grep -q "sudo -u '$user' vramscope recover $journal" "$dir/err" || fail "root is told: $(cat "$dir/err")"
quietly_root || fail "others' journals make root's recover fail: $(cat "$dir/err")"
grep -q "sudo -u '$user' vramscope recover $journal" "$dir/out" || fail "root's recover says: $(cat "$dir/out")"
unchanged >"$dir/after"
diff "$dir/before" "$dir/after" >"$dir/difference" || fail "root wrote for $user: $(cat "$dir/difference")"
[ -z "$(find "$home" ! -user $user)" ] || fail "root's files: $(find "$home" ! -user $user)"
as_user "$V" recover "$journal" >"$dir/out" 2>"$dir/err" || fail "$user's own recover: $(cat "$dir/out" "$dir/err")"
db=$home/run.db
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND status = 0" $count
"$V" report --all "$db" >"$dir/out" || fail "root's report of what $user completed: $?"

# a journal that names a file of root's: by itself, through a link, in a directory that only root may write to
mkdir "$dir/root"
killed "$home/trap.db"
rm -f "$home"/trap.db*
for target in "$dir/root/made.db" "$dir/root/victim"; do
    echo precious >"$dir/root/victim"
    ln -sfn "$target" "$home/trap.db"
    quietly_root || fail "a link: $(cat "$dir/err")"
    "$V" recover "$journal" >/dev/null 2>&1 && fail "root follows a link that $user laid"
    [ "$(cat "$dir/root/victim")" = precious ] || fail "root's recover wrote where $user's journal said"
    [ ! -e "$dir/root/made.db" ] || fail "root's recover made what $user's journal named"
done
# the same journal given to root, as a hard link or a gift: root's own now, but not what it names
rm -f "$home/trap.db"
chown root "$journal"
"$V" recover "$journal" >"$dir/out" 2>"$dir/err"
[ $? = 3 ] || fail "root writes into $user's directory: $(cat "$dir/out" "$dir/err")"
[ ! -e "$home/trap.db" ] || fail "root made a file in $user's directory"
rm -f "$journal"

# one that is killed before its database has anything in it: the name is taken, and that is enough in any directory
mkdir -m 1777 "$dir/shared"
killed "$dir/shared/run.db"
rm -f "$dir"/shared/run.db-*
as_user truncate -s 0 "$dir/shared/run.db"
as_user "$V" recover "$journal" >"$dir/out" 2>"$dir/err"
status=$?
[ $status = 0 ] || grep -q "the journal continues a database" "$dir/err" || fail "in a shared directory: $(cat "$dir/err")"
echo "nothing is written for anybody else"
