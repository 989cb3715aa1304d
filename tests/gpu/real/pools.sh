#!/usr/bin/env bash
# pools.sh TREE OUT [jax] [cupy] - programs whose library has a pool that reports no blocks: what it holds is the library's own
# figure, to the byte, and what is allocated of it is unknown. Half a minute.
. "$(dirname "$0")/../gpu.bash"
shift 2
nvidia-smi -L >/dev/null 2>&1 || { echo "SKIP: no GPU"; exit 77; }
for library in "${@:-jax cupy}"; do
  for name in $library; do
    python3 -c "import $name" 2>/dev/null || { echo "SKIP $name is not installed"; continue; }
    run=$out/pool-$name
    rm -f "$run".*
    "$tree/bin/vramscope" run -o "$run.db" -- python3 "$here/pools.py" "$name" "$run.json" >"$run.stdout" 2>"$run.stderr"
    status=$?
    if [ $status = 0 ] && python3 "$here/pools.py" check "$run.db" "$run.json" "$tree" >"$run.check" 2>&1; then
      pass "$name"
    else
      fail "$name: status $status"
    fi
    cat "$run.check"
    grep vramscope "$run.stderr" | head -n 5
    "$tree/bin/vramscope" report --all "$run.db" | head -n 30
  done
done
counted
