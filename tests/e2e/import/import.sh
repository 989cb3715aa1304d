#!/bin/bash
# PyTorch snapshots as recordings: every figure of a known one, all protocols alike, ranks as processes; and what is no snapshot is
# one line that says why.
. "$(dirname "$0")/../lib/command.bash"
command -v sqlite3 >/dev/null || { echo "no sqlite3" && exit 77; }
PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1 python3 "$HERE/make_snapshots.py" . >made || exit 1

is() { # DB SQL EXPECTED
    local got
    got=$(sqlite3 -batch -noheader "$1" "$2" 2>&1)
    [ "$got" = "$3" ] || no "$1: $2: '$got', not '$3'"
}
import() { "$V" import -o "$1" "${@:2}" >out 2>&1 || no "import $*: $(cat out)"; }
# every byte of a small one: 1000 B lived when it began; 5 MiB, 3 MiB, 700 B, 2 MiB came, 5 and 3 MiB went
import known.db known.pickle
is known.db "SELECT op, size_bytes, phase FROM event WHERE op LIKE 'block%' ORDER BY seq" "block_alloc|1000|none
block_alloc|5242880|forward
block_alloc|3145728|backward
block_free|5242880|backward
block_alloc|700|optimizer
block_free|3145728|none
block_deferred|3145728|none
block_alloc|2097152|forward
block_reusable|3145728|none"
is known.db "SELECT peak_bytes FROM peak WHERE kind = 'allocated'" $((5242880 + 3145728 + 1000))
is known.db "SELECT peak_bytes FROM peak WHERE kind = 'reserved'" $((22 << 20))
is known.db "SELECT count(*) FROM step" 1
is known.db "SELECT line FROM allocation WHERE size_bytes = 5242880" "/app/model.py:10 forward"
is known.db "SELECT line FROM allocation WHERE size_bytes = 3145728" "MmBackward0"
is known.db "SELECT end_ns IS NOT NULL, pid IS NULL, rank IS NULL FROM process" "1|1|1"
is known.db "SELECT count(*) FROM mismatch" 0
is known.db "SELECT count(*) FROM loss WHERE code <> 'imported'" 0
is known.db "PRAGMA integrity_check" ok
for command in report waste peak "peak --by library" "peak --by role"; do
    # shellcheck disable=SC2086
    "$V" $command known.db | grep -E 'VRAMSCOPE_|run --access' && no "$command advises an option of run, which a snapshot knows nothing of"
done
"$V" report --all known.db >report || no "report: status $?"
grep -q 'imported from a PyTorch snapshot' report || no "the report does not say where it comes from"
grep -q 'begins in the middle of the run: 1 block from before' report || no "not said that the trace began late"
# rules afterwards: what lived before stays outside any phase, though forward begins in the same instant; a profiler's ranges can be phases
import ranged.db ranged.pickle
"$V" peak --by phase ranged.db >asked || no "peak: $(cat asked)"
grep -Eq '^ *none .* 1$' asked || no "what lived before is in a phase: $(cat asked)"
for rule in --steps='Optimizer*' --phases='opt=Optimizer*'; do
    "$V" peak --by phase "$rule" ranged.db >out 2>&1 || no "$rule: $(cat out)"
    diff asked out >difference || no "$rule: other phases at the peak: $(cat difference)"
done
"$V" report --all --phases='opt=Optimizer*' ranged.db | grep -Eq '^  opt +1 ' || no "no phase of a profiler's range"
refused "what has such a name in ranged.db is a mark, a start/end range or an automatic phase" "$V" report --all --phases='x=forward' ranged.db
# the same program at every protocol; the totals are those of the snapshot's end
for p in 2 3 4 5; do
    import "native$p.db" "native$p.pickle"
    python3 - "native$p.pickle" <<'END' >totals
import pickle, sys
s = pickle.load(open(sys.argv[1], "rb"))
print(sum(b["requested_size"] for g in s["segments"] for b in g["blocks"] if b["state"] == "active_allocated"), sum(g["total_size"] for g in s["segments"]), sep="|")
END
    is "native$p.db" "SELECT sum(end_bytes) FILTER (WHERE kind = 'allocated'), sum(end_bytes) FILTER (WHERE kind = 'reserved') FROM peak" "$(cat totals)"
done
for name in midway expandable_midway expandable_retry; do
    import "$name.db" "$name.pickle"
    python3 - "$name.pickle" <<'END' >totals
import pickle, sys
s = pickle.load(open(sys.argv[1], "rb"))
print(sum(b["requested_size"] for g in s["segments"] for b in g["blocks"] if b["state"] == "active_allocated"), sum(g["total_size"] for g in s["segments"]), sep="|")
END
    is "$name.db" "SELECT sum(end_bytes) FILTER (WHERE kind = 'allocated'), sum(end_bytes) FILTER (WHERE kind = 'reserved') FROM peak" "$(cat totals)"
    is "$name.db" "SELECT count(*) FROM loss WHERE why LIKE '%do not fit%'" 0
done

