#!/bin/bash
# "within" is never said where it may be false, and what was seen beyond a limit is beyond it whatever else is missing.  How limits are
# written, and refused:
# test_limits.c, next_command.txt.
. "$(dirname "$0")/../lib/lib.bash"
unset GITHUB_ACTIONS GITHUB_STEP_SUMMARY GITHUB_WORKSPACE
cd "$dir" || exit 1
make_db() { python3 "$SRC/tests/data/make_db.py" "$SRC/shim/trace/schema.sql" "$@" || fail "make_db $*"; }
changed() { # NEW OLD SQL
    cp "$2" "$1" && sqlite3 "$1" "$3" || fail "$3"
}
expect() { # STATUS TEXT ARGUMENT...: the status, and a text that is said
    local wanted=$1 text=$2
    shift 2
    "$V" check "$@" >said 2>&1
    local got=$?
    [ $got = "$wanted" ] || fail "check $*: status $got, not $wanted: $(cat said)"
    tr -s '\n ' ' ' <said >words
    grep -qF -- "$text" words || fail "check $* does not say '$text': $(cat said)"
}
# ---- a run that is whole: 6.96 GiB allocated, 10.03 reserved ----
make_db a.db
expect 0 "within peak allocated, device 0: 6.96 GiB, limit 7.00 GiB" a.db --max-peak=7GiB --max-reserved=10.1GiB --max phase=backward:7GiB --max device=0:7GiB
expect 1 "BEYOND peak allocated, device 0: 6.96 GiB, limit 6.00 GiB (+981.0 MiB)" a.db --max-peak=6GiB
# as in the report: what held most has no line, and the greatest line is the greatest of those that are known
expect 1 "step 2, in logits; what held most: (no Python line; made in optimizer) 2.81 GiB, of the lines known model.py:17 Model.__init__ 1.41 GiB" a.db --max-peak=6GiB
changed function.db a.db "UPDATE peak_live SET size_bytes = size_bytes * 2 WHERE phase = (SELECT id FROM phase WHERE name = 'logits')"
expect 1 "what held most: at::log_softmax (libtorch_cuda.so) 3.9" function.db --max-peak=6GiB
changed lined.db a.db "UPDATE peak_live SET size_bytes = 4096 WHERE phase IN (SELECT id FROM phase WHERE name IN ('optimizer', 'logits'))"
expect 1 "what held most: line model.py:17 Model.__init__ 1.41 GiB" lined.db --max-peak=6GiB
changed layered.db a.db "INSERT INTO frame(id, kind, function, file) VALUES(900, 4, 'Model.layers.0', 'Layer');
  UPDATE stack SET layer = 900 WHERE id IN (SELECT stack FROM peak_live WHERE phase = (SELECT id FROM phase WHERE name = 'forward'))"
expect 1 "of the layers known Model.layers.* " layered.db --max-peak=6GiB
expect 1 "1 within, 2 beyond, 0 that nobody can tell" a.db --max-peak=6GiB --max phase=logits:1MiB --max-reserved=99GiB
expect 1 "0 within, 1 beyond, 1 that nobody can tell" a.db --max-peak=6GiB --max phase=logit:1MiB
expect 3 "it has no phase 'logit': did you mean 'logits'?" a.db --max-peak=7GiB --max phase=logit:1MiB
expect 3 "device 3 is not used in it" a.db --max device=3:7GiB
expect 3 "no file is of rank 0" a.db --max rank=0,reserved:70GiB
[ "$(COLUMNS=80 "$V" check a.db --max-peak=6GiB | wc -L)" -le 80 ] || fail "a line wider than 80 columns"

