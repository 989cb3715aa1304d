#!/bin/bash
# What tests/gpu/llama.sh reads from recordings, and its verdicts: right figures pass, and each wrong one fails.
set -u
: "${BUILD:?BUILD is the build directory}"
here=$(dirname "$(realpath "$0")")
root=$here/../../..
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-e2e.XXXXXX")
trap 'rm -rf "$dir"' EXIT
export PYTHONDONTWRITEBYTECODE=1
cd "$dir" || exit 1
python3 "$root/tests/data/make_db.py" "$root/shim/trace/schema.sql" run.db --steps 5 || exit 1
python3 - "$root/tests/gpu" <<'END'
import contextlib, io, json, sqlite3, sys

sys.path.insert(0, sys.argv[1])
import llama_estimate as E
import llama_report as R

MIB, failed = 1 << 20, 0
SETUP = "sweep:8192:2:bf16"
shape = R.parse(SETUP)[1]


def run(function, *args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = function(*args)
    return bool(status), out.getvalue()


def expect(what, got, status, *words):
    global failed
    good = got[0] == status and all(word in got[1] for word in words)
    print("ok  " if good else "FAIL", what, "" if good else got)
    failed += not good


db = sqlite3.connect("run.db")
peaks = dict(db.execute("SELECT phase, allocated_bytes FROM phase_peak WHERE device = 0"))
framework, = db.execute("SELECT peak_bytes FROM peak WHERE device = 0 AND kind = 'framework'").fetchone()
allocated, = db.execute("SELECT peak_bytes FROM peak WHERE device = 0 AND kind = 'allocated'").fetchone()


def facts(name="facts.json", **changes):
    json.dump(dict(losses=[3.0] * 5, step_ms=[9, 1, 2, 3, 4], max_memory_allocated=framework) | changes, open(name, "w"))
    return name


for loss in ("eager", "fused"):
    expect(f"a recording is read ({loss})", run(R.read, "t.tsv", "run.db", facts(), SETUP, loss), False, "recorded 5 steps", "equals ours")
(values,) = R.rows("t.tsv").values()
got = {phase: values["eager", phase, "measured"] for phase in ("logits", "backward", "optimizer", "run")}
want = {phase: peaks.get(phase, allocated) for phase in got}
expect("its figures are the database's", (got == want, str((got, want))), True)
expect("the time is the median without the first step", (values["eager", "run", "step_ms"] == 2.5, ""), True)
expect("another peak of PyTorch's", run(R.read, "x.tsv", "run.db", facts(max_memory_allocated=framework + 1), SETUP, "eager"), True, "differs")
expect("a step without its ranges", run(R.read, "x.tsv", "run.db", facts(losses=[3.0] * 6), SETUP, "eager"), True, "5 ranges of logits in 6 steps")
db.execute("INSERT INTO loss VALUES (1, 0, 7, 'ring_full', 'ring full')")
db.commit()
expect("lost events", run(R.read, "x.tsv", "run.db", facts(), SETUP, "eager"), True, "7 events lost: ring full")


def table(factor=1.0, floor=0.5, static=1.0):
    open("y.tsv", "w").close()
    for loss in ("eager", "fused"):
        levels = E.phases(shape, loss, 501 * MIB)
        levels["run"] = max(levels.values())
        R.write("y.tsv", "sweep", shape, loss, levels, "predicted")
        R.write("y.tsv", "sweep", shape, loss, {p: v * (factor if loss == "fused" else 1) for p, v in levels.items()}, "measured")
    R.write("y.tsv", "sweep", shape, "eager", {"run": levels["run"] * floor}, "without_logits")
    R.write("y.tsv", "sweep", shape, "eager", {"run": (E.static(shape) + E.CUBLAS) * static}, "static")
    return run(R.table, "y.tsv")


expect("predicted is measured", table(), False, "+0.0 MiB +0.00%", "21.5", "-43.5%", "ok the eager run's report")
expect("2 % off pass", table(1.02), False, "+2.00%")
expect("4 % off fail", table(1.04), True, "+4.00%", "FAIL")
expect("4 % below fail", table(0.96), True, "-4.00%", "FAIL")
expect("a peak below the report's bound", table(floor=1.01), True, "FAIL the eager run's report")
expect("another static memory in the report", table(static=1.05), True, "FAIL the eager run's report")
for known in (True, False):
    savings = {"static_bytes": 5, "peak_without_bytes": 7 if known else None}
    json.dump({"files": [{"devices": [{"savings": savings}]}]}, open("r.json", "w"))
    open("z.tsv", "w").close()
    expect("the report's bound", run(R.bound, "z.tsv", "r.json", SETUP), False, *([] if known else ["does not say"]))
    expect("is in the table", (len(R.rows("z.tsv")) == known, ""), True)


def losses(**changes):
    base = [12 - 0.1 * i for i in range(60)]
    for name in ("eager", "fused", "halves"):
        facts(name + ".json", losses=changes.get(name, base))
    return run(R.losses, "eager.json", "fused.json", "halves.json")


base = [12 - 0.1 * i for i in range(60)]
expect("equal losses", losses(), False)
expect("a first step that is off", losses(fused=[base[0] * 1.0002] + base[1:]), True, "FAIL first step")
expect("a late step that is off", losses(fused=base[:-1] + [base[-1] * 1.011]), True, "FAIL all steps")
expect("where eager drifts as well", losses(fused=base[:-1] + [base[-1] * 1.011], halves=base[:-1] + [base[-1] * 1.005]), False)
expect("but not without end", losses(fused=base[:-1] + [base[-1] * 1.04], halves=base[:-1] + [base[-1] * 1.03]), True, "FAIL all steps")
expect("too few steps", losses(fused=base[:49]), True, "FAIL")
expect("a loss that does not fall", losses(**{n: [12.0] * 60 for n in ("eager", "fused", "halves")}), True, "FAIL the loss falls")
sys.exit(bool(failed))
END
status=$?
command -v gnuplot >/dev/null || exit $status
python3 - "$root/tests/gpu" <<'END' || exit 1
import sys
sys.path.insert(0, sys.argv[1])
import llama_estimate as E, llama_report as R
for tokens in (1024, 8192, 32768):
    for loss in ("eager", "fused"):
        shape = E.Shape(tokens)
        for source in ("predicted", "measured"):
            R.write("p.tsv", "sweep", shape, loss, {**E.phases(shape, loss, 501 << 20), "run": E.peak(shape, loss, 501 << 20)}, source)
END
"$root/scripts/llama_plot.sh" p.tsv p.png && [ "$(head -c 4 p.png | tail -c 3)" = PNG ] || { echo "FAIL: the plot"; exit 1; }
echo >empty.tsv
"$root/scripts/llama_plot.sh" empty.tsv q.png 2>err && { echo "FAIL: a plot of nothing"; exit 1; }
grep -q 'no predicted row' err || { echo "FAIL: it says '$(cat err)'"; exit 1; }
exit $status
