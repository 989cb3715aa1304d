#!/bin/bash
# Of runs laid over each other each peak survives at every width and is marked where it was, and each curve spans its own run or step.
. "$(dirname "$0")/../lib/command.bash"

make_db before.db --steps 300
make_db after.db --steps 170 --extra 800
make_db two.db --steps 2 --devices 2 --fast
make_db nosteps.db --steps 0
make_db empty.db --kind empty
cat >check.py <<'PY'
"""check.py SCRIPT [STEP]: the script's curves against the two databases that it was made of."""
import re, sqlite3, sys

text = open(sys.argv[1]).read()
step = int(sys.argv[2]) if len(sys.argv) > 2 else None
unit = {"us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9}[re.search(r"\((us|ms|s|min)\)\"", text).group(1)]
marks = [(float(x) * unit, float(y)) for x, y in re.findall(r"set label 2[0246] \"\" at ([-0-9.e+]+), ([0-9.]+)", text)]
span = 0
for run, name in enumerate(("before.db", "after.db")):
    db = sqlite3.connect(name)
    ends = dict(db.execute("SELECT step, t_ns FROM step"))
    begin, end = (ends[step - 1], ends[step]) if step else (0, db.execute("SELECT end_ns FROM process").fetchone()[0])
    inside = "FROM timeline WHERE device = 0 AND t_ns BETWEEN %d AND %d" % (begin, end)
    peak, reserved = db.execute("SELECT max(allocated_bytes), max(reserved_bytes) " + inside).fetchone()
    when = db.execute("SELECT min(t_ns) " + inside + " AND allocated_bytes = %d" % peak).fetchone()[0]
    rows = re.search(r"\$curve_0_%d << EOD\n#.*\n([^E]*)EOD" % run, text).group(1)
    rows = [tuple(map(float, line.split())) for line in rows.splitlines()]
    assert rows == sorted(rows, key=lambda r: r[0])
    assert abs(max(r[1] for r in rows) - peak / 2**30) < 1e-6, (name, peak)
    assert abs(max(r[3] for r in rows) - reserved / 2**30) < 1e-6, name
    assert all(r[2] <= r[1] and r[4] <= r[3] for r in rows)
    assert abs(rows[0][0]) < 1e-6 and abs(rows[-1][0] * unit - (end - begin)) < 2000, (name, rows[0], rows[-1])
    assert any(abs(x - (when - begin)) < 2000 and abs(y - peak / 2**30) < 1e-6 for x, y in marks), (name, when - begin, marks)
    assert "%s: peak %.2f GiB in logits" % (name[:-3], peak / 2**30) in text, name
    span = max(span, end - begin)
assert len(marks) == 2
got = [float(x) * unit for x in re.findall(r"set xrange \[([-0-9.e+]+):([0-9.e+]+)\]", text)[-1]]
assert got[0] == 0 and abs(got[1] - span) < 2000, (got, span)
PY
"$V" plot --overlay before.db after.db -o w.gp --size=480x320 && python3 check.py w.gp || no "the overlay"
"$V" plot --overlay --step=7 before.db after.db -o step.gp && python3 check.py step.gp 7 || no "--step"
grep -q "time since the step began (ms)" step.gp || no "what the axis counts from"
# the highest run is drawn first, whatever the order of the files, and keeps its colour's place in the legend
[ "$(grep -o 'curve_0_[01] using 1:2:3' w.gp | tr '\n' ' ')" = "curve_0_1 using 1:2:3 curve_0_0 using 1:2:3 " ] || no "the lower run is hidden"
# a window shows only what is in it
"$V" plot --overlay --from=1s --to=1500ms before.db after.db -o window.gp || no "--from, --to"
python3 - <<'PY' || no "the window"
import re, sqlite3
text = open("window.gp").read()
for run, name in enumerate(("before.db", "after.db")):
    had = {round(r[0] / 2**30, 6) for r in sqlite3.connect(name).execute("SELECT allocated_bytes FROM timeline WHERE device = 0")}
    rows = re.search(r"\$curve_0_%d << EOD\n#.*\n([^E]*)EOD" % run, text).group(1).splitlines()
    assert all(round(float(r.split()[1]), 6) in had for r in rows)
    assert all(999.9 <= float(r.split()[0]) <= 1500.1 for r in rows)
PY
# in text: both peaks by name and number, however narrow
for width in 40 90; do
    COLUMNS=$width "$V" plot --overlay before.db after.db >text || no "text"
    grep -qE "░ before: peak 6.96 GiB in logits, .*; reserved up to 10.03 GiB" text && grep -q "█ after: peak 7.74 GiB in logits" text ||
        no "text at $width: $(cat text)"
    python3 - $width <<'PY' || no "the text's rows at $width"
import sys
rows = [line.rstrip("\n") for line in open("text") if "┤" in line or "│" in line]
top = rows[0].split("┤")[1]
assert "█" in top and "░" not in top, top   # only the higher run reaches the top
assert len(top) == int(sys.argv[1]) - 11, len(top)
drawn = rows[-1].split("│")[1].strip()
assert "░" in drawn                        # the longer run goes on where the other has ended
assert drawn.endswith("░"), drawn
PY
done
"$V" plot --overlay before.db after.db --labels='eager,a "fused" \loss `x`' -o l.gp && grep -q "eager: peak" l.gp || no "--labels"
"$V" plot --overlay before.db two.db -o d.gp && grep -q "# device 1" d.gp && grep -q "peaks: two " d.gp || no "a device that one run has"
"$V" plot --overlay before.db two.db -d 0 -o d.gp && ! grep -q "# device 1" d.gp || no "--device"
# what a run has folded is hatched in its colour, and the legend says so; where nothing is folded it does not
make_db folded.db --kind thinned
"$V" plot --overlay folded.db two.db -d 0 -o f.gp && grep -q '^\$folded_0_0 << EOD' f.gp && grep -q 'folded_0_0 using 1:2:3 .*pattern 4 lc rgb "#d55e00"' f.gp &&
    ! grep -q folded_0_1 f.gp && grep -q 'title "folded: least to greatest (hatched)"' f.gp || no "a folded stretch is not hatched"
grep -q 'folded_0\|"folded: ' w.gp && no "hatched where nothing is folded"
mkdir x y && cp before.db x/run.db && cp after.db y/run.db
"$V" plot --overlay x y | grep -q "x/run: peak" || no "runs of the same name"
NO_COLOR=1 "$V" plot --overlay before.db after.db | grep -q $'\033' && no "colours although not on a terminal"

refused "empty.db" "$V" plot --overlay before.db empty.db
refused "nowhere.db: No such file" "$V" plot --overlay before.db nowhere.db -o never.png
[ -e never.png ] && no "a picture of nothing was left"

if ! command -v gnuplot >/dev/null; then
    echo "gnuplot is not installed: pictures not drawn"
    [ $failures = 0 ] && exit 0 || exit 1
fi
for format in png svg pdf; do
    "$V" plot --overlay before.db two.db -o p.$format --labels='a "quoted" \one,`two`' 2>err && [ -s p.$format ] && [ ! -s err ] || no "$format: $(cat err)"
done
gnuplot w.gp 2>err && [ -s w.png ] && [ ! -s err ] || no "the script does not draw by itself: $(cat err)"
[ $failures = 0 ] && echo "runs lie over each other, peaks kept" || exit 1
