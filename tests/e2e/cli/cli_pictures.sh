#!/bin/bash
# What a picture claims is so, nothing in it lies over anything else, whatever the size, and names that no font has are written out.
. "$(dirname "$0")/../lib/command.bash"
plot() { "$V" plot "$@" 2>err || no "plot $*: $(cat err)"; }
has() { grep -qF -- "$2" "$1" || no "$1 lacks '$2'"; }
hasnt() { ! grep -qF -- "$2" "$1" || no "$1 has '$2'"; }

# many phases, one of them as short as can be, and highest
cat >phases.py <<'PY'
import argparse, sys
sys.path.insert(0, sys.argv[1] + "/tests/data")
import make_db
def run(out, names, high, hold, short):
    r = make_db.Run(sys.argv[1] + "/shim/trace/schema.sql", out, 1, "train")
    r.source = "nvml_process"
    r.driver_alloc(0, 4096 << 20, True)
    for i, name in enumerate(names):
        r.push(name, dt=hold)
        b = r.block(0, (3000 if name == high else 100 + i) << 20, dt=1000 if name == high and short else hold)
        r.block_free(0, b, dt=1000 if name == high and short else hold)
        r.pop(dt=1000)
    r.write(argparse.Namespace(kind="train", schema_version=int(sys.argv[2]), start=0, rank=None, world=None, host="h", gpu=0))
run("phases.db", ["phase%02d" % i for i in range(60)], "phase47", 1000000, False)
run("short.db", ["forward"] * 40 + ["logits"] + ["backward"] * 40, "logits", 10**9, True)
run("names.db", ["前向传播", "vorwärts"], "前向传播", 1000000, False)
PY
python3 phases.py "$SRC" "$(sed -n 's/.*schema_version (\([0-9]*\)).*/\1/p' "$SRC/shim/trace/schema.sql" | head -n 1)" || exit 1
plot phases.db -o phases.gp
color=$(sed -n '/^[$]bands_0_.* using/d; s/.*bands_0_\([0-9]*\) << EOD.*/\1/p' phases.gp | while read -r i; do
    sed -n "/^[\$]bands_0_$i << EOD/{n;s/.*phase \"phase47\"/$i/p}" phases.gp
done)
color=$(sed -n "s/.*highest_0_${color}[ ].*rgb \"\(#[0-9a-f]*\)\".*/\1/p" phases.gp)
case $color in
'' | '#a9a9a9') no "the phase that peaked is drawn in '$color'" ;;
esac
has phases.gp 'title "phase47"'
has phases.gp 'title "other phases"'

# a microsecond of eighty seconds is seen, and as wide as a line
plot short.db -o short.gp
has short.gp 'title "logits"'
python3 - <<'PY' || no "the phase of the peak is too narrow to be seen"
import re
text = open("short.gp").read()
i = re.search(r'\$bands_0_(\d+) << EOD\n# from to   phase "logits"', text).group(1)
a, b = map(float, re.search(r"\$highest_0_%s << EOD\n(\S+) (\S+)" % i, text).group(1, 2))
x0, x1 = map(float, re.search(r"set xrange \[(\S+):(\S+)\]\nset yrange \[0:(?!1\])", text).group(1, 2))
mark = float(re.search(r'set label 2 "" at ([0-9.e+]+)', text).group(1))
assert a <= mark <= b and (b - a) / (x1 - x0) * 1600 >= 3, (a, b, mark, x0, x1)
PY

# the driver's samples: what lies between two of them nobody knows
make_db train.db --fast
plot train.db -o train.gp
has train.gp '$used_0 using 1:2 with points'
grep -E 'used_0 using .* with (lines|linespoints)' train.gp && no "a line joins samples"
grep -q 'its range in a pixel' train.gp && no "a range is explained that nothing shows"
make_db long.db --steps 400
plot long.db --whole -o whole.gp
has whole.gp 'title "its range in a pixel"'
hasnt whole.gp '# the whole run'

# out of memory: from what was allocated to what would have been; far beyond the scale an arrow, and the figures in words
make_db oom.db --kind oom --steps 1
plot oom.db -o oom.gp
has oom.gp '"out of memory: 140.0 GiB asked"'
has oom.gp 'the device has 146.5 GiB'
grep -q 'set arrow 20 .* head filled' oom.gp || no "a request beyond the scale has no arrow"
sqlite3 oom.db 'UPDATE oom SET requested_bytes = 3 << 30; UPDATE device SET total_bytes = 12 << 30'
plot oom.db -o oom.gp
has oom.gp '"out of memory: 3.00 GiB asked"'
has oom.gp '12.000000 with lines lw 1.6 dt (10,5) lc rgb capacity_line'
has oom.gp 'title "device memory"'
python3 - <<'PY' || no "the mark of the out-of-memory"
import re, sqlite3
t, at = sqlite3.connect("oom.db").execute("SELECT t_ns, framework_bytes + direct_bytes FROM oom").fetchone()
text = open("oom.gp").read()
scale = {"ms": 1e6, "s": 1e9}[re.search(r"since the start \((\w+)\)", text).group(1)]
x0, y0, x1, y1 = map(float, re.search(r"set arrow 20 from (\S+), (\S+) to (\S+), (\S+) nohead", text).groups())
assert x0 == x1 and abs(x0 - t / scale) < 1e-3 * t / scale, (x0, t / scale)
assert abs(y0 - at / 2**30) < 1e-5 and abs(y1 - at / 2**30 - 3) < 1e-5, (y0, y1, at / 2**30)
assert float(re.findall(r"set yrange \[0:(\S+)\]", text)[-1]) > max(12, y1)
PY
plot oom.db >text
has text 'out of memory: 3.00 GiB asked at'