for c in "peak known.db" "plot known.db" "diff known.db native2.db"; do
    # shellcheck disable=SC2086
    "$V" $c >out 2>&1 || no "$c: status $?: $(cat out)"
done

# exported and imported again: what lived before the trace is still from before, outside any phase
for name in known midway expandable_midway; do
    "$V" export -f pytorch "$name.db" -o "$name.again.pickle" >out 2>&1 || no "export $name: $(cat out)"
    import "$name.again.db" "$name.again.pickle"
    for q in "SELECT kind, peak_bytes, end_bytes FROM peak ORDER BY device, 1" "SELECT phase = 'none', sum(size_bytes), count(*) FROM live_at_peak GROUP BY 1" \
        "SELECT count(*) FROM loss WHERE why LIKE 'the trace begins in the middle of the run%'" "SELECT count(*) FROM loss WHERE why LIKE '%do not fit%'"; do
        is "$name.again.db" "$q" "$(sqlite3 -batch -noheader "$name.db" "$q")"
    done
done

# two devices; ranks by their files' names
import devices.db devices.pickle
is devices.db "SELECT count(DISTINCT device) FROM peak WHERE kind = 'reserved' AND peak_bytes > 0" 2
import job.db rank0.pickle job_rank-1.pickle
is job.db "SELECT id, rank FROM process ORDER BY id" "1|0
2|1"
is job.db "PRAGMA integrity_check" ok
import second.db job_rank-1.pickle
for q in "SELECT kind, peak_bytes, end_bytes FROM peak WHERE process = P ORDER BY 1" "SELECT size_bytes, line, phase FROM live_at_peak WHERE process = P ORDER BY 1, 2"; do
    is job.db "${q/P/2}" "$(sqlite3 -batch -noheader second.db "${q/P/1}")"
done
"$V" report --all --process=2 job.db >out 2>&1 || no "report of the second process: $(cat out)"
import untimed.db untimed.pickle
is untimed.db "SELECT count(*) FROM loss WHERE why LIKE 'phases and steps are those%'" 1
is untimed.db "SELECT count(*) FROM loss WHERE why LIKE '%has no times%'" 1
import frameless.db frameless.pickle
is frameless.db "SELECT count(*) FROM loss WHERE why LIKE 'no call stack shows a phase%'" 1
is frameless.db "SELECT count(*) FROM rng" 0
import retry.db retry.pickle
[ "$(sqlite3 retry.db "SELECT sum(value) FROM counter WHERE name = 'out_of_memory'")" = "$(python3 -c 'import pickle; print(sum(e["action"] == "oom" for e in pickle.load(open("retry.pickle", "rb"))["device_traces"][0]))')" ] || no "other out-of-memory than in the trace"
"$V" report --all retry.db | grep -q '^OUT OF MEMORY on device 0' || no "the report does not lead with the out-of-memory"
"$V" report --all retry.db | grep -q 'the framework gave up; the driver had 32.00 MiB free' || no "what the driver had free at the out-of-memory is not said"

# stacks of what lives and no trace: what lived, by line, of which no peak is known; so it is where a trace begins with memory, or has one entry
untold() {
    "$V" check "$@" >out 2>&1
    [ $? = 3 ] && tr -s '\n ' ' ' <out | grep -qF "$text" || no "check $*: not status 3 with '$text': $(cat out)"
}
python3 - <<'END' >totals
import pickle
s = pickle.load(open("state.pickle", "rb"))
print(sum(b["requested_size"] for g in s["segments"] for b in g["blocks"] if b["state"] == "active_allocated"))
END
for name in state state_no_traces; do
    import $name.db $name.pickle
    is $name.db "SELECT sum(size_bytes) FROM live_at_peak" "$(cat totals)"
    is $name.db "SELECT count(*) FROM loss WHERE why LIKE 'the snapshot has no history%'" 1
    is $name.db "SELECT ifnull(start_realtime_ns, 'unknown') FROM process" unknown
    is $name.db "SELECT DISTINCT line FROM live_at_peak" "/app/model.py:10 forward"
done
"$V" report --all state.db | grep -q '1970' && no "a snapshot without times is of 1970"
text="the snapshot's trace begins with 22.00 MiB reserved: what was used before is unknown" untold --max-peak=1GiB state.db
text="begins with 2.00 MiB reserved: what was used before is unknown" untold --max=phase=forward:1GiB known.db
import one_entry.db one_entry.pickle
text="begins with 22.00 MiB reserved" untold --against known.db one_entry.db 2>/dev/null
"$V" check --max-peak=1MiB state.db >out 2>&1
[ $? = 1 ] || no "what was seen beyond a limit is beyond it: $(cat out)"
# until 2.0 frames and requests stand in a block's history; addresses may have the uppermost bit; names may be qualified
for name in old_history high qualified; do
    import $name.db $name.pickle
    for q in "SELECT kind, peak_bytes, end_bytes FROM peak ORDER BY 1" "SELECT size_bytes, phase, role FROM allocation WHERE op = 'block_alloc' ORDER BY alloc_seq" "SELECT count(*) FROM loss WHERE why LIKE '%not fit%'" "SELECT count(*) FROM step" \
        "SELECT size_bytes, line IS NULL FROM live_at_peak ORDER BY 1"; do
        is $name.db "$q" "$(sqlite3 -batch -noheader known.db "$q")"
    done
