#!/usr/bin/env bash
# lines.sh TREE OUT - the forward's lines and the layers of a recording against witnesses in Python, and what they cost.
#
#   lines    blocks born in backward have the line of the forward that made their node, as PyTorch's anomaly mode remembers it;
#            preloaded alone, and with STACKS=all
#   layers   each block has the module that was open, as PyTorch's ModuleTracker has it
#   cost     what `vramscope run` does at all, with the wrapper of modules, off and on by turns of one step in one process; beside it
#            the library alone, with STACKS=driver and python
#
# TREE: an installed vramscope.  OUT: folder for databases and logs.  Needs a GPU and PyTorch (and transformers, for a Llama); TURNS=600
# takes about two minutes.  Ends with "N passed, N failed"; exit 77 without a GPU.
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

# cost: MODEL CONFIG, CONFIG run (with hooks), driver or python (preloaded)
turns() {
  local name=$out/cost-$2-$1 worker=("$python" "$here/bench_step_worker.py" "$out/cost-$2-$1.json" --models "$1" --steps 30 --turn 1 --turns "${TURNS:-600}")
  if [ "$2" = run ]; then
    timeout 100 "$tree/bin/vramscope" run -q -o "$name.db" -- "${worker[@]}" --hooks >"$name.log" 2>&1
  else
    VRAMSCOPE_STACKS=$2 VRAMSCOPE_OUTPUT=$name.db LD_PRELOAD=$tree/lib/libvramscope.so timeout 100 "${worker[@]}" >"$name.log" 2>&1
  fi || tail -n 5 "$name.log"
}
for model in ${MODELS:-small cnn gpt}; do
  turns "$model" run
done
[ -n "${ONLY_RUN:-}" ] || for stacks in driver python; do turns small $stacks; done
"$python" "$here/lines.py" cost "$out"
verdict $? "cost: the default at most 1.03"
rm -f "$out"/cost-*.db* "$out"/cost-*.log
counted
