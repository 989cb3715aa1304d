#!/usr/bin/env bash
# refusals.sh TREE OUT - holds what `vramscope whatif` says of a program that died of out-of-memory against the same program, changed.
#
# A model trains without a limit, which gives the limit under which it dies at the case's place; `whatif` is asked of that death about
# each edit, and about the pairs that it names itself (OUT/refusals.json). Only then each changed program trains under the same limit
# (OUT/refusals.md).
#
# CASES, EDITS, JOBS at a time (14), SECONDS_MOST for all changed programs (200), KEEP: a folder for all recordings. Needs the fused
# loss, transformers, torchvision; four minutes on 16 cores. CPU_BLOCKS (a library made of tests/e2e/frameworks/cpu_blocks.c): on the
# CPU; TREE is a build folder then.
. "$(dirname "$0")/gpu.bash"
[ -n "${CPU_BLOCKS:-}" ] || need
export here python work V TRITON_CACHE_DIR=$work/triton OMP_NUM_THREADS=2 CPU_BLOCKS=${CPU_BLOCKS:-} COLUMNS=400 PYTHONWARNINGS=ignore
jobs=${JOBS:-14} cases=${CASES:-all}
read -ra edits <<<"${EDITS:-$("$python" "$here/refusals.py" edits)}"

# shellcheck disable=SC2317 # xargs calls them
run() { # run NAME ALLOCATOR MODEL WORD...: trains MODEL as the words say, recorded as NAME.db; what it prints of its end is NAME.json
  local name=$1 conf='' how=() word limit='' left=$((until - $(date +%s)))
  [ "$left" -gt 0 ] || { echo "bad $name: no time left" && return; }
  [ "$2" = expandable ] && conf=expandable_segments:True
  if [ -n "$CPU_BLOCKS" ]; then
    how=(--simulated)
    for word in "$@"; do case $word in limit=*) limit=$(awk "BEGIN { printf \"%d\", ${word#limit=} * 1048576 }") ;; esac; done
    set -- "$@" device=cpu
  fi
  LD_PRELOAD=$CPU_BLOCKS CPU_BLOCKS_LIMIT=${limit:-18446744073709551615} PYTORCH_CUDA_ALLOC_CONF=$conf timeout $((left < 150 ? left : 150)) "$V" run -q "${how[@]}" -o "$work/$name.db" -- \
    "$python" "$here/refusals_program.py" "${@:3}" >"$work/$name.json" 2>"$work/$name.err" || echo "bad $name: $(tail -n 2 "$work/$name.err" | tr '\n' ' ' | cut -c1-300)"
}
# shellcheck disable=SC2317
change() { # change CASE ALLOCATOR MODEL STEPS BASE LIMIT EDIT...
  local name words=("${@:7}")
  name=$(IFS=+ && echo "${words[*]}")
  run "$1.$name" "$2" "$3" "steps=$4" "base=$5" "limit=$6" "${words[@]}"
}
# shellcheck disable=SC2317
die() { # die CASE MODEL ALLOCATOR BASE STEPS: trains MODEL under the limit that the recording CASE.whole.db gives
  "$python" "$here/refusals.py" plan "$1" "$work/$1.whole.db" >"$work/$1.limit" && run "$1.dead" "$3" "$2" "base=$4" "steps=$5" "limit=$(cat "$work/$1.limit")"
}
# shellcheck disable=SC2317
ask() { # ask CASE [EDITS]: asks whatif about the program that died; "+" joins several edits
  local how=() word
  [ -z "$CPU_BLOCKS" ] || how=("--policy=live" "--capacity=$(awk '{ printf "%d", $1 * 1048576 }' "$work/$1.limit")")
  for word in $(tr + ' ' <<<"${2:-}"); do how+=(-e "$word"); done
  "$V" whatif --json "${how[@]}" "$work/$1.dead.db" >"$work/$1.${2:-all}.said" 2>"$work/$1.${2:-all}.why" || true
  [ -n "${2:-}" ] || { "$V" whatif --why "$work/$1.dead.db" >"$work/$1.whatif.txt" && "$V" report --all "$work/$1.dead.db" >"$work/$1.report.txt"; } 2>/dev/null || true
}
export -f run change die ask
all() { # all FUNCTION FILE [SECONDS]: calls FUNCTION with the words of each line of FILE, several at a time
  local seconds=${3:-400}
  [ -s "$2" ] || return 0
  export until=$(($(date +%s) + seconds)) # run's own timeout ends its program by then: the outer one does not reach into the group of an inner one
  timeout $((seconds + 5)) xargs -P "$jobs" -L 1 bash -c "$1"' "$@"' _ <"$2"
}

: >"$work/wholes"
: >"$work/deaths"
"$python" "$here/refusals.py" cases "$cases" >"$work/deaths" || exit 2
while read -r name model allocator base steps; do echo "$name.whole $allocator $model base=$base steps=$steps"; done <"$work/deaths" >"$work/wholes"
all run "$work/wholes"
all die "$work/deaths"
echo "dead after $SECONDS s"
while read -r name _; do
  echo "$name"
  printf "$name %s\n" "${edits[@]}"
done <"$work/deaths" >"$work/asked"
all ask "$work/asked"
"$python" "$here/refusals.py" jobs "$work" "$out/refusals.json" | sed 's/^/change /' >"$work/changed"
(cd "$out" && sha256sum refusals.json)
echo "said after $SECONDS s: $(grep -c ^ "$work/changed") changed programs"
all '"$@" #' "$work/changed" "${SECONDS_MOST:-200}"
echo "ran after $SECONDS s"
status=0
if [ -s "$work/deaths" ]; then
  "$python" "$here/refusals.py" judge "$work" "$out/refusals.json" "$out/judged.json" | tee "$out/refusals.md"
  [ "${PIPESTATUS[0]}" = 0 ] || status=1
  [ -n "$CPU_BLOCKS" ] || "$python" "$here/refusals.py" best "$work" "$out/refusals.json" || status=1
  (cd "$work" && tar cf - -- *.dead.db *.dead.json *.limit) | xz -T8 -2 >"$out/dead.txz"
fi
[ -z "${KEEP:-}" ] || { mkdir -p "$KEEP" && cp "$work"/*.db "$work"/*.json "$work"/*.limit "$work"/*.said "$work"/*.txt "$KEEP"; } 2>/dev/null
exit $status
