#!/bin/bash
# --json writes the paths and types of docs/json.md (UPDATE=1 writes those lists anew: read the difference), and every field that a manual
# page explains.
. "$(dirname "$0")/../lib/command.bash"

make_db train.db --arena
make_db oom.db --kind oom
make_db killed.db --kind killed
sqlite3 train.db "INSERT INTO meta(key, value) VALUES('label.batch', '4'); INSERT INTO away VALUES(1, 1, 0, 4096);
    INSERT INTO away_block SELECT 1, 1, 0, min(alloc_seq), 4096, 'parked', 4096, 0, 1, 5 FROM live_at_peak WHERE category = 'framework block';
    INSERT INTO meta(key, value) VALUES('park', 'idle=4096,ns=9,link=9,parked=1024'), ('park_none', 'why'), ('park_ended', 'why'), ('park_later', '9'), ('park_first', 'parked=4096,waited=9')" || exit 1
make_db leak.db --leak 3 --steps 12 && sqlite3 leak.db "UPDATE rng SET phase = 0 WHERE id = 1"
for db in train.db killed.db; do # one role, one layer, one block that was never used
    sqlite3 $db "INSERT INTO framework_role SELECT alloc_seq, 1 FROM live_at_peak WHERE category = 'framework block';
        INSERT INTO frame(id, kind, function, file) VALUES(900, 4, 'Model.layers.0', 'Layer');
        UPDATE stack SET layer = 900;
        INSERT INTO access_kind VALUES(1, 1, 0, 0, 0, 0, 0, 0, 0);
        INSERT INTO access(alloc_seq, kind, uses, born_step) SELECT alloc_seq, 1, 0, 1 FROM live_at_peak WHERE category = 'framework block' AND stack > 0" || exit 1
done
export LD_LIBRARY_PATH=$BUILD/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
"$V" report --json train.db oom.db killed.db leak.db >report.json
[ $? = 3 ] || exit 1 # events are missing in killed.db
"$V" peak --json --why train.db killed.db >peak.json
[ $? = 3 ] || exit 1
"$V" waste --json train.db >waste.json || exit 1
grep -q '"kind": "never used"' waste.json || { echo "no waste: the test tests nothing" && exit 1; }
"$V" diff --json train.db killed.db >diff.json
[ $? = 3 ] || exit 1
"$V" check --json train.db killed.db --max-peak=1GiB >check.json
[ $? = 1 ] || exit 1
"$V" whatif --json train.db >whatif.json || exit 1
sqlite3 oom.db "INSERT INTO framework_role SELECT alloc_seq, 3 FROM live_at_oom WHERE category = 'framework block'" && "$V" whatif --json oom.db >whatif_oom.json || exit 1
cat >config.json <<'CONFIG'
{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}
CONFIG
"$V" estimate --json config.json --seq=128 --recipe=bf16 train.db >estimate.json || exit 1
"$V" fit --json -- sh -c 'echo x >written; printf "value\ttrain.py:41\tthe value of float32\t1.0\t1\n" >>"$VRAMSCOPE_DRY_FACTS"; exec "$0" 4 512' "$BUILD/tests/prog_sizes" >fit.json 2>/dev/null || exit 1
"$V" fit --json --capacity=2GiB --max batch=1..8 --max seq=512,16384 -- "$BUILD/tests/prog_largest" "{batch}" "{seq}" fails=2 >largest.json 2>/dev/null
"$V" fit --json --capacity=2GiB --max batch=1,2 -- "$BUILD/tests/prog_largest" "{batch}" 512 >all_fit.json 2>/dev/null
"$V" sweep -q --simulated -o sweep --grid batch=2 --grid seq=512,1024 -- "$BUILD/tests/prog_sizes" "{batch}" "{seq}" >/dev/null &&
    sqlite3 sweep/sweep.db "UPDATE sweep_point SET predicted_allocated_bytes = 1, predicted_reserved_bytes = 2, predicted_rank = 0, refused_bytes = 3 WHERE id = 1;
        UPDATE process SET rank = 0 WHERE id = 1; INSERT INTO sweep_point(id, name) VALUES(3, 'batch=4,seq=512'); UPDATE sweep_process SET steps_per_second = NULL WHERE point = 2" || exit 1
"$V" report --json sweep/sweep.db >sweep.json
[ $? = 3 ] || exit 1 # a point was not run
"$V" doctor --json --quick >doctor.json
echo junk >junk.vsj
"$V" recover --json junk.vsj >recover.json 2>/dev/null
mkfifo one two && : >one.db && : >two.db
VRAMSCOPE_JOURNAL_DIR=$PWD "$BUILD/tests/prog_answers" does "$PWD/one.db" 0 <one >/dev/null &
VRAMSCOPE_JOURNAL_DIR=$PWD "$BUILD/tests/prog_answers" refuses "$PWD/two.db" "" <two >/dev/null &
exec 8>one 9>two
for ((i = 0; i < 3000 && $(find . -name 'answers-*' | wc -l) < 2; i++)); do sleep 0.02; done
"$V" suspend --json one.db >suspend.json || exit 1
"$V" suspend --json two.db >suspend_refused.json 2>/dev/null
[ $? = 1 ] || exit 1
exec 8>&- 9>&-
wait

python3 - "$SRC/docs/man" <<'PY' || exit 1
import json, re, sys

def documented(command):
    """Names of the section JSON: what .Va marks up, on lines of its own, in lists and in brackets."""
    page = open("%s/vramscope-%s.1" % (sys.argv[1], command)).read()
    section = re.search(r"^\.Sh JSON\n(.*?)(?=^\.Sh )", page, re.S | re.M).group(1)
    names = set()
    for line in section.splitlines():
        marked = re.match(r"\.(?:Pq |It )?Va (.*)", line)
        if marked:
            words = re.split(r"[ ,]+|: ", marked.group(1))
            names |= {w for w in words if re.fullmatch(r"[a-z_]+", w)}
    return names