# ---- what stands against "within" ----
make_db lost.db --kind killed # events were lost, and it was killed
expect 3 "CANNOT TELL peak allocated, device 0: 6.96 GiB, limit 99.00 GiB; events were lost" lost.db --max-peak=99GiB
expect 1 "BEYOND peak allocated" lost.db --max-peak=6GiB
expect 3 "events were lost" lost.db --allow-killed --max-peak=99GiB
changed killed.db a.db "UPDATE meta SET key = 'journal_merged' WHERE key = 'clean_end'"
expect 3 "the process was killed" killed.db --max-peak=99GiB
expect 0 "within" killed.db --max-peak=99GiB --allow-killed
changed unended.db a.db "DELETE FROM meta WHERE key = 'clean_end'"
expect 3 "INCOMPLETE" unended.db --max-peak=99GiB --allow-killed
changed gap.db a.db "INSERT INTO loss VALUES(1, 5, 0, 'not_covered', 'a second copy of the driver')"
expect 3 "calls may have gone past the recording" gap.db --max-peak=99GiB
changed late.db a.db "INSERT INTO mismatch VALUES(1, 1, 1, 0, 'late_allocated', 0, 1048576)"
expect 3 "the recording began late" late.db --max-peak=99GiB
changed differs.db a.db "INSERT INTO mismatch VALUES(1, 7, 9000, 0, 'allocated', 1048576, 1049088)"
expect 3 "our totals and the framework's disagree" differs.db --max-peak=99GiB
changed high.db a.db "INSERT INTO upper_bound VALUES(1, 0, 'allocated', 1, 1, NULL, NULL)" # frees were lost: it may have been less
expect 3 "CANNOT TELL" high.db --max-peak=6GiB
expect 0 "within" high.db --max-peak=7GiB
make_db empty.db --kind empty
expect 3 "no device memory was ever allocated" empty.db --max-peak=1GiB
expect 3 "no device memory was ever allocated" empty.db --no-growth
expect 3 "no device memory was ever allocated" empty.db --against a.db
make_db thinned.db --kind thinned # peaks of devices and phases do not need the events
expect 0 "within" thinned.db --max-peak=7GiB --max phase=logits:7GiB
expect 3 "what it held is known of the peak alone" thinned.db --max line=model.py:41:7GiB
expect 1 "BEYOND" thinned.db --max line=model.py:41:1MiB
# a pool that does not say what it uses: allocated is at least what is known of it, and no more than what is reserved
changed pool.db a.db "UPDATE peak SET known_bytes = 1 << 30, peak_bytes = NULL, end_bytes = NULL WHERE kind = 'allocated';
  INSERT INTO peak VALUES(1, 0, 'unknown_use', 1 << 32, 1, 1, 1 << 32, NULL); UPDATE phase_stat SET allocated_bytes = NULL"
expect 0 "within" pool.db --max-peak=11GiB --max phase=logits:11GiB
expect 3 "a library's pool does not report what it uses" pool.db --max-peak=8GiB
expect 1 "BEYOND" pool.db --max-peak=1023MiB
expect 3 "a library's pool does not report" pool.db --no-growth

# ---- out of memory: what the run needed is not known, unless it went on ----
shim_env=(SIMCUDA_CAPACITY=1GiB SIMCUDA_NVML=off)
shimmed "$tests/prog_oom_caching" giveup
expect 3 "it ran out of memory: 512.0 MiB were asked for beside 900.0 MiB allocated" "$db" --max-peak=2GiB
expect 1 "BEYOND" "$db" --max-peak=1GiB
expect 3 "it ran out of memory" "$db" --max device=0,reserved:2GiB
shimmed "$tests/prog_oom_caching" absorb
expect 0 "within" "$db" --max-peak=1GiB
shimmed "$tests/prog_oom_caching" absorb kill
expect 3 "the process was killed" "$db" --max-peak=1GiB
shim_env=()
make_db oom.db --kind oom
expect 3 "it ran out of memory" oom.db --max-peak=200GiB
changed went_on.db oom.db "INSERT INTO step SELECT 1, max(step) + 1, (SELECT max(t) + 1 FROM ev), (SELECT max(seq) + 1 FROM ev) FROM step"
expect 0 "within" went_on.db --max-peak=99GiB

