#!/bin/bash
# --device, --top and --sort show what was asked for; run --force replaces recordings and no other file; its program has the resource limits that it
# has without vramscope.
. "$(dirname "$0")/../lib/command.bash"
export COLUMNS=120
make_db two.db --devices 2
make_db more.db --devices 2 --extra 400

for command in "report --all two.db" "peak two.db" "diff two.db more.db"; do
    # shellcheck disable=SC2086
    "$V" $command -d 1 >page || no "$command -d 1"
    if ! grep -q '^device 1' page || grep -q '^device 0' page; then no "$command -d 1: $(grep '^device' page)"; fi
    # shellcheck disable=SC2086
    refused "--sort takes" "$V" $command --sort=color
done
[ "$("$V" report --json -d 1 two.db | python3 -c 'import json, sys; print([d["device"] for d in json.load(sys.stdin)["files"][0]["devices"]])')" = "[1]" ] || no "report --json -d 1"

names() { sed -n '/^  phase /,/^  ─/p' page | sed '1d;$d' | awk '{ print $1 }' | tr '\n' ' '; }
"$V" report --all -d 0 --sort=name two.db >page && [ "$(names)" = "backward forward logits none optimizer " ] || no "report --sort=name: $(names)"
"$V" report --all -d 0 --sort=peak --top 2 two.db >page || no "report --top"
grep -q '^  3 more' page || no "report --top 2: $(names)"
python3 - "$(names)" <<'PY' || no "report --sort=peak"
import sqlite3, sys
rows = sqlite3.connect("two.db").execute("SELECT phase, allocated_bytes FROM phase_peak WHERE device = 0").fetchall()
got, bytes_of = sys.argv[1].split()[:2], dict(rows)
assert [bytes_of[n] for n in got] == sorted(bytes_of.values(), reverse=True)[:2], (got, rows)
PY
"$V" peak -d 0 --by=phase --sort=name --top=0 two.db >page || no "peak --sort"
sed -n '/by phase/,/─/p' page | sed '1d;$d' | awk '{ print $1 }' | sort -c || no "peak --sort=name: $(cat page)"
"$V" peak -d 0 --by=stack --sort=count --top=0 two.db >page || no "peak --sort=count"
sed -n '/by stack/,/─/p' page | sed '1d;$d' | awk '{ print $NF }' | sort -rnc || no "peak --sort=count: $(cat page)"
"$V" diff -d 0 --top 1 two.db more.db >page && [ "$(grep -c ' more' page)" -ge 2 ] || no "diff --top 1: $(cat page)"

# ranks: highest first, and how many are not shown
mkdir job && make_db job/a.db --rank 0 --world 3 && make_db job/b.db --rank 1 --world 3 --extra 900 && make_db job/c.db --rank 2 --world 3 --extra 30
ranks() { sed -n '/^  rank  /,/^  ─/p' page | sed '1d;$d' | awk '{ print $1 }' | tr '\n' ' '; }
"$V" report --all --sort=peak job >page && [ "$(ranks)" = "1 2 0 " ] || no "report --sort=peak of ranks: $(ranks)"
"$V" report --all --top=1 --sort=peak job >page && [ "$(ranks)" = "1 " ] && grep -q '^  2 devices more: --top=0 shows all' page || no "report --top of ranks: $(cat page)"

# the program records nothing here: what lies there is what counts
cp two.db there.db
refused "there.db exists and is never overwritten without --force" "$V" run -o there.db true
limit=$(ulimit -d)
"$V" run -q --force -o there.db bash -c 'ulimit -d >limit' 2>err || no "run --force: $(cat err)"
[ ! -e there.db ] || no "run --force left the old recording"
# the limit under which the old recording was looked at
[ "$(cat limit)" = "$limit" ] || no "run --force: the program may have $(cat limit) KiB of data instead of $limit"
echo 'print()' >train.py
refused "--force replaces recordings alone" "$V" run --force -o train.py true
[ "$(cat train.py)" = 'print()' ] || no "run --force removed what is no recording"
"$V" run -q -o deep/er/run.db true 2>err || no "run -o into a new directory: $(cat err)"
[ -d deep/er ] || no "run makes no directory"
[ $failures = 0 ] && echo "what was asked for is shown, and nothing else" || exit 1
