#!/bin/bash
# Nothing that a program writes in a dry run stays, whatever way it writes, and it is listed: as root, as somebody else, where no namespace can be
# had, several at once.
. "$(dirname "$0")/../lib/lib.bash"
unset LD_LIBRARY_PATH
mkdir "$dir/tmp" && chmod 755 "$dir" && chmod 1777 "$dir/tmp" && export TMPDIR=$dir/tmp
unshare -m true 2>/dev/null || unshare -Um true 2>/dev/null || skip "this kernel gives no mount namespaces"

cat >"$dir/hostile.py" <<'PY'
"""Writes in every way, and says what it then finds: its own view must be as if all of it had happened."""
import mmap, os, pathlib, shutil, subprocess, sys
os.chdir(sys.argv[1])
here = pathlib.Path.cwd()
open("log", "a").write("more\n")
with open("checkpoint.pt", "wb") as f:
    f.write(b"garbage")
with open("mapped", "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
    m[0:7] = b"GARBAGE"
open(here / "new", "w").write("x" * 1000)
os.rename("old", "renamed")
os.replace("new", "replaced")
os.remove("gone")
os.chmod("mode", 0o600)
os.truncate("short", 0)
os.symlink("log", "link")
os.link("log", "hard")
shutil.rmtree("tree")
os.mkdir("tree")
open("tree/other", "w").write("y")
subprocess.run(["sh", "-c", "echo child >> log; mv by-child moved; touch born"], check=True)
os.utime("times", (1, 1))
os.makedirs("deep/er/est")
# by links: the program's own, and those that were there
os.symlink(here / "victim", "to-file"), os.symlink(here / "safe", "to-folder"), os.symlink("log", "to-log")
open("to-file", "w").write("a"), open("to-folder/kept", "w").write("b"), open("there", "w").write("c")
assert [open(f).read() for f in ("victim", "safe/kept", "linked", "to-log")] == ["a", "b", "c", open("log").read()]
# by descriptors, and of files that were open before
with open("read") as f:
    os.fchmod(f.fileno(), 0o600), os.utime(f.fileno(), (1, 1))
    open(f"/proc/self/fd/{f.fileno()}", "a").write("more")
for fd in 7, 8:
    try:
        os.write(fd, b"open before")
    except OSError:
        pass # as where it is not contained
# names that the C library chooses, directories' own modes, shared memory by its name
import ctypes
libc, name = ctypes.CDLL(None), ctypes.create_string_buffer(b"./chosenXXXXXX")
os.write(libc.mkstemp(name), b"x")
assert os.path.getsize(name.value.decode()) == 1
os.chmod("safe", 0o700), os.utime("safe", (1, 1)), os.mknod("node")
if os.path.exists("/dev/shm/" + sys.argv[2]):
    open("/dev/shm/" + sys.argv[2], "w").write("garbage")
assert open("log").read() == "first\nmore\nchild\n" and not os.path.exists("old") and os.listdir("tree") == ["other"]
assert open("checkpoint.pt", "rb").read() == b"garbage" and os.path.getsize("replaced") == 1000
assert os.stat("mode").st_mode & 0o777 == 0o600
PY
shared=vramscope-fit-test-$$ # memory that others share
echo theirs >"/dev/shm/$shared" && chmod 666 "/dev/shm/$shared" && trap 'rm -rf "$dir" "/dev/shm/$shared"' EXIT
state() { (cd "$1" && find . -printf '%p %y %m %s %T@ %i %l\n' | sort && find . -type f -exec sha256sum {} + | sort); }
prepare() { # DIRECTORY
    mkdir -p "$1/tree/in" "$1/safe"
    ln -s linked "$1/there"
    (cd "$1" && printf 'first\n' >log && for f in checkpoint.pt old replaced gone mode short times by-child tree/a tree/in/b victim safe/kept linked read before again; do echo "$f" >"$f"; done)
    head -c 100000 /dev/urandom >"$1/mapped"
}
as=()
fit() { # STATUS DIRECTORY ARGUMENT...
    local wanted=$1 in=$2 got
    shift 2
    (cd "$in" && timeout 120 "${as[@]}" "$V" fit "$@" 7>>"$in/before" 8<>"$in/again") >"$in.out" 2>"$in.err" </dev/null
    got=$?
    [ $got = "$wanted" ] || fail "fit $*: status $got, not $wanted: $(head -c 3000 "$in.out" "$in.err")"
}
untouched() { # DIRECTORY
    state "$1" >"$1.after"
    [ "$(cat "/dev/shm/$shared")" = theirs ] || fail "shared memory: $(cat "/dev/shm/$shared")"
    diff "$1.before" "$1.after" >"$1.diff" || fail "$1 is not as it was: $(cat "$1.diff")"
}

for who in root apart other; do
    d=$dir/$who
    prepare "$d"
    if [ $who = apart ]; then # as where no mount namespace can be had
        as=(unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_mnt_namespaces && exec "$@"' sh)
        "${as[@]}" true 2>/dev/null || { echo "not tried: this kernel gives no user namespace to take the others from" && continue; }
    fi
    if [ $who = other ]; then
        [ "$(id -u)" = 0 ] || break # this test is somebody else itself
        as=(setpriv --reuid=31337 --regid=31337 --clear-groups)
        chown -R 31337:31337 "$d"
        "${as[@]}" unshare -Um true 2>/dev/null || { echo "not tried: this kernel gives others no namespaces" && break; }
        "${as[@]}" test -x "$V" || { echo "not tried: $V is not for others" && break; }
    fi
    mkdir "$dir/kept-$who" && chown "$(stat -c %u "$d")" "$dir/kept-$who"
    state "$d" >"$d.before"
    fit 3 "$d" -- python3 "$dir/hostile.py" "$d" "$shared"
    untouched "$d"
    for wrote in "$d/log, .*, changed" "$d/checkpoint.pt, .*, changed" "$d/gone, deleted" "$d/born, 0 B"; do
        grep -q "$wrote" "$d.out" || grep -q '[0-9]* more$' "$d.out" || fail "$who: not listed: $wrote: $(cat "$d.out")"
    done
    (cd "$d" && timeout 300 "${as[@]}" "$V" fit --json -- true) 2>&1 | grep -q '"contained": '"$([ $who = apart ] && echo false || echo true)" ||
        fail "$who: in a namespace, or not"
    # the whole list is in JSON, and copies are kept where that is asked for
    fit 3 "$d" --json --keep-writes="$dir/kept-$who/all" -- python3 "$dir/hostile.py" "$d" "$shared"
    untouched "$d"
    python3 -c '
import json, sys
d, written = sys.argv[1], json.load(open(sys.argv[1] + ".out"))["answers"][0]["written"]
how = {w["path"][len(d) + 1:]: w["how"] for w in written if w["path"].startswith(d)}
for name, wanted in {"log": "changed", "checkpoint.pt": "changed", "mapped": "changed", "old": "deleted", "renamed": "created", "gone": "deleted",
                     "mode": "changed", "short": "changed", "by-child": "deleted", "moved": "created", "born": "created", "tree/other": "created",
                     "deep/er/est/": "created", "link": "created", "replaced": "changed", "times": "changed"}.items():
    assert how.get(name) == wanted, (name, how.get(name), how)' "$d" || fail "$who: the list: $(cat "$d.out")"
    [ "$(cat "$dir/kept-$who/all$d/log")" = $'first\nmore\nchild' ] || fail "$who: the copy of the log: $(find "$dir/kept-$who")"
done
as=()

# several at once, one recording each beside the files that they would overwrite
d=$dir/several
prepare "$d"
state "$d" >"$d.before"
pids=()
for i in 1 2 3 4; do
    (cd "$d" && timeout 120 "$V" fit -o "$dir/several-$i.db" -- sh -c 'python3 "$0" "$1" "$2" && exec "$3" 4 512' "$dir/hostile.py" "$d" "$shared" "$tests/prog_sizes" >"$dir/several-$i.out" 2>&1) &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || fail "one of several: $? $(cat "$dir"/several-*.out)"; done
untouched "$d"
for i in 1 2 3 4; do
    [ "$(sqlite3 "$dir/several-$i.db" "SELECT count(*) FROM event WHERE op = 'block_alloc'" 2>/dev/null)" -gt 0 ] || fail "recording $i: $(ls -la "$dir")"
done

# a program that wants to keep what it wrote cannot reach it from outside, and the machine is as it was
mounts=$(cat /proc/self/mountinfo)
fit 3 "$d" -- sh -c 'echo x >/var/tmp/vramscope-fit-test; echo y >/dev/shm/vramscope-fit-test; exit 0'
[ ! -e /var/tmp/vramscope-fit-test ] && [ ! -e /dev/shm/vramscope-fit-test ] || fail "written outside of the folder"
[ "$mounts" = "$(cat /proc/self/mountinfo)" ] || fail "other mounts than before"
[ -z "$(find "$dir" -name '.vramscope-dry-*')" ] || fail "folders left behind: $(find "$dir" -name '.vramscope-dry-*')"

# the folder for it lies behind a link: the recording is found all the same
mkdir "$dir/real" && ln -s "$dir/real" "$dir/behind"
for as in "" "unshare -Ur"; do
    read -ra as <<<"$as"
    [ ${#as[@]} = 0 ] || as+=(sh -c 'echo 0 >/proc/sys/user/max_mnt_namespaces && exec "$@"' sh)
    [ ${#as[@]} = 0 ] || "${as[@]}" true 2>/dev/null || continue
    TMPDIR=$dir/behind fit 0 "$d" -- "$tests/prog_sizes" 4 512
    # what torch.compile keeps is there in the second run, wherever the recording is wanted
    fit 0 "$d" --steps=all -f -o "$dir/compiled.db" -- sh -c 'c=$TORCHINDUCTOR_CACHE_DIR; echo kept: $(ls "$c") >&2; touch "$c/kernel"; exec "$0" 4 512' "$tests/prog_sizes"
    [ "$(grep -o 'kept:.*' "$d.err" | tr '\n' ' ')" = "kept: kept: kernel " ] || fail "torch.compile's caches: $(cat "$d.err")"
done
as=()

# where we are killed the program ends, too
"$V" fit -- sh -c 'echo $$ "$VRAMSCOPE_JOURNAL_DIR"; exec sleep 250' >"$dir/killed.out" 2>"$dir/killed.err" </dev/null &
fit=$!
until [ "$(wc -l <"$dir/killed.err")" -ge 1 ]; do sleep 0.05; done
read -r pid journals <"$dir/killed.err"
kill -KILL $fit; wait $fit 2>/dev/null
for ((i = 0; i < 600; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
kill -0 "$pid" 2>/dev/null && fail "the program goes on without us"
left=("$journals" "$TMPDIR"/.vramscope-dry-*)
[ -d "${left[0]}" ] && [ -d "${left[1]}" ] || fail "no folders of the one that was killed: ${left[*]}"

# a later one removes its folders, and none of those that live
mkdir "$TMPDIR/.vramscope-dry-alive"
flock "$TMPDIR/.vramscope-dry-alive/alive" sleep 250 &
alive=$!
while flock --nonblock "$TMPDIR/.vramscope-dry-alive/alive" true; do sleep 0.05; done
touch -d '2 hours ago' "${left[@]}" "$TMPDIR/.vramscope-dry-alive"
fit 0 "$d" -- "$tests/prog_sizes" 4 512
[ ! -e "${left[0]}" ] && [ ! -e "${left[1]}" ] && [ -d "$TMPDIR/.vramscope-dry-alive" ] || fail "after a later fit: $(ls -ld "${left[@]}" "$TMPDIR"/.vramscope-dry-*)"
pkill -P $alive; wait $alive 2>/dev/null
rm -rf "$TMPDIR/.vramscope-dry-alive"

# more than there is room for: the program is told that the disk is full, and a file with holes takes none
fit 3 "$d" -- truncate -s 1T "$d/holes"
grep -q 'holes, 1.00 TiB' "$d.out" || fail "a file of holes: $(cat "$d.out")"
untouched "$d"
