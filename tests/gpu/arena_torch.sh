#!/usr/bin/env bash
# arena_torch.sh TREE OUT - PyTorch on the arena, on a real GPU: the same losses and the same memory_allocated() as with its
# own allocator, and everything that a program may do with an allocator (streams, graphs, pools, out of memory, workers, ...).
#
# TREE: an installed vramscope (bin/ lib/ share/).  OUT: folder for databases and logs.  Needs a GPU and PyTorch.
# One line PASS or FAIL a check, then "N passed, N failed"; exit 77 without a GPU.  Takes some 2 minutes.
python=python3
. "$(dirname "$0")/gpu.bash"
log=$out/arena_torch.log
: >"$log"
need
export CUBLAS_WORKSPACE_CONFIG=:4096:8 TORCHINDUCTOR_CACHE_DIR=$out/inductor
say() { printf '%s\n' "$*" | tee -a "$log"; }
program() { # program NAME SECONDS COMMAND...: its output to the log as it comes
  local name=$1 limit=$2 status before; shift 2
  before=$(grep -c '^FAIL' "$log")
  say "---- $name"
  timeout --kill-after=5 "$limit" "$@" 2>"$out/$name.stderr" | tee -a "$log"
  status=${PIPESTATUS[0]}
  grep -v '^$' "$out/$name.stderr" | grep '^vramscope' | sort | uniq -c | head -5 | tee -a "$log"
  # 1 with lines FAIL of its own is told already
  [ "$status" = 0 ] || { [ "$status" = 1 ] && [ "$(grep -c '^FAIL' "$log")" -gt "$before" ]; } ||
    say "FAIL $name: exit status $status: $(tail -n 3 "$out/$name.stderr" | tr '\n' ' ' | cut -c1-400)"
}
arena=("$tree/bin/vramscope" run --allocator=arena -q)
run=$here/arena_torch.py

program native-train 40 python3 "$run" train "$out/native.json"
rm -f "$out"/arena-train.db "$out"/arena-features.db "$out"/uncached.db "$out"/arena-compile.db
program arena-train 40 "${arena[@]}" -o "$out/arena-train.db" -- python3 "$run" train "$out/arena.json"
program compare-arena 20 python3 "$run" compare arena "$out/native.json" "$out/arena.json" "$out/arena-train.db"
"$tree/bin/vramscope" report --all "$out/arena-train.db" >"$out/arena-train.report" 2>&1 || say "FAIL report of arena-train"
head -n 40 "$out/arena-train.report" >>"$log"
program arena-features 90 "${arena[@]}" -o "$out/arena-features.db" -- python3 "$run" features
# every tensor a cudaMalloc, with and without the arena below it
program alone-train 40 env PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 "$run" train "$out/alone.json" --steps 18
program uncached-train 40 env PYTORCH_NO_CUDA_MEMORY_CACHING=1 VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_OUTPUT="$out/uncached.db" \
  LD_PRELOAD="$tree/lib/libvramscope.so" python3 "$run" train "$out/uncached.json" --steps 18
program compare-uncached 20 python3 "$run" compare uncached "$out/alone.json" "$out/uncached.json" "$out/uncached.db"
program arena-compile 70 "${arena[@]}" -o "$out/arena-compile.db" -- python3 "$run" features compiled
rm -rf "$out/inductor"
for db in "$out"/*.db; do gzip -f -9 "$db" & done
wait
say "$(grep -c '^PASS' "$log") passed, $(grep -c '^FAIL' "$log") failed"
! grep -q '^FAIL' "$log"
