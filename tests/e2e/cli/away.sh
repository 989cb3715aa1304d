#!/bin/bash
# Memory of an arena that is on the host while it is allocated: each page says how much, of the peak and of now, and nothing goes below
# zero.  The recording is made event by event (prog_away.c): at the peak 4 of 13 GiB are away, later 6 of 8.
. "$(dirname "$0")/../lib/lib.bash"
cd "$dir" || exit 1
export VRAMSCOPE_JOURNAL_DIR=$dir/journals LC_ALL=C.UTF-8
mkdir journals
GiB=$((1 << 30))
start() { # NAME: prog_away, $pid and {in}
    mkfifo "$1.in"
    "$tests/prog_away" "$dir/journals/$1.vsj" "$dir/$1.db" <"$1.in" >"$1.out" 2>&1 &
    pid=$!
    exec {in}>"$1.in"
    until grep -q ready "$1.out"; do
        kill -0 $pid 2>/dev/null || fail "prog_away has ended: $(cat "$1.out")"
        sleep 0.05
    done
}
has() { grep -qE -- "$1" "$2" || fail "$2 has no '$1': $(cat "$2")"; }
says() { tr -s ' \n' ' ' <"$2" | grep -qF -- "$1" || fail "$2 does not say '$1': $(cat "$2")"; } # over several lines
lacks() { ! grep -qE -- "$1" "$2" || fail "$2 has '$1': $(grep -E -- "$1" "$2")"; }

pid='' server=''
trap 'kill $pid $server 2>/dev/null; wait; rm -rf "$dir"' EXIT
start run
# live: now 6 GiB are away
COLUMNS=80 "$V" top --once journals/run.vsj >top.txt || fail "top: $?"
has "^ +$pid +- +0 +8.00 GiB +13.00 GiB +2.00 GiB" top.txt
says '6.00 GiB of what is allocated are on the host: 2.00 GiB gradient, 4.00 GiB optimizer state' top.txt
has '▒' top.txt
LC_ALL=C "$V" top --once journals/run.vsj >ascii.txt
LC_ALL=C grep -q '[^ -~]' ascii.txt && fail "not ASCII in the C locale"
has '#o' ascii.txt
"$V" top --prometheus=0 journals/run.vsj >url 2>err {in}>&- &
server=$!
until grep -qs '^http' url; do
    kill -0 $server || fail "top --prometheus: $(cat err)"
    sleep 0.05
done
python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())' "$(cat url)" >page || fail "the page of --prometheus"
has "^vramscope_away_bytes\{pid=\"$pid\",device=\"0\"\} $((6 * GiB))$" page
has '^# TYPE vramscope_away_bytes gauge$' page
has "^vramscope_away_role_bytes\{pid=\"$pid\",device=\"0\",role=\"optimizer state\"\} $((4 * GiB))$" page
has "^vramscope_away_role_bytes\{pid=\"$pid\",device=\"0\",role=\"gradient\"\} $((2 * GiB))$" page
[ "$(tail -n 1 page)" = "# EOF" ] || fail "the end of the page: $(cat page)"

