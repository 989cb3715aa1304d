#!/usr/bin/env bash
# sweep_edge.sh TREE OUT [CASE...] - whether one size of sweep.sh fits under LIMIT bytes on a GPU that no other process fills: CASE is MODEL-native:BATCHxSEQ or
# MODEL-expandable:BATCHxSEQ; by default the longest lengths that were once predicted a step too long.
#
# Each case is run by itself (its peak, how often the allocator emptied its cache, or what PyTorch said when it ran out and what the device had free then) and under
# `vramscope run`; the recordings stay in OUT as MODEL-ALLOCATOR-BATCHxSEQ.db.
#
# TREE: an installed vramscope.  Needs a GPU with LIMIT + 3 GiB free a case, PyTorch, transformers, torchvision.  Exit 77 without a GPU.
. "$(dirname "$0")/gpu.bash"
shift 2
[ $# -gt 0 ] || set -- qwen-expandable:2x2688 qwen-expandable:3x1792 llama-sdpa-native:2x7424
need
export LIMIT=${LIMIT:-12884901888} OMP_NUM_THREADS=1
FRACTION=$("$python" -c 'import os, torch; print(int(os.environ["LIMIT"]) / torch.cuda.get_device_properties(0).total_memory)')
export FRACTION

one() { # CASE
  local series=${1%%:*} size=${1##*:} conf=''
  [[ $series = *expandable ]] && conf=expandable_segments:True
  export PYTORCH_CUDA_ALLOC_CONF=$conf PYTORCH_ALLOC_CONF=$conf
  local name=$series-$size
  timeout 90 "$python" "$here/sweep_program.py" edge "${series%-*}" "${size%x*}" "${size#*x}" >"$out/$name.txt" 2>"$out/$name.err" || tail -n 3 "$out/$name.err" >>"$out/$name.txt"
  timeout 90 "$tree/bin/vramscope" run -q -o "$out/$name.db" -- "$python" "$here/sweep_program.py" train "${series%-*}" "${size%x*}" "${size#*x}" >"$out/$name.log" 2>&1
  rm -f "$out/$name.err" "$out/$name.log"
}

for c in "$@"; do one "$c" & done
wait
for c in "$@"; do echo "$c: $(cat "$out/${c%%:*}-${c##*:}.txt")"; done
