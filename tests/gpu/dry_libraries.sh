#!/bin/bash
# dry_libraries.sh TREE OUT - reads off a GPU what dry/libraries has rules for: OUT/libraries.tsv.gz has what cuSOLVER, cuFFT and
# cuSPARSE say that they need, OUT/libraries.own what they, and cuBLAS, took from the driver for themselves.
#
# Needs PyTorch ($TEST_PYTHON or python3).  Half a minute.  Exit 77 without a GPU.
set -u
tree=${1:?TREE: an installed vramscope} out=${2:?OUT: a folder} here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out" && out=$(realpath "$out")
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { echo "SKIP: no GPU or no PyTorch"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

timeout 300 "$tree/bin/vramscope" run -o "$work/run.db" -- "$python" -W ignore "$here/dry_libraries.py" >"$work/libraries.tsv" || exit 1
gzip -9c "$work/libraries.tsv" >"$out/libraries.tsv.gz"
"$python" - "$work/run.db" >"$out/libraries.own" <<'END' || exit 1
import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute("""SELECT owner, space, size_bytes, count(*) FROM allocation
        WHERE op = 'alloc' AND owner LIKE 'libcu%' GROUP BY 1, 2, 3 ORDER BY min(alloc_seq)"""):
    print(*row, sep="\t")
END
echo "ok $(wc -l <"$work/libraries.tsv") figures"