# ---- growth ----
record() { # HOW STEPS
    shimmed "$tests/prog_causes" "$1" "$2"
    [ "$status" = 0 ] || fail "$*: status $status"
}
record leak 40
expect 1 "BEYOND growth from step to step, device 0: 1.00 MiB a step; +1.00 MiB a step since step 1, direct, prog_causes" "$db" --no-growth --max-peak=1GiB
record none 40
expect 0 "none found; steps 6 to 40 were looked at" "$db" --no-growth
expect 3 "too few steps are in full in the file" a.db --no-growth
changed no_steps.db a.db "DELETE FROM step"
expect 3 "no step is in full in the file" no_steps.db --no-growth
make_db leak.db --leak 3 --steps 12
expect 1 "3.00 MiB a step since step" leak.db --no-growth
# each step's from another place: no place grows, and all of it does
changed places.db leak.db "UPDATE ev SET stack = 0, phase = 1000 + seq WHERE op = 20 AND size = 6144; UPDATE live SET stack = 0, phase = 1000 + alloc_seq WHERE size = 6144"
expect 1 "allocated rose in every quarter, and no one place in the code made it" places.db --no-growth
# what lives does not grow, and the cache does
make_db steady.db --steps 12
expect 0 "none found" steady.db --no-growth
changed cache.db steady.db "UPDATE ev SET reserved = reserved + 8 * (SELECT count(*) FROM step s WHERE s.seq < ev.seq) WHERE reserved >= 0;
  UPDATE ev SET reserved = reserved - CASE WHEN reserved % 2 THEN 2 * 8 ELSE 2 * 16777216 END * (SELECT count(*) FROM step s WHERE s.seq < ev.seq) WHERE reserved < 0"
expect 1 "16.00 MiB a step; from the end of step 3 to that of step 12 reserved rose in every quarter though allocated did not" cache.db --no-growth
changed cut.db steady.db "UPDATE meta SET key = 'journal_merged' WHERE key = 'clean_end'"
expect 3 "the process was killed" cut.db --no-growth

# ---- against another run ----
make_db b.db --extra 300
expect 1 "BEYOND peak allocated, device 0: 7.25 GiB, was 6.96 GiB, limit 7.03 GiB" b.db --against a.db
expect 1 "what rose most: what was made in logits +300.0 MiB" b.db --against a.db
expect 0 "within peak allocated in phase backward" b.db --against a.db --tolerance 5%
expect 0 "within" b.db --against a.db --tolerance=300MiB
expect 0 "within" a.db --against b.db --tolerance=0
expect 3 "of lost.db: events were lost" b.db --against lost.db # its peak may have been as high
expect 0 "within peak allocated, device 0" a.db --against differs.db # the limit is this high at least
expect 3 "" a.db --against empty.db
mkdir base now
for r in 0 1 2 3; do
    make_db base/r$r.db --rank $r --world 4 --gpu $r
    make_db now/r$r.db --rank $r --world 4 --gpu $r --extra $((r == 2 ? 300 : 0))
done
expect 1 "r2.db BEYOND peak allocated, device 0, rank 2" now --against base
[ "$(grep -c BEYOND said)" = 4 ] || fail "one rank rose: $(cat said)" # its peak, and those of three phases
expect 0 "" now --against base --tolerance=5%
expect 1 "rank 2" now --max-peak=7GiB
expect 0 "" now --max rank=0:7GiB
rm base/r1.db
expect 3 "base has no rank 1" now --against base --tolerance=5%
rm now/r3.db
expect 3 "of 4 ranks there is no file of 3" now --max-peak=8GiB
expect 0 "" now --max rank=0:7GiB
expect 0 "" now/r0.db --max-peak=7GiB

