#!/usr/bin/env bash
# programs.sh TREE OUT - programs of other libraries (torch_programs.py), alone and under `vramscope run`: the same output and exit
# status, PyTorch's counters to the byte (verify.py), "complete" in the report. One that prints other numbers when run twice alone is
# compared by its counters. Two minutes.
. "$(dirname "$0")/../gpu.bash"
nvidia-smi -L 2>/dev/null | grep -q GPU || { echo "SKIP: no GPU"; exit 77; }
command=$V

# ran NAME COMMAND...: its output, errors and status by NAME; @ in an argument is NAME
ran() {
  local name=$1; shift
  timeout --kill-after=5 100 "${@//@/$out/$name}" >"$out/$name.stdout" 2>"$out/$name.stderr"
  echo $? >"$out/$name.status"
}

# same NAME WORDS COMMAND...: NAME printed and ended as COMMAND does alone
same() {
  local name=$1 how=$2; shift 2
  if cmp -s "$out/$name-alone.stdout" "$out/$name-$how.stdout" && cmp -s "$out/$name-alone.status" "$out/$name-$how.status"; then
    pass "$name $how: output and exit status ($(cat "$out/$name-alone.status")) as alone"
    return
  fi
  ran "$name-again" "$@"
  if cmp -s "$out/$name-alone.stdout" "$out/$name-again.stdout"; then
    fail "$name $how: other output or exit status ($(cat "$out/$name-$how.status")): $(diff "$out/$name-alone.stdout" "$out/$name-$how.stdout" | head -n 3 | tr '\n' ' ')"
    tail -n 3 "$out/$name-$how.stderr"
  else
    skip "$name $how: prints other numbers each time, also alone: its counters are compared"
  fi
}

reported() { # reported NAME: the report's first lines say that all is there
  "$command" report --all "$out/$1.db" >"$out/$1.report" 2>&1
  local status=$?
  if [ $status = 0 ] && grep -q '^complete: no events lost' "$out/$1.report"; then
    pass "$1: $(grep -m 1 '^complete' "$out/$1.report")"
  else
    fail "$1: report, exit status $status: $(head -n 4 "$out/$1.report" | tr '\n' ' ')"
  fi
}

verified() {
  if python3 "$here/../verify.py" "$out/$1.db" "$out/$1.json" >"$out/$1.verify" 2>&1; then
    pass "$1: $(tail -n 1 "$out/$1.verify")"
  else
    fail "$1: $(grep FAIL "$out/$1.verify" | tr '\n' ';')"
  fi
}

torch_program() {
  local name=$1 program=(python3 "$here/torch_programs.py" "$1" @.json)
  ran "$name-alone" "${program[@]}"
  [ "$(cat "$out/$name-alone.status")" != 77 ] || { skip "$name: $(tail -n 1 "$out/$name-alone.stdout")"; return; }
  rm -f "$out/$name-run.db"
  ran "$name-run" "$command" run -o @.db -- "${program[@]}"
  same "$name" run "${program[@]}"
  verified "$name-run"
  reported "$name-run"
}

# Tensors sent to another process: from the arena as from PyTorch's own allocator.
workers() {
  ran workers-alone python3 "$here/torch_programs.py" workers @.json
  rm -f "$out"/workers-*.db
  for how in run arena; do
    local more=(); [ $how = run ] || more=(--allocator=arena)
    ran "workers-$how" "$command" run "${more[@]}" -o @.db -- python3 "$here/torch_programs.py" workers @.json
    same workers "$how" python3 "$here/torch_programs.py" workers @.json
    reported "workers-$how"
  done
}

# Fifteen processes begin on one GPU at once: how long their first 2 GiB take, and whether a wait is explained.
crowd() {
  local how more
  for how in native arena; do
    more=(); [ $how = native ] || more=(--allocator=arena)
    rm -rf "$out/crowd-$how"; mkdir -p "$out/crowd-$how"
    for i in $(seq 15); do
      timeout --kill-after=5 100 "$command" run -q "${more[@]}" -o "$out/crowd-$how/%p.db" -- python3 -c '
import time, torch
torch.empty(1, device="cuda")
begin = time.monotonic()
kept = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(32)]
print(time.monotonic() - begin)' >"$out/crowd-$how/$i.stdout" 2>"$out/crowd-$how/$i.stderr" &
    done
    wait
    echo "     crowd $how: seconds for 2 GiB, each of 15 processes: $(cat "$out/crowd-$how"/*.stdout | sort -n | cut -c1-5 | tr '\n' ' ')"
    grep -h 'the driver has taken' "$out/crowd-$how"/*.stderr | head -n 1
  done
  [ "$(cat "$out"/crowd-*/*.stdout | wc -l)" = 30 ] && pass "crowd: all 30 processes ended well" || fail "crowd: $(tail -n 2 "$out"/crowd-*/*.stderr | head -n 10)"
  rm -rf "$out"/crowd-*
}

for name in resnet vit gnn; do torch_program $name; done
workers
crowd
for db in "$out"/*.db; do gzip -f -9 "$db" & done
wait
counted