# what allocated was made of sums to it in every column, and at the peak to what peak says
plot long.db --whole --by=phase -o parts.gp --size=700x400
"$V" peak --by=phase --json long.db >peak.json || no "peak"
python3 - <<'PY' || no "the parts"
import json, re
text = open("parts.gp").read()
def block(name):
    head, rows = re.search(r"\$%s << EOD\n#(.*)\n([^E]*)EOD" % name, text).groups()
    return head, [list(map(float, row.split())) for row in rows.splitlines()]
head, parts = block("parts_0")
_, curve = block("curve_0")
names = re.findall(r'"([^"]*)"', head)
total = {}
for row in curve:
    total.setdefault(row[0], set()).add(row[1])
assert all(row[-1] in total[row[0]] for row in parts if row[0] in total), "parts do not sum to allocated"
assert all(a <= b for row in parts for a, b in zip(row[1:], row[2:]))
want = {g["phase"]: g["size_bytes"] / 2**30 for g in json.load(open("peak.json"))["files"][0]["devices"][0]["by_phase"]}
top = max(parts, key=lambda row: row[-1])
got = {n: b - a for n, a, b in zip(names, [0] + top[1:], top[1:])}
got["none"] = got.pop("outside any phase, or unknown")
assert all(abs(got[n] - want.get(n, 0)) < 1e-5 for n in got), (got, want)
PY
"$V" plot long.db --by=role -o never.png 2>err && no "roles that nobody knows"
has err 'no block of long.db has a role: record with vramscope run --access'

# many steps: the step of the peak, above it the whole run with that part marked
plot long.db -o step.gp
has step.gp '"whole run of device 0, 400 steps'
has step.gp 'of 400, with the peak'
python3 - <<'PY' || no "the step of the peak"
import re, sqlite3
db = sqlite3.connect("long.db")
t = db.execute("SELECT t_ns FROM peak WHERE kind = 'allocated'").fetchone()[0]
end = db.execute("SELECT min(t_ns) FROM step WHERE t_ns >= ?", (t,)).fetchone()[0]
begin = (db.execute("SELECT max(t_ns) FROM step WHERE t_ns < ?", (t,)).fetchone()[0]
         or db.execute("SELECT min(t_push_ns) FROM range WHERE step = 1").fetchone()[0])
text = open("step.gp").read()
x0, x1 = map(float, re.findall(r"set xrange \[(\S+):(\S+)\]", text)[-1])
assert abs(x0 * 1e6 - begin) < 1000 and abs(x1 * 1e6 - end) < 1000, (x0, x1, begin, end)
a, b = map(float, re.search(r"set object 1 rectangle from (\S+), graph 0 to (\S+), graph 1", text).groups())
assert abs(a * 1e9 - begin) < 1e6, (a, begin)
PY
COLUMNS=90 "$V" plot long.db >text || no "text"
has text 'whole run of device 0, 400 steps; ▲ is shown below'
make_db lost.db --steps 30 --kind oom
plot lost.db -o lost.gp
has lost.gp 'the last of 30 steps and what follows, out of memory'
has lost.gp '"out of memory: 140.0 GiB asked"'
python3 - <<'PY' || no "the step before the one without an end"
import re, sqlite3
begin = sqlite3.connect("lost.db").execute("SELECT t_ns FROM step WHERE step = 29").fetchone()[0]
x0 = float(re.findall(r"set xrange \[(\S+):(\S+)\]", open("lost.gp").read())[-1][0])
assert abs(x0 * 1e6 - begin) < 1000, (x0, begin)
PY
# the highest of a part is not called the run's peak
plot long.db --from=20ms --to=30ms -o part.gp
grep -q '"highest here [0-9.]* [GM]iB' part.gp || no "the highest of a part: $(grep 'set label 2. ' part.gp)"
# a moment late in a long run: its times differ from each other, also in what is written
sqlite3 short.db 'UPDATE ev SET t = t + 36000000000000' 'UPDATE zone SET t_first = t_first + 36000000000000, t_last = t_last + 36000000000000, max_allocated_t = max_allocated_t + 36000000000000'
plot short.db --from='10 h 00 min 40 s' --to=36040.000001s -o late.gp
has late.gp 'set format x "%.11g"'
python3 - <<'PY' || no "times late in a run"
import re
x0, x1 = re.findall(r"set xrange \[(\S+):(\S+)\]", open("late.gp").read())[-1]
assert float(x1) - float(x0) == 1, (x0, x1)
PY