exec {in}>&-
wait "$pid" || fail "prog_away ended with $?: $(cat run.out)"
"$V" report run.db >first.txt || fail "report: $?"
says 'of 13.00 GiB allocated then 4.00 GiB were on the host (optimizer state, parked); at most 6.00 GiB at any time (4.00 GiB optimizer state, parked; 2.00 GiB gradient, spilled)' first.txt
has 'of 9.25 GiB reserved then 256.0 MiB were not allocated' first.txt
"$V" report --all run.db >all.txt || fail "report --all: $?"
says 'of 13.00 GiB allocated then 4.00 GiB were on the host (optimizer state, parked); at most 6.00 GiB at any time (4.00 GiB optimizer state, parked; 2.00 GiB gradient, spilled)' all.txt
has '= +allocated +13.00 GiB +100.0 %' all.txt
has '- +on the host then +4.00 GiB' all.txt
has '\+ +reserved, not allocated then +256.0 MiB' all.txt
has '= +reserved then +9.25 GiB' all.txt
has 'reserved over allocated: 1.028 then' all.txt
for p in first.txt all.txt; do lacks '-[0-9][0-9.]* [KMGTPE]?i?B|1[0-9]{2}\.[1-9] %|EiB' $p; done
"$V" peak run.db >peak.txt || fail "peak: $?"
says 'of 13.00 GiB allocated then 4.00 GiB were on the host (optimizer state, parked)' peak.txt
"$V" report --json run.db >report.json && "$V" peak --json run.db >peak.json || fail "--json"
"$V" plot run.db -o run.txt && "$V" plot run.db -o run.gp || fail "plot"
has '█ allocated  ▒ on the host  ░ reserved' run.txt # not which: at times that differs
has '^ +│.*▒' run.txt
"$V" view run.db -o run.html >/dev/null || fail "view"
"$V" export --format=perfetto -o run.pf run.db 2>/dev/null && grep -qa 'on the host' run.pf || fail "export"
python3 - <<'PY' || fail "what programs read"
import base64, json, re, sqlite3, zlib
GiB = 1 << 30
db = sqlite3.connect("run.db")
moves = db.execute("SELECT seq, away_bytes FROM away ORDER BY seq").fetchall()
assert [b for _, b in moves] == [4 * GiB, 0, 6 * GiB], moves
peaks = {row[0]: row[1:] for row in db.execute("SELECT kind, peak_bytes, away_bytes, most_away_bytes FROM away_peak WHERE device = 0")}
assert peaks == {"allocated": (13 * GiB, 4 * GiB, 6 * GiB), "reserved": (GiB * 37 // 4, 4 * GiB, 6 * GiB)}, peaks
low = db.execute("SELECT allocated_bytes, reserved_bytes FROM timeline ORDER BY t_ns DESC LIMIT 1").fetchone()
assert low == (8 * GiB, 2 * GiB), low
peak = json.load(open("report.json"))["files"][0]["devices"][0]["peak"]
assert (peak["allocated_bytes"], peak["away_then_bytes"], peak["away_most_bytes"]) == (13 * GiB, 4 * GiB, 6 * GiB), peak
assert (peak["reserved_then_bytes"], peak["unused_then_bytes"]) == (GiB * 37 // 4, GiB // 4), peak
text = open("peak.json").read()
assert f'"away_then_bytes": {4 * GiB}' in text and f'"away_most_bytes": {6 * GiB}' in text, text
script = open("run.gp").read()
band = [list(map(float, l.split())) for l in re.search(r"\$away_0 << EOD\n#[^\n]*\n(.*?)EOD", script, re.S).group(1).splitlines() if l]
assert {(low, high) for _, low, high in band} == {(9, 13), (4, 8), (2, 8)}, band
assert "using 1:2:3 with filledcurves fs transparent pattern 5" in script and '"on the host"' in script
packed = re.search(r'<script[^>]* id="?meta"?[^>]*>([^<]*)<', open("run.html").read()).group(1)
row = json.loads(zlib.decompress(base64.b64decode(packed)))["rows"][0]
assert [a[1:] for a in row["aways"]] == [[4 * GiB, "optimizer state, parked"], [0], [6 * GiB, "optimizer state, parked; gradient, spilled"]], row["aways"]
blocks = db.execute("SELECT away_bytes, why, out_bytes, back_bytes FROM away_block ORDER BY seq").fetchall()
assert blocks == [(4 * GiB, "parked", 4 * GiB, 0), (0, "parked", 4 * GiB, 4 * GiB), (4 * GiB, "parked", 8 * GiB, 4 * GiB), (2 * GiB, "spilled", 2 * GiB, 0)], blocks
assert (peak_park := json.load(open("report.json"))["files"][0]["devices"][0]["park"])["spilled_bytes"] == 2 * GiB and peak_park["times"] == 2, peak_park
parts = [[(a["role"], a["why"], a["size_bytes"]) for a in peak[name]] for name in ("away_then", "away_most")]
assert parts == [[("optimizer state", "parked", 4 * GiB)], [("optimizer state", "parked", 4 * GiB), ("gradient", "spilled", 2 * GiB)]], parts
PY
python3 - "$SRC/tests/e2e/lib" run.html <<'PY' || fail "the page in a browser"
import os, sys
sys.path.insert(0, sys.argv[1])
import browser
if not browser.find():
    print("no browser here")
    sys.exit(0)
GiB = 1 << 30
with browser.Browser() as b:
    page = b.open(os.path.abspath(sys.argv[2]), 1280, 800)
    page.wait("document.getElementById('moment')")
    away, text = page.js("[+document.getElementById('moment').dataset.away, document.getElementById('details').innerText]")
    assert away == 4 * GiB and "4.00 GiB of it on the host (optimizer state, parked)" in text, (away, text)
    page.wait("document.getElementById('key').innerText.includes('on the host')")
    # at the end 6 of 8 GiB are away: lines across the picture
    page.wait("""((part) => { const base = document.getElementById('base'), c = base.getContext('2d'),
        data = c.getImageData(Math.round(base.width * part), 0, 1, base.height).data, seen = [];
        for (let y = 1; y < base.height; y++) if (data[4 * y] !== data[4 * y - 4] || data[4 * y + 1] !== data[4 * y - 3]) seen.push(y);
        return seen.length > 60; })(0.95)""")
PY
python3 "$SRC/tests/oracle/oracle.py" check run.db >oracle.txt 2>&1 || fail "what another language works out: $(cat oracle.txt)"

# a run that is killed keeps what was away
start killed
kill -KILL "$pid"
wait "$pid" 2>/dev/null
exec {in}>&-
"$V" recover journals/killed.vsj >/dev/null 2>&1 || fail "recover"
"$V" report killed.db >killed.txt || fail "report of a recovered file"
says 'of 13.00 GiB allocated then 4.00 GiB were on the host (optimizer state, parked)' killed.txt
# a file of before there was such a table, alone and joined with others
cp run.db old.db && sqlite3 old.db "DROP VIEW away_peak; DROP TABLE away; DROP TABLE away_block; DELETE FROM ev WHERE op = 45; UPDATE ev SET address = 0 WHERE op = 25; UPDATE process SET pid = 7" || fail "an older file"
"$V" report old.db >old.txt || fail "report of an older file: $?"
lacks 'on the host' old.txt
"$V" report --json old.db >old.json || fail "report --json of an older file: $?"
lacks '"away_' old.json
"$V" merge -o both.db run.db old.db >/dev/null 2>&1 || fail "merge with an older file"
"$V" report 'both.db#1' >both.txt || fail "report of the first of two: $?"
has 'of 13.00 GiB allocated then 4.00 GiB were on the host' both.txt
"$V" report 'both.db#2' >both.txt || fail "report of the second of two: $?"
lacks 'on the host' both.txt
