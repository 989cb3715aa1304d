#!/usr/bin/env bash
# lines.sh TREE OUT - blocks born in backward have the forward's line that made their node, as PyTorch's anomaly mode remembers it;
# each block has the module that was open, as ModuleTracker has it.
. "$(dirname "$0")/gpu.bash"
need
for stacks in ${STACKS:-python all}; do
  name=$out/lines-$stacks
  rm -f "$name".*
  VRAMSCOPE_STACKS=$stacks VRAMSCOPE_OUTPUT=$name.db LD_PRELOAD=$tree/lib/libvramscope.so \
    timeout 60 "$python" "$here/lines.py" lines "$name.witness" >"$name.log" 2>&1 || tail -n 5 "$name.log"
  "$python" "$here/lines.py" compare lines "$name.db" "$name.witness"
  verdict $? "lines, STACKS=$stacks"
done
"$tree/bin/vramscope" peak --by=line "$out/lines-python.db" | head -n 12
rm -f "$out"/lines-*
name=$out/layers
rm -f "$name".*
timeout 60 "$tree/bin/vramscope" run -q -o "$name.db" -- "$python" "$here/lines.py" layers "$name.witness" >"$name.log" 2>&1 || tail -n 5 "$name.log"
"$python" "$here/lines.py" compare layers "$name.db" "$name.witness"
verdict $? layers
"$tree/bin/vramscope" peak --by=layer "$name.db" | head -n 40
rm -f "$name".*
counted
