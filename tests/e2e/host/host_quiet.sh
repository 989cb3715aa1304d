#!/bin/bash
# A process without CUDA has no file and no thread more, the same descriptors and, but for our own, the same mappings, and takes less than a
# millisecond of a processor more (median of paired runs, in random order).  Real programs run as they do without us.
. "$(dirname "$0")/../lib/lib.bash"
command -v python3 >/dev/null || skip "there is no python3"

cat >"$dir/pairs.py" <<'END'
import os, random, statistics, sys, time
shim, directory = sys.argv[1:]
plain, with_shim = dict(os.environ), dict(os.environ, LD_PRELOAD=shim)
plain.pop("LD_PRELOAD", None)
wall = {id(plain): [], id(with_shim): []} # and of the clock, of which the least says the same on a busy machine
def once(env):
    began = time.perf_counter_ns()
    used = os.wait4(os.posix_spawn("/bin/true", ["true"], env), 0)[2] # of processors: others have them, too
    wall[id(env)].append(time.perf_counter_ns() - began)
    return (used.ru_utime + used.ru_stime) * 1e9
def round_():
    order = [plain, with_shim]
    random.shuffle(order)
    took = {id(env): once(env) for env in order}
    return took[id(with_shim)] - took[id(plain)]
os.chdir(directory)
best = None
for attempt in range(3): # a machine that is busy is asked again
    added = sorted(round_() for _ in range(400))
    median = max(statistics.median(added), min(wall[id(with_shim)]) - min(wall[id(plain)])) / 1e6
    best = median if best is None else min(best, median)
    if best < 1:
        break
print(f"{best:.3f} ms added: median of 400 pairs, of a processor, or least of the clock")
sys.exit(best >= 1 or bool(os.listdir(".")))
END
mkdir "$dir/empty"
python3 "$dir/pairs.py" "$shim" "$dir/empty" || fail "a process without CUDA takes a millisecond more, or has files"

# what the kernel says of such a process: no thread, no descriptor, no file of ours
cat >"$dir/self.py" <<'END'
import os, threading
print(sorted(os.listdir("/proc/self/task")) == [str(os.getpid())], [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if int(n) > 2 and os.path.exists(f"/proc/self/fd/{n}")])
print(sorted({line.split()[-1] for line in open("/proc/self/maps") if "vsj" in line or "unwind" in line}))
END
run_shimmed python3 -I "$dir/self.py"
[ -z "$(find "$run" -name '*.db*' -o -name '*.vsj')" ] || fail "a process without CUDA has a file"

