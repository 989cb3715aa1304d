#!/usr/bin/env bash
# python_frames.sh TREE OUT - a program that keeps PyTorch's own history is recorded: the same blocks in the same order, and the same
# frames where their thread runs Python.
. "$(dirname "$0")/gpu.bash"
need
"$python" -VV
for stacks in python all; do
  name=$out/lines-$stacks
  rm -f "$name".*
  VRAMSCOPE_STACKS=$stacks VRAMSCOPE_STACK_DEPTH=200 VRAMSCOPE_VERBOSE=1 VRAMSCOPE_OUTPUT=$name.db LD_PRELOAD=$tree/lib/libvramscope.so \
    timeout 60 "$python" "$here/python_frames.py" play "$name.history" >"$name.log" 2>&1 || tail -n 5 "$name.log"
  grep -h 'Python frames' "$name.log"
  timeout 60 "$python" "$here/python_frames.py" compare "$name.db" "$name.history" >"$name.compared"
  verdict $? "lines, STACKS=$stacks"
  cat "$name.compared"
  rm -f "$name.history"
done
"$tree/bin/vramscope" peak --by=line "$out/lines-python.db" | head -n 14
rm -f "$out"/lines-*.db
counted
