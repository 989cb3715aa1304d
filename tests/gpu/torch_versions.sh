#!/usr/bin/env bash
# torch_versions.sh TREE OUT - PyTorch, and a newer one beside it, recorded in each way: the numbers that the program prints alone,
# and its own counters.
#
#     versions/program.py    a training: bit-equal losses; peaks, totals and counts to the byte (verify.py); lines of what is born in backward; replayed as recorded; killed and recovered
#     versions/features.py   what later versions have: the same numbers and counters
#
# TEST_PYTHON_NEW: a folder for PYTHONPATH with a newer PyTorch. WAYS, VERSIONS ("here new"): these alone. JOBS at a time (4). KEEP=1
# keeps all databases. Two minutes.
. "$(dirname "$0")/gpu.bash"
need
export PYTHONDONTWRITEBYTECODE=1 PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK=1
: >"$out/summary.txt"
verdict() { # STATUS NAME WHAT
  if [ "$1" = 0 ]; then echo "PASS $2: $3"; else echo "FAIL $2: $3"; fi | tee -a "$out/summary.txt"
}

# program NAME WAY COMMAND...: output, errors and exit status by NAME
program() {
  local name=$1 way=$2 run=() status
  shift 2
  rm -f "$out/$name".*
  case $way in
    alone) ;;
    preload) run=(env "LD_PRELOAD=$tree/lib/libvramscope.so" "VRAMSCOPE_OUTPUT=$out/$name.db") ;;
    arena) run=("$V" run -q --allocator=arena -o "$out/$name.db" --) ;;
    access) run=("$V" run -q --access -o "$out/$name.db" --) ;;
    stacks-*) run=("$V" run -q "--stacks=${way#stacks-}" -o "$out/$name.db" --) ;;
    *) run=("$V" run -q -o "$out/$name.db" --) ;;
  esac
  { timeout --kill-after=5 "${LIMIT:-90}" "${run[@]}" "$@" >"$out/$name.out" 2>"$out/$name.err"; } 2>/dev/null # where the shell says "Killed"
  status=$?
  echo "exit status $status" >>"$out/$name.out"
}

# same NAME ALONE: the losses, bit for bit, and the exit status
same() {
  cmp -s "$out/$1.out" "$out/$2.out"
  verdict $? "$1" "prints what it prints alone ($(grep -c 0x "$out/$1.out") numbers, $(tail -n 1 "$out/$1.out"))$(diff "$out/$2.out" "$out/$1.out" | sed -n '2,3s/^/; /p' | tr -d '\n')"
  cmp -s "$out/$1.out" "$out/$2.out" || tail -n 3 "$out/$1.err" | tee -a "$out/summary.txt"
}

# recorded NAME WAY: the recording against the program's counters
recorded() {
  local name=$1 check=(verify.py "$out/$1.db" "$out/$1.json")
  case $2 in
    arena) check+=(--arena) ;;
    stacks-driver | features*) ;;
    *) check+=(--lines 0.9) ;;
  esac
  "$python" "$here/${check[0]}" "${check[@]:1}" >"$out/$name.check" 2>&1
  verdict $? "$name" "$(tail -n 1 "$out/$name.check" | sed 's,.*\.db: ,,'); $(grep -h -e '^FAIL' -e 'born in backward' "$out/$name.check" | head -n 6 | tr '\n' ';')"
  "$V" report --all "$out/$name.db" >"$out/$name.report" 2>&1
}

replayed() { # NAME CASE
  timeout 60 "$V" whatif --json "$out/$1.db" >"$out/$1.replay" 2>>"$out/$1.err"
  "$python" "$here/whatif.py" verdict "$2" "$out/$1.replay" | sed "s/^\(PASS\|FAIL\) [a-z]*/\1 $1: replay,/" | tee -a "$out/summary.txt"
}

conf() { export PYTORCH_CUDA_ALLOC_CONF=$1 PYTORCH_ALLOC_CONF=$1; }

one() { # VERSION WAY
  local name=$1-$2 way=$2
  [ "$1" = here ] || export PYTHONPATH=$TEST_PYTHON_NEW
  case $way in
    expandable | features-expandable) conf expandable_segments:True ;;
    features-reserve) conf expandable_segments:True,expandable_segments_reserve:2G && export RESERVE=$((2 << 30)) ;;
  esac
  case $way in
    features*)
      program "$name-alone" alone "$python" "$here/versions/features.py" "$out/$name-alone.json"
      program "$name" "$way" "$python" "$here/versions/features.py" "$out/$name.json"
      same "$name" "$name-alone"
      ;;
    killed)
      program "$name" run "$python" "$here/versions/program.py" "$out/$name.json" --kill
      "$V" recover "$out/$name.db" >>"$out/$name.err" 2>&1
      verdict $? "$name" "recovered; the program: $(tail -n 1 "$out/$name.out")"
      ;;
    *)
      program "$name" "$way" "$python" "$here/versions/program.py" "$out/$name.json"
      same "$name" "$1-alone"
      ;;
  esac
  recorded "$name" "$way"
  case $way in native | features) replayed "$name" native ;; *expandable | features-reserve) replayed "$name" expandable ;; esac
  [ -n "${KEEP:-}" ] || grep -q "^FAIL $name:" "$out/summary.txt" || rm -f "$out/$name".db*
}

for version in ${VERSIONS:-here ${TEST_PYTHON_NEW:+new}}; do
  (
    [ "$version" = here ] || export PYTHONPATH=$TEST_PYTHON_NEW
    "$python" -c 'import torch; print("PyTorch", torch.__version__)' | tee -a "$out/summary.txt"
    program "$version-alone" alone "$python" "$here/versions/program.py" "$out/$version-alone.json"
  ) &
done
wait
for version in ${VERSIONS:-here ${TEST_PYTHON_NEW:+new}}; do
  reserve=$([ "$version" = here ] || echo features-reserve) # 2.11 does not know the setting
  for way in ${WAYS:-native expandable arena access stacks-all stacks-driver preload killed features features-expandable $reserve}; do
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-4}" ]; do sleep 0.2; done
    one "$version" "$way" &
  done
done
wait
passed=$(grep -c '^PASS' "$out/summary.txt") failed=$(grep -c '^FAIL' "$out/summary.txt")
echo "$passed passed, $failed failed" | tee -a "$out/summary.txt"
[ "$failed" = 0 ]
