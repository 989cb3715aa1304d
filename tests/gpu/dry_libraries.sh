#!/bin/bash
# dry_libraries.sh TREE OUT - reads off a GPU what dry/libraries has rules for: OUT/libraries.tsv.gz has what cuSOLVER, cuFFT and
# cuSPARSE say that they need, OUT/libraries.own what they, and cuBLAS, took from the driver for themselves.
#
# Needs PyTorch ($TEST_PYTHON or python3).  Half a minute.  Exit 77 without a GPU.
. "$(dirname "$0")/gpu.bash"
tree=${1:?TREE: an installed vramscope} out=${2:?OUT: a folder} here=$(cd "$(dirname "$0")" && pwd)
need

timeout 300 "$tree/bin/vramscope" run -o "$work/run.db" -- "$python" -W ignore "$here/dry_libraries.py" >"$work/libraries.tsv" || exit 1
gzip -9c "$work/libraries.tsv" >"$out/libraries.tsv.gz"
"$python" - "$work/run.db" >"$out/libraries.own" <<'END' || exit 1
import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute("""SELECT owner, space, size_bytes, count(*) FROM allocation
        WHERE op = 'alloc' AND owner LIKE 'libcu%' GROUP BY 1, 2, 3 ORDER BY min(alloc_seq)"""):
    print(*row, sep="\t")
END
echo "ok $(wc -l <"$work/libraries.tsv") figures"
