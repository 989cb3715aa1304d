#!/usr/bin/env bash
# expandable_oom.sh TREE OUT - PyTorch with expandable segments runs out of a real GPU's memory: peak, direct memory and what the
# device held are torch's own counters, with call stacks and without, and add up to the device. Needs a GPU of its own.
python=python3
. "$(dirname "$0")/../gpu.bash"
need
export PYTORCH_ALLOC_CONF=expandable_segments:True PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
for stacks in off driver; do
  name=$out/expandable-$stacks
  rm -f "$name".*
  VRAMSCOPE_STACKS=$stacks "$tree/bin/vramscope" run -o "$name.db" -- python3 "$here/expandable_oom.py" play "$name.json" >"$name.stdout" 2>"$name.stderr"
  status=$?
  if [ $status = 0 ] && python3 "$here/expandable_oom.py" check "$name.db" "$name.json" "$tree" >"$name.check" 2>&1; then
    passed=$((passed + 1))
    echo "PASS stacks=$stacks: $(cat "$name.stdout")"
  else
    failed=$((failed + 1))
    echo "FAIL stacks=$stacks: status $status"
    tail -n 5 "$name.stderr"
  fi
  cat "$name.check"
  "$tree/bin/vramscope" report --all "$name.db" >"$name.report" 2>&1
  sed -n '/^OUT OF MEMORY/,/the device  /p' "$name.report" | grep -v '^        ' | head -n 24
done
counted
