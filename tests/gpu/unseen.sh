#!/bin/bash
# unseen.sh TREE OUT [PROGRAM...] - small real programs (unseen/programs.py), recorded with `run --access`: what the report says of
# roles, lines and growth, against what each program knew itself.
#
# JOBS at a time (4). KEEP=1 keeps the databases. PRELOAD: the simulated driver and the stand-ins for CUDA's libraries.
. "$(dirname "$0")/gpu.bash"
here+=/unseen how=(--access)
shift 2
[ -z "${PRELOAD:-}" ] || how=(--simulated) # which runs no kernels: no use is seen
LD_PRELOAD=${PRELOAD:-} need
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
counted
