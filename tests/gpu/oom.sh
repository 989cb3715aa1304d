#!/usr/bin/env bash
# oom.sh TREE OUT - PyTorch runs out of a real GPU's memory, in each of its allocators: the recorded live set is that of
# torch.cuda.memory_snapshot(), to the byte; output and exit status are the program's own.
python=python3
. "$(dirname "$0")/gpu.bash"
need

program() { # program NAME HOW COMMAND...: runs it under COMMAND
  local name=$1 how=$2; shift 2
  "$@" python3 "$here/oom_program.py" "$out/$name.json" "$how" >"$out/$name.stdout" 2>"$out/$name.stderr"
  echo $? >"$out/$name.status"
}

scenario() { # scenario MODE HOW STATUS
  local mode=$1 how=$2 wanted=$3 name=$1-$2
  rm -f "$out/$name".* "$out/$name-plain".* "$out/$name-run".*
  program "$name-plain" "$how" env
  program "$name" "$how" env VRAMSCOPE_OUTPUT="$out/$name.db" LD_PRELOAD="$tree/lib/libvramscope.so"
  program "$name-run" "$how" "$tree/bin/vramscope" run -o "$out/$name-run.db" --
  local with
  for with in "$name" "$name-run"; do
    if cmp -s "$out/$name-plain.stdout" "$out/$with.stdout" && [ "$(cat "$out/$with.status")" = "$wanted" ] && [ "$(cat "$out/$name-plain.status")" = "$wanted" ]; then
      pass "$with: output and exit status ($wanted) as without the shim"
    else
      fail "$with: output or exit status differ: $(cat "$out/$name-plain.status") $(cat "$out/$with.status")"
      diff "$out/$name-plain.stdout" "$out/$with.stdout" | head -5; tail -3 "$out/$with.stderr"
    fi
    if python3 "$here/oom_verify.py" "$tree" "$out/$with.db" "$out/$with.json" "$mode" >"$out/$with.verify" 2>&1; then
      pass "$with: $(grep -c '^ok' "$out/$with.verify") checks, $(grep -m1 'live set:\|pool:' "$out/$with.verify" | cut -c6-90)"
    else
      fail "$with"; cat "$out/$with.verify"
    fi
    "$tree/bin/vramscope" report --all "$out/$with.db" >"$out/$with.report" 2>&1 || fail "$with: report"
  done
}

conf() { export PYTORCH_CUDA_ALLOC_CONF=$1 PYTORCH_ALLOC_CONF=$1; }
for how in caught limit loop absorbed cached; do scenario native $how 0; done
scenario native uncaught 1
conf expandable_segments:True
for how in caught limit absorbed cached; do scenario expandable $how 0; done
scenario expandable uncaught 1
conf backend:cudaMallocAsync
scenario async caught 0
scenario async uncaught 1
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF

head -40 "$out/native-uncaught.report"
counted
