#!/bin/bash
# What PyTorch 2.15 adds to snapshots is read: pools that are gone, the program's words, native frames, marked steps, page-locked memory.
. "$(dirname "$0")/../lib/command.bash"
command -v sqlite3 >/dev/null || { echo "no sqlite3" && exit 77; }
export COLUMNS=400 # no sentence is broken
PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1 python3 "$HERE/make_newest.py" . >made || exit 1
is() { # DB SQL EXPECTED
    local got
    got=$(sqlite3 -batch -noheader "$1" "$2" 2>&1)
    [ "$got" = "$3" ] || no "$1: $2: '$got', not '$3'"
}
import() { "$V" import -o "$1.db" "$1.pickle" >out 2>&1 || no "import $1: $(cat out)"; }

# every block is of the pool that its entry names, also where its segment went back before the end: a replay is exact
python3 - <<'END' >pools || exit 1
import pickle
for t in pickle.load(open("pools.pickle", "rb"))["device_traces"]:
    sums = {}
    for e in t:
        if e["action"] == "alloc":
            sums[e["pool_id"][1]] = sums.get(e["pool_id"][1], 0) + e["size"]
print("\n".join(f"{p}|{n}" for p, n in sorted(sums.items())))
END
[ "$(wc -l <pools)" = 3 ] || no "the snapshot has not three pools: $(cat pools)"
import pools
sqlite3 -batch -noheader -separator ' ' pools.db "SELECT op, ifnull(address, 0), ifnull(size_bytes, 0) FROM event WHERE op IN ('pool_begin', 'pool_end', 'block_alloc') ORDER BY seq" |
    awk '$1 == "pool_begin" { p = $2 } $1 == "pool_end" { p = 0 } $1 == "block_alloc" { n[p + 0] += $3 } END { for (p in n) printf "%d|%d\n", p, n[p] }' | sort -n >got
diff pools got >out || no "bytes of pools: $(cat out)"
import pools_midway
for name in pools pools_midway; do
    is $name.db "SELECT count(*) FROM meta WHERE key = 'torch_pools_unknown'" 0
    "$V" whatif --policy=torch-native $name.db >out && grep -q 'torch-native: .*exact: \([0-9]*\) of \1 addresses' out || no "$name: $(cat out)"
done

# without the requests of frees (skip_actions) a block lives until its free was complete, and nothing is lost
for name in pools pools_midway; do
    other=${name/pools/skipped}
    import $other
    for q in "SELECT kind, peak_bytes, end_bytes FROM peak ORDER BY 1" "SELECT size_bytes, count(*) FROM live_at_peak GROUP BY 1 ORDER BY 1" "SELECT count(*) FROM leak" \
        "SELECT count(*) FROM loss WHERE why LIKE '%not fit%'" "SELECT count(*) FROM loss WHERE code <> 'imported'"; do
        is $other.db "$q" "$(sqlite3 -batch -noheader $name.db "$q")"
    done
    is $other.db "SELECT count(*) FROM loss WHERE why LIKE 'the snapshot was recorded without requests of frees%'" 1
    is $name.db "SELECT count(*) FROM loss WHERE why LIKE 'the snapshot was recorded without requests of frees%'" 0
done

# the line is the innermost of the program's Python frames, wherever native ones lie; under a node it is the node, and under none there is none
import known
is known.db "SELECT size_bytes >> 20, line FROM allocation WHERE op = 'block_alloc' AND size_bytes < 6 << 20 ORDER BY 1" "1|/app/model.py:10 forward
2|/app/train:7 <module>
3|AddmmBackward0
4|
5|/app/torch/trainer.py:3 step"
is known.db "SELECT count(*) FROM frame WHERE function IS NULL OR function IN ('?', '??') OR (kind = 1 AND line IS NOT NULL)" 0
is known.db "SELECT count(*) FROM frame WHERE kind = 1 AND function = '_PyEval_EvalFrameDefault'" 1
is known.db "SELECT DISTINCT owner FROM allocation WHERE op = 'block_alloc'" libtorch_cpu.so
# what the program said is the layer: of several words the first, of no block that is none; an annotation moves no memory and is nothing unknown
is known.db "SELECT size_bytes >> 20, layer FROM allocation WHERE op = 'block_alloc' AND size_bytes > 20 << 20 ORDER BY 1" '21|warm
22|packed
23|{"at":"step.3"}
24|'
is known.db "SELECT count(*) FROM loss WHERE why LIKE '%does not know%' OR why LIKE '%not fit%'" 0
"$V" peak --by layer known.db | grep -Eq '^ *packed +22.00 MiB' || no "layers: $("$V" peak --by layer known.db)"
import newer
is newer.db "SELECT count(*) FROM loss WHERE why = 'an entry is of a kind that this version does not know: memory that it made or freed is not counted'" 1