def written(value):
    names = set()
    for item in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        names |= written(item)
    return names | set(value) if isinstance(value, dict) else names

bad = 0
for command in ("report", "peak", "waste", "diff", "check", "whatif", "estimate", "doctor", "recover", "fit", "suspend"):
    more = {"report": ["sweep"], "whatif": ["whatif_oom"], "fit": ["largest"]}.get(command, [])
    keys = set().union(*(written(json.load(open(name + ".json"))) for name in [command] + more))
    unknown = documented(command) - keys
    if unknown:
        print("vramscope-%s(1) names, but no output has: %s" % (command, " ".join(sorted(unknown))))
        bad = 1
sys.exit(bad)
PY
for command in report peak waste diff check whatif estimate doctor recover fit suspend; do
    head -n 2 $command.json | tail -n 1 | grep -qx '  "json_version": 1,' || { echo "$command: no version first" && exit 1; }
done
# runs beside the ones above, for the sake of what only they have
make_db thinned.db --kind thinned && "$V" report --json thinned.db >thinned.json || exit 1
make_db job0.db --rank 0 --world 2 && make_db job1.db --rank 1 --world 2 --extra 8
"$V" report --json job0.db job1.db >ranks.json || exit 1
"$V" peak --json --at=oom oom.db >oom.json || exit 1
cp oom.db refused.db && sqlite3 refused.db "INSERT INTO tensor VALUES(7, 1, 6, 4096, '[4, 256]'); UPDATE oom SET tensor = 7" &&
    "$V" report --json refused.db >refused_report.json && "$V" peak --json --at=oom refused.db >refused_peak.json || exit 1
"$V" diff --json train.db leak.db >runs.json || exit 1
"$V" check --json job0.db killed.db --against=leak.db --max device=7:1B >limits.json
[ $? = 3 ] || exit 1
"$V" whatif --json --capacity=4GiB train.db >small.json || exit 1
"$V" whatif --json --capacity=4MiB -e batch=0.5 train.db >edit_small.json && "$V" whatif --json -e batch=0.5 train.db >edit_whole.json || exit 1
python3 - <<'PY' || exit 1 # an end changes no figure of what is taken without one
import json
small, whole = (json.load(open("edit_%s.json" % name))["devices"][0]["edits"] for name in ("small", "whole"))
for a, b in zip(small, whole, strict=True):
    for x, y in zip(a["policies"], b["policies"], strict=True):
        phases = [[(p["phase"], p["allocated_high_bytes"]) for p in z["phases"]] for z in (x, y)]
        if phases[0] != phases[1] or x["allocated_high_bytes"] != y["allocated_high_bytes"] or a["saves_bytes"] != b["saves_bytes"]:
            raise SystemExit(f"with an end {x}, without {y}")
        if x["fits"] or x["may_fit"] or not x["ran_out_request_bytes"] or not y["fits"]:
            raise SystemExit(f"what fits into 4 MiB: {x}")
PY
# of a run that ended out of memory: under what is asked, or not at all
"$V" whatif --json --capacity=1MiB --policy=arena -e batch=0.5 oom.db >oom_small.json && "$V" whatif --json --capacity=4TiB -e batch=0.5 oom.db >oom_large.json || exit 1
python3 - <<'PY' || exit 1
import json
small, large = (json.load(open("oom_%s.json" % name))["devices"][0]["refusal"] for name in ("small", "large"))
if (small["capacity_bytes"], small["policy"]) != (1 << 20, "arena") or [c for c in small["changes"] if c["says"] != "not enough alone"]:
    raise SystemExit(f"asked of 1 MiB: {small}")
if large["capacity_bytes"] != 4 << 40 or "without a change" not in str(large["why_not"]):
    raise SystemExit(f"asked of 4 TiB: {large}")
PY
"$V" whatif --policy=arena,torch-native -e batch=0.5 oom.db >out 2>err
[ $? = 2 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] || { echo "two allocators at once: $(cat out err)" && exit 1; }
"$V" estimate --json --params=7e9 --context=1GiB killed.db >sizes.json # no roles, no --seq
[ $? = 3 ] || exit 1
# a PyTorch snapshot names no process, no host and no command, and has no reports of its own
PYTHONPATH=$SRC/tests/e2e/import PYTHONDONTWRITEBYTECODE=1 python3 "$SRC/tests/e2e/import/make_snapshots.py" . >/dev/null && "$V" import -o imported.db known.pickle >/dev/null || exit 1
for command in report peak waste; do
    "$V" $command --json imported.db >imported_$command.json || exit 1
done
"$V" diff --json imported.db train.db >imported_a.json && "$V" diff --json train.db imported.db >imported_b.json || exit 1
pages=(report=report.json report=ranks.json report=thinned.json report=refused_report.json report=sweep.json peak=peak.json peak=oom.json peak=refused_peak.json waste=waste.json diff=diff.json diff=runs.json recover=recover.json check=check.json check=limits.json whatif=whatif.json whatif=whatif_oom.json whatif=oom_small.json whatif=oom_large.json whatif=small.json whatif=edit_small.json estimate=estimate.json estimate=sizes.json
    report=imported_report.json peak=imported_peak.json waste=imported_waste.json diff=imported_a.json diff=imported_b.json)
"$SRC/scripts/json_page.py" "$SRC/docs/json.md" "${pages[@]}" doctor=doctor.json fit=fit.json fit=largest.json fit=all_fit.json suspend=suspend.json suspend=suspend_refused.json ${UPDATE:+--update} || exit 1
echo "--json is what the manual says"
