#!/usr/bin/env bash
# arena_torch.sh TREE OUT - PyTorch on the arena does what a program may do with an allocator (arena_torch.py). Two minutes.
python=python3
. "$(dirname "$0")/gpu.bash"
log=$out/arena_torch.log
: >"$log"
need
export CUBLAS_WORKSPACE_CONFIG=:4096:8 TORCHINDUCTOR_CACHE_DIR=$work/inductor
program() { # program NAME SECONDS [FEATURE...]: its output to the log as it comes
  local name=$1 limit=$2 status before; shift 2
  before=$(grep -c '^FAIL' "$log")
  rm -f "$out/$name.db"
  timeout --kill-after=5 "$limit" "$V" run --allocator=arena -q -o "$out/$name.db" -- python3 "$here/arena_torch.py" "$@" 2>"$out/$name.stderr" | tee -a "$log"
  status=${PIPESTATUS[0]}
  grep '^vramscope' "$out/$name.stderr" | sort | uniq -c | head -5 | tee -a "$log"
  # 1 with lines FAIL of its own is told already
  [ "$status" = 0 ] || { [ "$status" = 1 ] && [ "$(grep -c '^FAIL' "$log")" -gt "$before" ]; } ||
    echo "FAIL $name: exit status $status: $(tail -n 3 "$out/$name.stderr" | tr '\n' ' ' | cut -c1-400)" | tee -a "$log"
}
program arena-features 90
program arena-compile 70 compiled
for db in "$out"/*.db; do gzip -f -9 "$db" & done
wait
echo "$(grep -c '^PASS' "$log") passed, $(grep -c '^FAIL' "$log") failed" | tee -a "$log"
! grep -q '^FAIL' "$log"