# real programs, and the files that they write
same() { # NAME COMMAND: in a directory of its own each time
    local name=$1 plain
    shift
    mkdir -p "$dir/w"
    (cd "$dir/w" && bash -c "$1") >"$dir/plain.out" 2>"$dir/plain.err" </dev/null
    plain=$?
    rm -rf "$dir/w.plain" && mv "$dir/w" "$dir/w.plain" && mkdir "$dir/w"
    new_run
    (cd "$dir/w" && LD_PRELOAD=$shim VRAMSCOPE_OUTPUT=$db bash -c "$1") >"$run/out" 2>"$run/err" </dev/null
    status=$?
    [ $status = $plain ] || fail "$name: status $status, $plain without the shim"
    cmp -s "$dir/plain.out" "$run/out" || fail "$name: other output: $(diff "$dir/plain.out" "$run/out" | head)"
    cmp -s "$dir/plain.err" "$run/err" || fail "$name: other stderr: $(diff "$dir/plain.err" "$run/err" | head)"
    diff -r "$dir/w.plain" "$dir/w" >"$run/difference" || fail "$name: other files: $(head "$run/difference")"
    [ ! -e "$db" ] || fail "$name: a database, of a program without CUDA"
    rm -rf "$dir/w"
}
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' SOURCE_DATE_EPOCH=0
same shell 'for i in {1..50}; do echo $((i * i)) | sort | tee f$i >/dev/null & done; wait; cat f* | sort -n; trap "echo bye" EXIT; exit 7'
same python 'python3 -c "
import ctypes, hashlib, json, multiprocessing, os, random, signal, sqlite3, subprocess, threading, time, zlib
random.seed(1)
db = sqlite3.connect(\"x.db\"); db.execute(\"CREATE TABLE t(a)\"); db.executemany(\"INSERT INTO t VALUES(?)\", [(i,) for i in range(5000)]); db.commit()
print(db.execute(\"SELECT sum(a), sqlite_version() FROM t\").fetchall())
print(ctypes.CDLL(None).getppid() == os.getppid(), hasattr(ctypes.CDLL(None), \"cuMemAlloc_v2\"))
t = [threading.Thread(target=lambda: hashlib.sha256(bytes(100000)).hexdigest()) for _ in range(8)]; [x.start() for x in t]; [x.join() for x in t]
print(subprocess.run([\"echo\", \"hi\"], capture_output=True).stdout, zlib.crc32(b\"x\" * 1000))
with multiprocessing.get_context(\"fork\").Pool(3) as p: print(p.map(abs, range(-5, 5)))
seen = []; signal.signal(signal.SIGALRM, lambda *a: seen.append(\"alarm\")); signal.setitimer(signal.ITIMER_REAL, 0.01)
while not seen: time.sleep(0.01)
print(seen)
os.abort() if False else os._exit(3)
"'
command -v sqlite3 >/dev/null && same sqlite 'sqlite3 y.db "CREATE TABLE t(a); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x < 10000) INSERT INTO t SELECT x FROM c; SELECT sum(a) FROM t; PRAGMA integrity_check"'
if command -v gcc >/dev/null; then
    # shellcheck disable=SC2016
    same gcc 'printf "#include <stdio.h>\nint main(void){puts(\"built\");return 5;}\n" >a.c && gcc -O2 -o a a.c -Wl,--build-id=none && ./a'
    command -v make >/dev/null && same make 'printf "all: b\n\t./b; echo \$\$?\nb: b.o\n\tgcc -o b b.o -Wl,--build-id=none\nb.o: b.c\n\tgcc -c b.c\n" >Makefile; echo "int main(void){return 4;}" >b.c; make -j4'
fi
command -v g++ >/dev/null && same g++ 'printf "#include <iostream>\n#include <stdexcept>\nint main(){try{throw std::runtime_error(\"x\");}catch(std::exception&e){std::cout<<e.what()<<std::endl;}throw 1;}\n" >c.cc && g++ -o c c.cc -Wl,--build-id=none && ulimit -c 0; { ./c; echo $?; } 2>e; head -n 1 e; rm e'
command -v git >/dev/null && same git 'git init -q r && cd r && git config user.name n && git config user.email e@x && git config gc.auto 0 && seq 100 >f && git add f && git commit -qm one && seq 200 >f && git commit -qam two && git log --format="%H %s" && git diff --stat HEAD~ && git fsck 2>&1 && rm -f .git/index'
command -v perl >/dev/null && same perl 'perl -e "fork; wait; print qq(x); kill 15, \$\$"'
same tar 'mkdir t && for i in 1 2 3; do seq $i >t/$i; done; tar --sort=name --mtime=@0 -czf - t | gzip -d | md5sum; find t -type f | sort | xargs cat; awk "BEGIN{print 2^10}"; dd if=/dev/zero bs=1k count=10 2>/dev/null | wc -c'
if in_full && [ -n "${TEST_PYTHON:-}" ]; then
    same torch "$TEST_PYTHON -c 'import torch; torch.manual_seed(0); a = torch.randn(64, 64, requires_grad=True); (a @ a).sum().backward(); print(a.grad.sum().item(), torch.cuda.is_available())'"
    same numpy "$TEST_PYTHON -c 'import numpy; print(numpy.linalg.norm(numpy.arange(10000.0).reshape(100, 100)))'"
fi
echo "nobody noticed"
