#!/usr/bin/env bash
# python_frames.sh TREE OUT - the Python lines of a recording against PyTorch's own memory history.
#
#   lines   a program records itself by _record_memory_history(stacks="python") and is recorded: the same blocks in the same
#           order, and for those of threads that run Python the same frames: file, line and function
#
# TREE: an installed vramscope.  OUT: folder for databases and logs.  Needs a GPU and PyTorch.
# Ends with "N passed, N failed"; exit 77 without a GPU.
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