# ---- what some blocks held, against the views ----
shim_env=(VRAMSCOPE_ACCESS=on)
shimmed "$tests/prog_roles"
cp "$db" roles.db
record leak 12
cp "$db" layers.db
python3 - "$V" <<'PY' || fail "what blocks held is not what the views say"
import json, sqlite3, subprocess, sys

def most(file, where):
    """The greatest sum of living blocks, from the view: device 0, what its totals have."""
    db = sqlite3.connect(file)
    changes = []
    for born, freed, size in db.execute(
        "SELECT alloc_seq, free_seq, size_bytes FROM allocation a WHERE device = 0 AND NOT managed AND "
        "(op = 'block_alloc' OR space IN ('device', 'pool', 'array', 'graph', 'arena')) AND (%s)" % where):
        changes += [(born, size)] + ([(freed, -size)] if freed else [])
    now = top = 0
    for _, change in sorted(changes):
        now += change
        top = max(top, now)
    return top

def checked(file, selector):
    out = subprocess.run([sys.argv[1], "check", "--json", file, "--max", selector + ":1B"], stdout=subprocess.PIPE)
    row = json.loads(out.stdout)["checks"][0]
    assert row["verdict"] == "beyond", row
    return row["value_bytes"]

role = "(SELECT role FROM block_role r WHERE r.alloc_seq = a.alloc_seq) = '%s'"
for file, selector, where in (
    ("a.db", "line=model.py:41", "line LIKE '%model.py:41 %'"),
    ("a.db", "line=/home/ada/model.py", "line LIKE '/home/ada/model.py:%'"),
    ("a.db", "made=logits", "phase = 'logits'"),
    ("a.db", "made=none", "phase = 'none'"),
    ("layers.db", "layer=forward", "layer = 'forward'"),
    ("layers.db", "layer=backward", "layer = 'backward'"),
    ("layers.db", "born=forward", "phase = 'forward'"),
    ("roles.db", "role=activation", role % "activation"),
    ("roles.db", "role=not told", role % "not told"),
    ("roles.db", "role=temporary,made=backward", (role % "temporary") + " AND phase = 'backward'"),
):
    ours, theirs = checked(file, selector), most(file, where)
    assert ours == theirs and theirs > 0, (file, selector, ours, theirs)
PY
expect 3 "it held 768.0 MiB for certain, and up to 4.97 GiB with blocks of which the recording does not say it" a.db --max role=activation:1GiB
expect 3 "no block of it is known: vramscope peak --by role" a.db --max role=input:1GiB
# a block whose role nobody tells may be of the role that is asked for
expect 3 "for certain, and up to" roles.db --max role=activation:1MiB
expect 3 "no block of it is known: vramscope peak --by layer" a.db --max layer=nothing:1GiB
expect 0 "held by line model.py:41" a.db --max line=model.py:41:7GiB
# blocks of backward have no stack here: what the line held for certain is within, and with them it need not be
expect 3 "it held 816.0 MiB for certain, and up to" a.db --max line=model.py:41:1GiB

# ---- a unit that was forgotten, a name as pages print it ----
expect 2 "check: --max-peak=20: 20 of what? A number alone is bytes: write 20GiB, or 20B" a.db --max-peak=20
expect 2 "20 of what?" a.db --max allocated:20
expect 1 "limit 20 B" a.db --max-peak=20B
changed odd.db a.db "UPDATE phase SET name = 'a' || char(10) || 'b' WHERE name = 'logits'"
expect 0 'peak allocated in phase a\nb' odd.db --max 'phase=a\nb:100GiB'

# ---- several processes in one file ----
changed two.db a.db "INSERT INTO process SELECT 2, host, boot_id, 99, rank, local_rank, world_size, command, start_realtime_ns, end_ns, simulated FROM process;
  INSERT INTO meta SELECT key, value, 2 FROM meta WHERE process = 1;
  INSERT INTO device SELECT id, 2, uuid, name, total_bytes FROM device;
  INSERT INTO peak SELECT 2, device, kind, 2 * peak_bytes, seq + (1 << 40), t_ns, end_bytes, known_bytes FROM peak"