done
# a phase ends with the last entry that is its own: what passes before the next one is nobody's
import idle.db idle.pickle
is idle.db "SELECT max(t_ns) >= 1600000000, (SELECT sum(ns) < 1000000 FROM phase_stat) FROM event" "1|1"
is idle.db "SELECT count(*) FROM step" 1
# what the driver had free, as the entry says it
import device_free.db device_free.pickle
is device_free.db "SELECT free_bytes FROM oom" $((300 << 20))
"$V" report --all device_free.db | grep -q 'nobody could ask the driver' && no "what the driver had free is in the snapshot, and it is said that nobody could ask"

# what is none
refused "name a snapshot" "$V" import -o x.db
refused "name the database" "$V" import known.pickle
refused "is there already" "$V" import -o known.db known.pickle
refused "can't be opened" "$V" import -o x.db nothing.pickle
refused "no regular file" "$V" import -o x.db .
refused "is truncated" "$V" import -o x.db bad_truncated.pickle
refused "is not a pickle" "$V" import -o x.db bad_empty.pickle
refused "is not a pickle" "$V" import -o x.db bad_text.pickle
refused "is not a pickle" "$V" import -o x.db bad_protocol0.pickle
refused "asks for code to be run" "$V" import -o x.db bad_evil.pickle
[ ! -e evil ] || no "the pickle's code ran"
refused "no PyTorch memory snapshot: it has no device_traces" "$V" import -o x.db bad_other.pickle
refused "no PyTorch memory snapshot: its value is no dict" "$V" import -o x.db bad_list.pickle
refused "is truncated" "$V" import -o x.db bad_marks.pickle
refused "a memo number is beyond" "$V" import -o x.db bad_memo.pickle
refused "more events than a file of its size" "$V" import -o x.db bad_shared.pickle
refused "has no history and no call stacks, only what there was when it was dumped: call torch.cuda.memory._record_memory_history() before" "$V" import -o x.db bad_unrecorded.pickle
refused "bad_gzip.pickle is packed by gzip: unpack it first" "$V" import -o x.db bad_gzip.pickle
refused "bad_zip.pickle is a zip archive, as torch.save writes" "$V" import -o x.db bad_zip.pickle
refused "an entry of its trace, number 7 has no size; dump it again" "$V" import -o x.db bad_sizeless.pickle
refused "an entry of its trace, number 8 has no size" "$V" import -o x.db bad_negative.pickle
refused "an entry of its trace, number 9 has no addr" "$V" import -o x.db bad_huge.pickle
refused "segment 1 has no total_size" "$V" import -o x.db bad_segment.pickle
refused "a block of a segment, number 1 has no size" "$V" import -o x.db bad_block.pickle
# history that was stopped before the dump, and an entry that is gone: what is left is shown, with a note, and no replay of it is answered
for name in stopped one_less; do
    "$V" import -o $name.db $name.pickle >/dev/null || no "import of $name"
    "$V" report --all $name.db >out && tr '\n' ' ' <out | tr -s ' ' | grep -qE "NOTE: (an entry does|[0-9]+ entries do) not fit to the snapshot's own end state" || no "$name: no note: $(grep NOTE out)"
    refused "$name.db lacks entries, as some of its snapshot's do not fit to its own end" "$V" whatif $name.db
    refused "$name.db lacks entries" "$V" whatif -e batch=0.5 $name.db
done
"$V" import -o newer.db newer.pickle >/dev/null && "$V" report --all newer.db | tr '\n' ' ' | tr -s ' ' | grep -q 'NOTE: 2 entries are of a kind that this version does not know' || no "entries of a kind that is not known"
refused "larger than 4 GiB" "$V" import -o x.db bad_large.pickle
refused "import: nowhere/x.db can't be written: No such file or directory: make its directory" "$V" import -o nowhere/x.db known.pickle
"$V" import -o x.db known.pickle bad_truncated.pickle >out 2>err && no "half a job was imported"
[ "$(wc -l <err)" = 1 ] || no "half a job: $(cat err)"

# ended on the way
python3 - "$V" <<'END' || no "see above"
import glob, signal, subprocess, sys, time

bad = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    p = subprocess.Popen([sys.argv[1], "import", "-o", "x.db"] + ["native2.pickle"] * 500, stdout=subprocess.DEVNULL,
                         preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    until = time.monotonic() + 20
    while not glob.glob("x.db.importing-*-1") and p.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    p.send_signal(number)
    if p.wait(timeout=20) != -number:
        bad.append(f"{number.name}: status {p.returncode}")
    bad += [f"{number.name}: {name}" for name in glob.glob("x.db*")]
print("\n".join(bad))
raise SystemExit(bool(bad))
END
[ -z "$(find . -name '*importing*' -o -name x.db)" ] || no "left behind: $(find . -name '*importing*' -o -name x.db)"
[ $failures = 0 ] && echo "ok"
exit $((failures > 0))