# eight devices: two beside each other, four below
make_db eight.db --devices 8 --fast
plot eight.db -o eight.gp
[ "$(grep 'set lmargin at screen' eight.gp | sort | uniq -c | awk '$NF > 0 { print $1 }' | tr '\n' ' ')" = "4 4 " ] || no "eight devices: $(grep lmargin eight.gp)"

# names are drawn as they are, by whichever font has them
"$V" plot names.db -o names.gp || no "names"
has names.gp 'title "前向传播"'
has names.gp 'title "vorwärts"'
"$V" plot names.db >text && has text 前向传播

# standard output
"$V" plot train.db -o - --format=gp | cmp -s - <("$V" plot train.db --format=gp) || no "-o - and no file at all differ"
"$V" plot train.db --format=jpeg 2>err && no "a format that there is not"
has err "--format takes png, svg, pdf, gp or txt, not 'jpeg'"

if ! command -v gnuplot >/dev/null; then
    echo "gnuplot is not installed: pictures not drawn"
    [ $failures = 0 ] && exit 0 || exit 1
fi
"$V" plot train.db -o - | head -c 8 | grep -aq PNG || no "plot -o - is no PNG"
cat >overprint.py <<'PY'
"""overprint.py SVG: no two texts of the picture lie over each other, and none reaches beyond its edge."""
import re, sys
svg = open(sys.argv[1]).read()
width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups())
boxes = []
for x, y, rest in re.findall(r'<g transform="translate\(([-0-9.]+),([-0-9.]+)\)[^"]*"([^>]*>.*?)</g>', svg, re.S):
    text = re.sub(r"<[^>]*>", "", rest.split(">", 1)[1]).strip()
    size = float(re.search(r'font-size="([0-9.]+)', rest).group(1))
    if not text:
        continue
    w, x, y = 0.55 * size * len(text), float(x), float(y)
    if "rotate" in rest or re.search(r"translate\(%s,%s\) rotate" % (re.escape(str(x)), re.escape(str(y))), svg):
        continue
    left = x - (w / 2 if 'anchor="middle"' in rest else w if 'anchor="end"' in rest else 0)
    box = (left, y - 0.7 * size, left + w, y, text)
    if box not in boxes:   # a text in a box is drawn twice
        boxes.append(box)
bad = 0
for i, a in enumerate(boxes):
    if a[0] < -2 or a[2] > width + 2 or a[1] < 0 or a[3] > height:
        print("beyond the edge: %r" % (a,))
        bad = 1
    for b in boxes[i + 1:]:
        if min(a[2], b[2]) - max(a[0], b[0]) > 2 and min(a[3], b[3]) - max(a[1], b[1]) > 2:
            print("%r lies over %r" % (a, b))
            bad = 1
assert len(boxes) > 8
sys.exit(bad)
PY
sqlite3 eight.db "UPDATE sample SET source = 'meminfo'"
for arguments in "train.db --size=800x400" "oom.db --size=800x400" "long.db --size=800x400" "eight.db" "eight.db --size=800x1000" "phases.db --size=1600x640"; do
    # shellcheck disable=SC2086
    plot $arguments -o over.svg
    python3 overprint.py over.svg || no "$arguments: texts lie over each other"
done
# a size that has no room for the panels is refused, and says which one has; of that one, nothing lies over anything else
make_db two.db --devices 2
make_db twolong.db --devices 2 --steps 60
for arguments in "two.db" "twolong.db" "eight.db" "oom.db" "--overlay two.db twolong.db"; do
    for size in 480x320 800x330; do
        # shellcheck disable=SC2086
        "$V" plot $arguments --size=$size -o least.svg 2>err && continue # there is room in it
        least=$(sed -n 's/^vramscope: plot: --size: this picture needs at least \([0-9]*x[0-9]*\): [0-9]* panels*, and the legend$/\1/p' err)
        [ -n "$least" ] && [ "$(wc -l <err)" = 1 ] || no "$arguments at $size: $(cat err)"
        # shellcheck disable=SC2086
        plot $arguments --size="$least" -o least.svg
        python3 overprint.py least.svg || no "$arguments at $least: texts lie over each other"
    done
done
# where a strip as high as it can be leaves the panels no room, it is lower
plot twolong.db --size=800x560 -o strip.gp
python3 - <<'PY' || no "the panels below the strip"
import re
tall = [(float(t) - float(b)) * 560 for b, t in re.findall(r"set bmargin at screen (\S+)\nset tmargin at screen (\S+)", open("strip.gp").read())]
assert len(tall) == 3 and min(tall[1:]) >= 55, tall
PY
"$V" plot two.db --size=800x400 -o never.png 2>err && no "two panels of no height"
has err "this picture needs at least 800x4"
# a size of its own is one that has room, however long the legend
sqlite3 phases.db "UPDATE phase SET name = name || ' and much more that makes a legend of one column, because nothing fits beside it in a picture, whatever is done'"
"$V" plot phases.db -o tall.svg 2>err || no "a long legend: $(cat err)"
python3 overprint.py tall.svg || no "a long legend: texts lie over each other"
[ $failures = 0 ] && echo "pictures claim what is so" || exit 1
