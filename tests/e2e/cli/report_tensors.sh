#!/bin/bash
# The report's largest lines say what tensor most of their bytes were asked for as, as far as the page is wide.
. "$(dirname "$0")/../lib/command.bash"
has() { grep -qF "$1" page || no "no '$1': $(grep -A 5 'asked for by' page)"; }
hasnt() { ! grep -qF "$1" page || no "'$1': $(grep -F "$1" page)"; }

# eight blocks of line 17 are one tensor; of the eight of line 41 five are another one, in two roles, and three are bytes
make_db plain.db --steps 4
cp plain.db run.db
sqlite3 run.db "INSERT OR IGNORE INTO element_type VALUES(6, 'float32', 4), (15, 'bfloat16', 2);
    INSERT INTO tensor VALUES(7, 1, 6, 188743680, '[46080, 1024]'), (8, 1, 15, 100663808, '[7, 7]'), (9, 3, NULL, NULL, NULL);
    CREATE TEMP TABLE at AS SELECT alloc_seq, line, row_number() OVER (PARTITION BY line ORDER BY alloc_seq) AS n FROM live_at_peak WHERE line IS NOT NULL;
    UPDATE peak_live SET tensor = (SELECT CASE WHEN line LIKE '%:17 %' THEN 7 WHEN n <= 5 THEN 8 ELSE 9 END FROM at WHERE at.alloc_seq = peak_live.alloc_seq)
        WHERE alloc_seq IN (SELECT alloc_seq FROM at);
    INSERT INTO framework_role SELECT alloc_seq, 1 FROM at WHERE line LIKE '%:41 %' AND n <= 2" || no "made-up tensors"
COLUMNS=200 "$V" report --all run.db >page
has 'model.py:17 Model.__init__, float32 [46080, 1024] x8'
has 'model.py:41 Model.forward, mostly bfloat16 [7, 7] x5'
hasnt '(no Python line; made in optimizer),'
for columns in 60 70 80 90 120; do
    COLUMNS=$columns "$V" report --all plain.db >plain
    COLUMNS=$columns "$V" report --all run.db >page
    # roles, which this recording has and the other has not, make rows of their own elsewhere
    [ "$(sed -n '/asked for by/,/^    [a-z]/p' page | wc -l)" = "$(sed -n '/asked for by/,/^    [a-z]/p' plain | wc -l)" ] || no "$columns columns: more lines: $(cat page)"
    has 'model.py:17 Model'
done
COLUMNS=80 "$V" report --all run.db >page # both rows take 79
has 'model.py:17 Model.__init__, float32 [46080, 1024] x8'
has 'model.py:41 Model.forward, mostly bfloat16 [7, 7] x5'
COLUMNS=78 "$V" report --all run.db >page
hasnt 'model.py:17 Model.__init__, '
hasnt 'model.py:41 Model.forward, '

# no tensor has half of it: nothing is said
sqlite3 run.db "INSERT INTO tensor SELECT 20 + n, 1, 6, 4, '[' || n || ']' FROM (SELECT DISTINCT row_number() OVER () AS n FROM peak_live);
    UPDATE peak_live SET tensor = 20 + alloc_seq % 7 WHERE tensor = 7"
COLUMNS=200 "$V" report --all run.db >page
hasnt 'model.py:17 Model.__init__, '

# where memory ran out
make_db oom.db --kind oom
sqlite3 oom.db "INSERT OR IGNORE INTO element_type VALUES(6, 'float32', 4); INSERT INTO tensor VALUES(7, 1, 6, 188743680, '[46080, 1024]');
    UPDATE oom_live SET tensor = 7 WHERE op = 20"
COLUMNS=200 "$V" report --all oom.db | sed -n '/^OUT OF MEMORY/,/^$/p' >page
has ', float32 [46080, 1024] x'
[ $failures = 0 ] && echo "the largest lines say their tensors" || exit 1
