#!/usr/bin/env bash
# whatif.sh TREE OUT - what PyTorch's allocator did on a GPU, replayed: is each address, each segment event that of the simulation?
#
# Each case is recorded twice: by `vramscope run`, and by PyTorch's own history, whose snapshot is imported. That has neither a limit
# nor the pools of segments that went back. fsdp needs two GPUs. CASES="native gc": these alone. Two minutes.
. "$(dirname "$0")/gpu.bash"
need
gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())')
"$python" -c 'import torch; print("PyTorch", torch.__version__, torch.cuda.get_device_name())'
for case in ${CASES:-native streams midway empty_cache retry gc collect split roundup pools graphs expandable expandable_streams expandable_retry fsdp}; do
  conf=''
  case $case in
    gc | collect) conf=garbage_collection_threshold:0.6 ;;
    split) conf=max_split_size_mb:128 ;;
    roundup) conf=roundup_power2_divisions:4 ;;
    expandable*) conf=expandable_segments:True ;;
  esac
  launch=("$python") ranks=('')
  if [ "$case" = fsdp ]; then
    [ "$gpus" -ge 2 ] || { echo "SKIP fsdp: one GPU" && continue; }
    launch=("$python" -m torch.distributed.run --standalone --nproc-per-node 2) ranks=(0 1)
  fi
  rm -f "$work"/*
  PYTORCH_CUDA_ALLOC_CONF=$conf PYTORCH_ALLOC_CONF=$conf timeout 90 "$tree/bin/vramscope" run -q -o "$work/run.db" -- \
    "${launch[@]}" "$here/whatif.py" "$case" "$work/snapshot.pickle" >"$out/$case.log" 2>&1 || tail -n 5 "$out/$case.log"
  bound=1
  case $case in gc | collect | pools) bound=0 ;; esac
  count() { if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }
  for rank in "${ranks[@]}"; do
    "$tree/bin/vramscope" import -o "$work/import$rank.db" "$work/snapshot.pickle$rank" >>"$out/$case.log" 2>&1
    "$tree/bin/vramscope" whatif --json "$work/import$rank.db" >"$work/import.json" 2>>"$out/$case.log"
    count "$python" "$here/whatif.py" verdict "$case$rank, PyTorch's snapshot" "$work/import.json" $bound
  done
  for db in "$work"/run*.db; do
    "$tree/bin/vramscope" whatif --json "$db" >"$work/run.json" 2>"$work/err"
    if grep -q 'has no blocks of a framework' "$work/err"; then continue; fi # the launcher's
    cat "$work/err" >>"$out/$case.log"
    count "$python" "$here/whatif.py" verdict "$case, recorded by vramscope" "$work/run.json"
    [ -z "${KEEP:-}" ] || cp "$db" "$out/$case-${db##*/}"
  done
done
counted
