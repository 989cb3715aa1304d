#!/bin/bash
# unseen.sh TREE OUT [PROGRAM...] - small real programs (unseen/programs.py), recorded with `run --access`: what the report says of
# roles, lines and growth, against what each program knew itself.
#
# JOBS at a time (4). KEEP=1 keeps the databases. PRELOAD: the simulated driver and the stand-ins for CUDA's libraries.
set -u
tree=$(realpath "${1:?TREE: an installed tree}") out=${2:?OUT: a folder} here=$(cd "$(dirname "$0")" && pwd)/unseen
mkdir -p "$out" && out=$(realpath "$out")
shift 2
python=${TEST_PYTHON:-python3} V=$tree/bin/vramscope how=(--access)
[ -z "${PRELOAD:-}" ] || how=(--simulated) # which runs no kernels: no use is seen
LD_PRELOAD=${PRELOAD:-} "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { echo "SKIP: no GPU or no PyTorch"; exit 77; }
programs=("$@")
[ ${#programs[@]} -gt 0 ] || mapfile -t programs < <("$python" "$here/programs.py" --list)
one() { # PROGRAM
  local file=$out/$1
  rm -f "$file".db* "$file.json"
  LD_PRELOAD=${PRELOAD:-} timeout 120 "$V" run "${how[@]}" -q -o "$file.db" -- "$python" "$here/programs.py" "$1" "$file.json" >"$file.log" 2>&1 || {
    echo "FAIL $1: ended with $?: $(tail -n 1 "$file.log")"
    return
  }
  "$python" "$here/check.py" "$1" "$file.db" "$file.json" "$V" 2>&1
  {
    "$V" report --all "$file.db"
    for by in role layer line; do "$V" peak --by=$by --top=12 "$file.db"; done
    "$V" waste "$file.db"
  } >"$file.txt" 2>&1
  [ -n "${KEEP:-}" ] || rm -f "$file".db* "$file.json"
}
for program in "${programs[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-4}" ]; do sleep 0.2; done
  one "$program" >"$out/$program.said" &
done
wait
for program in "${programs[@]}"; do cat "$out/$program.said"; done | tee "$out/unseen.txt"
passed=$(grep -c '^PASS' "$out/unseen.txt") failed=$(grep -c '^FAIL' "$out/unseen.txt")
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
