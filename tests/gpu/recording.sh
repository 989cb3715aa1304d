#!/usr/bin/env bash
# recording.sh TREE OUT - an unmodified PyTorch job recorded in every way, held against its own counters.
#
# TREE: an installed vramscope (bin/ lib/ share/).  OUT: folder for databases, logs, tables.  Needs a GPU and PyTorch.
# Every scenario runs the same program with and without the shim and compares output and exit status; verify.py compares the bytes.
# Ends with "N passed, N failed"; exit 77 without a GPU.
python=python3
. "$(dirname "$0")/gpu.bash"
need
say() { printf '%s\n' "$*"; }

# program NAME ARGS...: runs the program under the shim's environment in $shim (plain, preload, run); its stdout, stderr and status by NAME
program() {
  local name=$1; shift
  local base=$out/$name
  rm -f "$base".*
  local run=()
  case $shim in
    preload) run=(env "VRAMSCOPE_OUTPUT=$base.db" "LD_PRELOAD=$tree/lib/libvramscope.so") ;;
    run) run=("$tree/bin/vramscope" run -o "$base.db" --) ;;
  esac
  "${run[@]}" python3 "$here/train_transformer.py" --facts "$base.json" "$@" >"$base.stdout" 2>"$base.stderr"
  echo $? >"$base.status"
}

same() { # same A B: output and exit status identical
  if cmp -s "$out/$1.stdout" "$out/$2.stdout" && cmp -s "$out/$1.status" "$out/$2.status"; then
    pass "$2: output and exit status ($(cat "$out/$2.status")) as without the shim"
  else
    fail "$2: output or exit status differ from $1"; diff "$out/$1.stdout" "$out/$2.stdout" | head -5; cat "$out/$1.status" "$out/$2.status"; tail -5 "$out/$2.stderr"
  fi
}

verified() { # verified NAME PHASES
  if python3 "$here/verify.py" "$out/$1.db" "$out/$1.json" --phases "$2" >"$out/$1.verify" 2>&1; then
    pass "$1: $(tail -1 "$out/$1.verify")"
  else
    fail "$1"; cat "$out/$1.verify"; tail -5 "$out/$1.stderr"
  fi
}

scenario() { # scenario NAME ARGS...: plain, preload and run
  local name=$1; shift
  shim=plain program "$name-plain" "$@"
  shim=preload program "$name-preload" "$@"; same "$name-plain" "$name-preload"; verified "$name-preload" "$preload_phases"
  shim=run program "$name-run" "$@"; same "$name-plain" "$name-run"; verified "$name-run" "$run_phases"
}

preload_phases=thread run_phases=auto
scenario native
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True PYTORCH_ALLOC_CONF=expandable_segments:True
scenario expandable
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF
scenario checkpoint --checkpoint
scenario throw --throw
run_phases=any preload_phases=any
[ "${SKIP_COMPILE:-0}" = 1 ] || scenario compile --compile --steps 12

# killed in the middle of a step: nothing recorded may be lost
shim=preload program killed --kill 5
"$tree/bin/vramscope" recover "$out/killed.db" >"$out/killed.recover" 2>&1 || { fail "recover: $(cat "$out/killed.recover")"; }
[ "$(cat "$out/killed.status")" = 137 ] && pass "killed: died of SIGKILL" || fail "killed: status $(cat "$out/killed.status")"
verified killed any

# out of memory: the program's own exception and status, and the event with the state at that moment
for shim in plain preload; do program "oom-$shim" --oom --steps 3; done
same oom-plain oom-preload
n=$(python3 -c "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute(\"SELECT count(*) FROM event WHERE op = 'oom'\").fetchone()[0])" "$out/oom-preload.db")
[ "$n" -ge 1 ] && pass "oom: $n event(s)" || fail "oom: no event"

counted
