#!/bin/bash
# Parquet, by pyarrow: the rows are those of the csv, numbers are numbers, what is unknown is null; what fails leaves no file.
. "$(dirname "$0")/../lib/command.bash"
python=${TEST_PYTHON:-python3}
export PYTHONPATH=$BUILD/share/vramscope/python PYTHONDONTWRITEBYTECODE=1
make_db run.db --steps 20
python3 - <<'PY' || exit 1
import sqlite3
db = sqlite3.connect("run.db")
db.execute("INSERT OR IGNORE INTO element_type VALUES(15, 'bfloat16', 2)")
db.execute("INSERT INTO tensor VALUES(7, 1, 15, 1600, '[4, 200]')")
db.execute("UPDATE kind SET tensor = 7 WHERE id IN (SELECT kind FROM ev WHERE op = 20)")
db.commit()
PY
if ! "$python" -c 'import pyarrow' 2>/dev/null; then
    "$python" -m vramscope.parquet run.db out.parquet 2>err
    [ $? = 2 ] && grep -q 'pip install pyarrow' err && [ ! -e out.parquet.part ] || { echo "without pyarrow: $(cat err)" && exit 1; }
    echo "skipped: $python has no pyarrow (TEST_PYTHON names another)"
    exit 77
fi
echo mine >out.parquet.part # a name that we would write meanwhile
for rows in allocations events; do
    "$python" -m vramscope.parquet run.db out.parquet --rows=$rows 2>err || no "$rows: $(cat err)"
    "$BUILD/bin/vramscope" export --format=csv --rows=$rows run.db -o out.csv || no "csv of $rows"
    "$python" - <<'PY' || no "$rows differ"
import csv, pyarrow.parquet
table = pyarrow.parquet.read_table("out.parquet").to_pylist()
rows = list(csv.DictReader(open("out.csv", newline="")))
assert len(rows) == len(table) > 100
assert [{k: "" if v is None else str(v) for k, v in r.items()} for r in table] == rows
assert all(isinstance(r["size_bytes"], (int, type(None))) for r in table)
assert "request_bytes" not in table[0] or 1600 in {r["request_bytes"] for r in table if r["shape"] == "[4, 200]"}
PY
done
[ "$(cat out.parquet.part)" = mine ] && [ "$(echo out.parquet*)" = "out.parquet out.parquet.part" ] || no "out.parquet.part was somebody's: $(echo out.parquet*)"
rm -f out.parquet out.parquet.part
"$python" -m vramscope.parquet none.db out.parquet 2>err
[ $? = 2 ] && [ ! -e out.parquet ] && [ ! -e out.parquet.part ] && [ "$(wc -l <err)" = 1 ] && grep -q 'No such file' err ||
    no "a file that is not there: $(cat err)"
# what pyarrow refuses is one line, and the command is not recorded with the program that calls it
mkdir bin
printf '#!/bin/sh\necho "${LD_PRELOAD-none}" >%s/preload\nprintf "seq,size_bytes\\r\\n1,x\\r\\n"\n' "$D" >bin/vramscope
chmod +x bin/vramscope
cp -RL "$BUILD/share/vramscope/python/vramscope" alone
mkdir -p far/a/b/c && mv alone far/a/b/c/vramscope
LD_PRELOAD=libc.so.6 PATH=$D/bin:$PATH PYTHONPATH=$D/far/a/b/c "$python" -m vramscope.parquet run.db out.parquet 2>err
[ $? = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q '^vramscope.parquet: ' err && [ ! -e out.parquet.part ] || no "pyarrow refuses: $(cat err)"
[ "$(cat preload)" = none ] || no "LD_PRELOAD: $(cat preload)"
[ $failures = 0 ] && echo "Parquet has the rows of the csv" || exit 1