# an optimizer's step is its phase from mark to mark, though no stack says so and though nothing is allocated in it
phases() { sqlite3 -batch -noheader "$1.db" "SELECT size_bytes >> 20, phase FROM event WHERE op = 'block_alloc' ORDER BY seq" | paste -sd' '; }
steps() { sqlite3 -batch -noheader "$1.db" "SELECT t_push_ns, t_pop_ns FROM range WHERE phase = 'optimizer' ORDER BY 1" | paste -sd' '; }
for name in marks marks_late marks_broken; do import $name; done
[ "$(phases marks)" = "1|none 3|optimizer 2|none 5|none 7|optimizer" ] && [ "$(steps marks)" = "14000|49000 63000|84000 98000|105000" ] || no "marks: $(phases marks), $(steps marks)"
[ "$(phases marks_late)" = "1|optimizer 3|optimizer 2|none 5|none 7|optimizer" ] || no "a step that began before: $(phases marks_late)"
[ "$(phases marks_broken)" = "1|optimizer 3|none 2|none 5|none 7|none" ] || no "ends without begins: $(phases marks_broken)"
"$V" report --all marks.db | grep -q "no call stack shows a phase: only optimizers' steps are known, which PyTorch marked" || no "marks: $("$V" report --all marks.db | grep NOTE)"
is marks.db "SELECT name, count(*) FROM range WHERE phase = 'none' GROUP BY 1 ORDER BY 1" "Optimizer.step#SGD.step|3
Optimizer.zero_grad#SGD.zero_grad|1
mine|1"

# page-locked memory of the host, to the byte, from before the trace on; in no total of a device
read -r most end <made
for name in pinned registered host_alone host_less; do import $name; done
for name in pinned registered host_alone; do
    space=${name/host_alone/pinned}
    is $name.db "SELECT peak_bytes, end_bytes FROM peak WHERE kind = '$space'" "$most|$end"
    is $name.db "SELECT count(*), sum(size_bytes) FROM event WHERE op = 'alloc' AND space = '$space' AND t_ns = 0 AND seq < (SELECT seq FROM event WHERE op = 'record_start')" "2|3145728"
    is $name.db "SELECT line FROM allocation WHERE size_bytes = 12345" "/app/train:7 <module>"
done
is known.db "SELECT count(*) FROM event WHERE space IN ('pinned', 'registered')" 0
is pinned.db "SELECT count(*) FROM peak WHERE kind IN ('allocated', 'reserved') AND device <> 0" 0
"$V" report --all pinned.db | grep -q 'NOTE: pinned memory is all' || no "pinned: $("$V" report --all pinned.db | grep NOTE)"
"$V" report --all registered.db | grep -q 'NOTE: pinned memory is all' && no "registered memory is told apart, and the report says it is not"
"$V" report --all host_alone.db | grep -q 'no device memory was ever allocated' || no "host alone: $("$V" report --all host_alone.db)"
"$V" report --all host_less.db | grep -q "3 entries do not fit to the snapshot's own end state: totals of pinned memory may be wrong by them" || no "host_less: $("$V" report --all host_less.db | grep NOTE)"
"$V" whatif host_less.db >out 2>&1 || no "what-if of the device, where the host's entries do not fit: $(cat out)"
"$V" import -o x.db bad_host.pickle >out 2>err && no "a damaged trace of the host was imported"
[ "$(wc -l <err)" = 1 ] && grep -q 'an entry of its trace, number 1 has no size' err || no "bad_host: $(cat err)"
for name in pools known marks pinned; do is $name.db "PRAGMA integrity_check" ok; done
[ $failures = 0 ] && echo "ok"
exit $((failures > 0))
