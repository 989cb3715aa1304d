#!/bin/bash
# Plots: every format, the peak survives at every width, long runs and short ones, hostile titles.
. "$(dirname "$0")/../lib/command.bash"

make_db long.db --steps 400
make_db short.db --fast --devices 2

# the greatest value in the script is the run's peak (at every width: test_columns.c)
"$V" plot long.db -o w.gp --size=1600x640 || no "plot --size"
python3 - <<'PY' || no "the peak is hidden"
import re, sqlite3
want = dict(sqlite3.connect("long.db").execute("SELECT kind, peak_bytes FROM peak WHERE device = 0"))
rows = re.search(r"\$curve_0 << EOD\n#.*\n([^E]*)EOD", open("w.gp").read()).group(1)
rows = [tuple(map(float, l.split())) for l in rows.splitlines()]
assert abs(max(r[1] for r in rows) - want["allocated"] / 2**30) < 1e-6
assert abs(max(r[3] for r in rows) - want["reserved"] / 2**30) < 1e-6
PY
# a picture says whose allocator it shows, of each device
make_db arena.db --devices 2 --arena
"$V" plot arena.db -o arena.gp || no "a run on the arena"
[ "$(grep -c 'device 0: NVIDIA H200, memory from the arena' arena.gp)" = 1 ] && ! grep -q 'device 1.*from the arena' arena.gp || no "whose memory: $(grep 'device [01]' arena.gp)"
grep -q 'from the arena' w.gp && no "the arena, where none was"
# a window shows the exact curve: each value there is one that the run had
"$V" plot long.db -o window.gp --from=2s --to=2100ms || no window
python3 - <<'PY' || no "the window shows values that the run never had"
import re, sqlite3
db = sqlite3.connect("long.db")
had = {round(r[0] / 2**30, 6) for r in db.execute("SELECT allocated_bytes FROM timeline WHERE device = 0")}
rows = re.search(r"\$curve_0 << EOD\n#.*\n([^E]*)EOD", open("window.gp").read()).group(1).splitlines()
assert len(rows) > 10
for r in rows:
    assert round(float(r.split()[1]), 6) in had, r
PY
# steps: from the end of the one before to their own end
"$V" plot long.db -o step.gp --step=2 && "$V" plot long.db -o steps.gp --step=1-3 || no "--step"
python3 - <<'PY' || no "--step shows another part of the run"
import re, sqlite3
end = dict(sqlite3.connect("long.db").execute("SELECT step, t_ns FROM step"))
first = sqlite3.connect("long.db").execute("SELECT min(t_push_ns) FROM range WHERE step = 1").fetchone()[0]
for name, want, unit in (("step.gp", (end[1], end[2]), 1e6), ("steps.gp", (first, end[3]), 1e6)):
    text = open(name).read()
    got = [float(x) for x in re.findall(r"set xrange \[([0-9.e+]+):([0-9.e+]+)\]", text)[-1]]
    assert re.search("time since the start \\(ms\\)", text), name
    assert all(abs(g * unit - w) < 1000 for g, w in zip(got, want)), (name, got, want)
PY
# every step reaches the run's peak: that of step 3 is marked where it was in step 3
"$V" plot long.db -o third.txt --step=3 && "$V" plot long.db -o third.gp --step=3 || no "--step=3"
python3 - <<'PY' || no "the peak marked in step 3 was in another"
import re, sqlite3
db = sqlite3.connect("long.db")
begin, end = [t for t, in db.execute("SELECT t_ns FROM step WHERE step IN (2, 3) ORDER BY step")]
mark = float(re.search(r"set label 2 \"\" at ([0-9.e+]+)", open("third.gp").read()).group(1)) * 1e6
want = db.execute("SELECT t_ns FROM timeline WHERE device = 0 AND t_ns BETWEEN ? AND ? ORDER BY allocated_bytes DESC, t_ns",
                  (begin, end)).fetchone()[0]
assert begin <= mark <= end and abs(mark - want) < 1000, (begin, mark, end, want)
PY
grep -q "in logits" third.txt || no "the phase of the peak of step 3"
"$V" plot short.db -o both.txt && grep -q "device 1" both.txt || no "two devices in text"
"$V" plot short.db --device 1 -o one.txt && ! grep -q "device 0" one.txt || no "--device"
"$V" plot short.db -o t.gp --title='a "quoted" \title `date` $HOME' || no "hostile title"
NO_COLOR=1 "$V" plot short.db | grep -q $'\033' && no "colours although not on a terminal"