expect 1 "BEYOND peak allocated, device 0, process 2: 13.92 GiB" two.db --max-peak=7GiB
grep -q "within .*process 1: 6.96 GiB" words || fail "the first process: $(cat said)"
expect 0 "process 1" two.db --max-peak=7GiB --process=1
expect 0 "within" a.db --max-peak=7GiB --process=1
expect 2 "a.db has no process 4: it has 1" a.db --max-peak=7GiB --process=4
expect 2 "two.db has no process 4: it has 1 and 2" two.db --max-peak=7GiB --process=4

# ---- for programs ----
changed "odd & <name>.db" a.db "UPDATE frame SET function = 'f<' || char(7) || '&\">' WHERE line = 17"
"$V" check "odd & <name>.db" lost.db --max-peak=6.5GiB --max phase=forward:99GiB --max-reserved=99GiB --junit j.xml >/dev/null && fail "j.xml: status 0"
python3 - <<'PY' || fail "JUnit: $(cat j.xml)"
import xml.etree.ElementTree as tree
suites = tree.parse("j.xml").getroot()
suite = suites.find("testsuite")
cases = suite.findall("testcase")
assert suites.tag == "testsuites" and [e.tag for e in suite][:1] == ["properties"] and [e.tag for e in suite][-2:] == ["system-out", "system-err"]
failures = [c for c in cases if c.find("failure") is not None]
errors = [c for c in cases if c.find("error") is not None]
assert (len(cases), len(failures), len(errors)) == (6, 2, 2), cases
assert [suite.get(n) for n in ("tests", "failures", "errors")] == ["6", "2", "2"]
assert cases[0].get("classname").endswith("odd & <name>.db") and "f<\\a&\">" in failures[0].find("failure").text, failures[0].find("failure").text
assert [c.get("name") for c in cases[:3]] == ["peak allocated, device 0 [--max-peak 6.5GiB]", "peak reserved, device 0 [--max-reserved 99GiB]",
    "peak allocated in phase forward, device 0 [--max phase=forward:99GiB]"], [c.get("name") for c in cases]
PY
GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=$dir/summary.md GITHUB_WORKSPACE=/home/ada "$V" check a.db lost.db --max-peak=6GiB --max phase=forward:99GiB >github
grep -qxF '::error file=model.py,line=17,title=vramscope%3A beyond::a.db: peak allocated, device 0: '"$("$V" check --json a.db --max-peak=6GiB >j.json
    "$V" check a.db --max-peak=6GiB | sed -n '/BEYOND/,/^$/p' | tr -s '\n ' ' ' | sed 's/^BEYOND peak allocated, device 0: //; s/ $//')" github || fail "annotation: $(cat github)"
grep -q '^::warning title=vramscope%3A cannot tell::lost.db: ' github || fail "warning: $(cat github)"
[ "$(grep -c '^| ' summary.md)" = 6 ] || fail "summary: $(cat summary.md)" # two lines of heading, four rows
GITHUB_ACTIONS=true "$V" check --json a.db --max-peak=6GiB 2>/dev/null | python3 -m json.tool >/dev/null || fail "annotations in JSON"

echo "hello, this is no database" >foreign.db
"$V" check foreign.db a.db --max-peak=6GiB >out 2>err
[ $? = 2 ] && grep -q "BEYOND" out && grep -q "foreign.db is not a database" err || fail "a file that can't be used hides the others: $(cat out err)"
"$V" check a.db --max-peak=7GiB --junit /nowhere/j.xml >/dev/null 2>err
[ $? = 2 ] && grep -q "/nowhere/j.xml can't be written" err || fail "a JUnit file that can't be written: $(cat err)"
echo "limits are kept, exceeded, or nobody can tell"
