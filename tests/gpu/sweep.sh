#!/usr/bin/env bash
# sweep.sh TREE OUT - from five short recordings of a program, what it holds at other batches and lengths, and the longest that fits;
# then the same measured, with a bisection for the longest.
#
# Programs (sweep_program.py) run with native and with expandable segments, each under LIMIT bytes. SERIES="gpt2-native": these alone.
# Needs 120 GiB, transformers, torchvision; three minutes.
. "$(dirname "$0")/gpu.bash"
need
LIMIT=${LIMIT:-12884901888}
export OMP_NUM_THREADS=1

shapes() { # MODEL: the short runs, the grid, the lengths asked about
  case $1 in
    llama-eager) runs="2x512 2x1024 4x512 4x1024 8x512" grid=2x512,2x1536,2x2048,4x768,4x1280 lengths=512,768,1280,1536,2048,4096 ;;
    qwen) runs="2x256 4x256 2x768 4x512 4x640" grid=2x512,2x1024,3x640 lengths=512,640,1024,4096 ;;
    convnext) runs="8x128 8x160 16x128 16x192 8x256" grid=8x224,8x384,16x224,16x320 lengths=224,320,384,1024 ;;
    cnn) runs="8x128 8x160 16x128 16x192 8x256" grid=8x224,8x320,16x224,16x256 lengths=224,256,320,1024 ;;
    *) runs="2x512 4x512 2x2048 4x1024 4x2048" grid=2x512,2x3072,2x6144,4x1536,4x3072 lengths=512,1536,3072,6144,12288 ;;
  esac
}

turn() { # COMMAND...: run as soon as the GPU has room for one more process of LIMIT bytes
  local lock k
  while true; do
    for ((k = 0; k < TURNS; k++)); do
      exec {lock}>"$work/turn$k"
      if flock -n "$lock"; then
        "$@" {lock}>&-
        local status=$?
        exec {lock}>&-
        return $status
      fi
      exec {lock}>&-
    done
    sleep 0.2
  done
}

one() { # SERIES: record, predict, measure
  local series=$1 model=${1%-*} files=() conf='' runs grid lengths
  shapes "$model"
  [[ $series = *expandable ]] && conf=expandable_segments:True
  export PYTORCH_CUDA_ALLOC_CONF=$conf PYTORCH_ALLOC_CONF=$conf
  local d=$work/$series
  mkdir "$d"
  turn timeout 170 "$python" "$here/sweep_program.py" measure "$model" "$LIMIT" "$grid" "$d/measured.json" >"$d/measured.log" 2>&1 &
  for r in $runs; do
    turn timeout 60 "$tree/bin/vramscope" run -q -o "$d/$r.db" -- "$python" "$here/sweep_program.py" train "$model" "${r%x*}" "${r#*x}" >"$d/$r.log" 2>&1 ||
      { echo "$series $r failed:"; tail -n 3 "$d/$r.log"; }
    files+=("$d/$r.db:batch=${r%x*},seq=${r#*x}")
  done
  local batches
  batches=$(tr , '\n' <<<"$grid" | cut -dx -f1 | sort -nu | paste -sd,)
  "$tree/bin/vramscope" whatif --json --batch "$batches" --seq "$lengths" --capacity "$LIMIT" "${files[@]}" >"$d/predicted.json" 2>"$d/predicted.err"
  "$tree/bin/vramscope" whatif --batch "$batches" --seq "$lengths" --capacity "$LIMIT" "${files[@]}" >"$d/predicted.txt" 2>&1
  wait
}

all=${SERIES:-llama-eager-native llama-eager-expandable llama-sdpa-native llama-sdpa-expandable gpt2-native gpt2-expandable qwen-native qwen-expandable
  cnn-native cnn-expandable convnext-native convnext-expandable}
# a process has its limit, a context, and what a recording without a limit takes beyond it
TURNS=$("$python" -c 'import torch, sys
print(max(1, int(torch.cuda.get_device_properties(0).total_memory // (int(sys.argv[1]) + (5 << 29)))))' "$LIMIT")
for s in $all; do one "$s" & done
wait
within=0 missed=0
for s in $all; do
  if "$python" "$here/sweep_verdict.py" "$s" "$work/$s/predicted.json" "$work/$s/measured.json" 2>"$work/$s/verdict.err"; then
    within=$((within + 1))
  else
    missed=$((missed + 1))
    tail -n 2 "$work/$s/verdict.err" "$work/$s/predicted.err" "$work/$s/measured.log" 2>/dev/null | cut -c1-300
  fi
done
(cd "$work" && tar czf "$out/sweep.tgz" ./*)
echo "$within within, $missed missed"
[ "$missed" = 0 ]