# figures of another source are not joined to the next; what is the whole device's is said to be
cp short.db sources.db
sqlite3 sources.db "UPDATE sample SET t_ns = t_ns + 7000000; INSERT INTO sample SELECT process, 1000, device, 20000000000, 'meminfo', 1, 0, 0, 1000000 FROM sample LIMIT 1"
"$V" plot sources.db -o s.gp && sed -n '/^[$]used_0/,/^EOD/p' s.gp >used
[ "$(wc -l <used)" -gt 3 ] || no "no figures of the driver: $(cat used)"
awk 'NF == 2 && $2 + 0 > 15 { bad = 1 } END { exit bad }' used || no "whole-device figures are joined to the process's: $(cat used)"
grep -q 'of the whole device' s.gp && no "the process's figures are called the device's"
sqlite3 sources.db "UPDATE sample SET source = 'meminfo'"
"$V" plot sources.db -o s.gp && grep -q 'driver used: of the whole device' s.gp || no "the whole device's figures are not called so"

if ! command -v gnuplot >/dev/null; then
    echo "gnuplot is not installed: pictures not drawn"
    [ $failures = 0 ] && exit 0 || exit 1
fi
mkdir tmp
export TMPDIR=$D/tmp
for format in png svg pdf; do
    "$V" plot short.db -o p.$format --title='a "quoted" \title `date` $HOME' || no "$format"
    [ -s p.$format ] || no "$format is empty"
done
file_head() { head -c "$2" "$1" | tr -d '\0'; }
[ "$(file_head p.pdf 4)" = "%PDF" ] || no "p.pdf is no PDF"
grep -q '<svg' p.svg || no "p.svg is no SVG"
grep -aq 'PNG' p.png || no "p.png is no PNG"
gnuplot w.gp && [ -s w.png ] || no "the script does not draw by itself"
# a gnuplot that could not write all of it, as on a full disk, and says nothing: no half of a picture, and one that was there stays
mkdir cut
cat >cut/gnuplot <<SH
#!/bin/bash
"$(command -v gnuplot)" "\$@"
to=\$(sed -n 's/^set output "\(.*\)"/\1/p' "\${@: -1}")
truncate -s -30 "\$to"
SH
chmod +x cut/gnuplot
for format in png svg pdf; do
    for there in '' there; do
        rm -f half.$format
        [ -z "$there" ] || echo old >half.$format
        PATH=$D/cut:$PATH "$V" plot short.db -o half.$format 2>err
        [ $? = 2 ] && grep -q "half.$format can't be written: is the disk full?" err || no "half of a $format: $(cat err)"
        [ "$(cat half.$format 2>/dev/null)" = "${there:+old}" ] || no "half of a $format was left"
    done
done
# a link leads to what is written, and a pipe or a device is written as it is: none of them is replaced
mkdir there && echo old >there/old && mkfifo pipe
alike() { cmp -s <(grep -av '^set output' "$1") <(grep -av '^set output' "$2"); }
for format in png gp txt; do
    ln -sf there/old link.$format && ln -sf there/new.$format dangling.$format && ln -sf pipe pipe.$format
    "$V" plot short.db -o link.$format && "$V" plot short.db -o dangling.$format || no "$format through a link"
    [ -L link.$format ] && [ -L dangling.$format ] || no "$format replaced a link"
    alike there/old there/new.$format || no "$format: what a link leads to is old"
    timeout 300 cat pipe >piped &
    timeout 300 "$V" plot short.db -o pipe.$format || no "$format into a pipe"
    wait $!
    [ -p pipe ] && alike piped there/old || no "$format: a pipe was replaced, or lacks the picture"
    mknod device c 1 3 2>/dev/null || break
    ln -sf device device.$format && "$V" plot short.db -o device.$format && [ -c device ] || no "$format replaced a device"
    rm device
done
cp short.db kept.db
"$V" plot short.db --format=png -o short.db 2>err && no "the recording was overwritten"
cmp -s short.db kept.db || no "the recording has changed"
left=$(find . -name '*.part' -o -path './tmp/*')
[ -z "$left" ] || no "left behind: $left"
TMPDIR=/nowhere "$V" plot short.db -o q.png 2>err && no "drew without a place for the script"
grep -q "^vramscope: plot: /nowhere/" err || no "no word about TMPDIR: $(cat err)"
[ $failures = 0 ] && echo "plots are drawn, peaks kept" || exit 1
