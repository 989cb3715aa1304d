#!/bin/bash
# bench_ce.sh TREE OUT [OPTION...] - the linear cross-entropy beside its peers on a GPU: times, memory, errors. OPTIONs go to
# bench_ce.py.
#
# OUT gets bench_ce.tsv and bench_ce.txt (the Markdown tables last). BENCH_CE_PEERS: a directory that pip installed the peers of
# bench_ce_peers.txt to, or a .tar.xz of it; one that is missing is a row that says so. BENCH_CE_SECONDS: for everything (470), a
# fifth each at most for compiling and for the recording. Needs TREE's kernels.
python=python3
. "$(dirname "$0")/gpu.bash"
need
shopt -s nullglob
shift 2
library=$tree/lib/liblinear_cross_entropy.so total=${BENCH_CE_SECONDS:-470}
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
export TRITON_CACHE_DIR=$work/triton TORCHINDUCTOR_CACHE_DIR=$work/inductor QUACK_CACHE_DIR=$work/quack CUTE_DSL_CACHE_DIR=$work/cute
export TORCHINDUCTOR_COMPILE_THREADS=1 # the processes beside each other are the parallelism
mkdir -p "$work/triton" "$work/inductor" "$work/quack" "$work/cute"

# Under a name that they expect: QuACK takes what does not lie in a site-packages for sources that a user may change.
peers() {
    local from=${BENCH_CE_PEERS:-} to=$work/site-packages
    case $from in
    '') return ;;
    *.tar.xz)
        python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2], filter="data")' "$from" "$to" ||
            { echo "$from could not be unpacked: its peers are missing"; return; } ;;
    *) ln -s "$(realpath "$from")" "$to" || return ;;
    esac
    export BENCH_CE_SITE=$to
    echo "peers from ${from##*/}, there after $SECONDS s"
}

# option NAME OPTION...: the values given for an option, a line each
option() {
    local name=$1 i
    for ((i = 2; i < $#; i++)); do
        [ "${!i}" = "$name" ] && { i=$((i + 1)); echo "${!i}"; }
    done
}

# warm OPTION...: each family of compiled methods at each shape in a process of its own, so that one that crashes or
# hangs takes no other with it
warm() {
    local shape family seconds shapes=() only number=0
    mapfile -t shapes < <(option --shape "$@")
    only=$(option --only "$@" | tail -n 1)
    [ ${#shapes[@]} -gt 0 ] || mapfile -t shapes < <(cd "$here" && python3 -c 'import bench_ce_numbers as N; print(*(N.shape_name(s) for s in N.SHAPES), sep="\n")')
    while IFS=$'\t' read -r seconds family; do
        [ -n "$family" ] || continue
        [ "$seconds" -le $((total / 5)) ] || seconds=$((total / 5))
        for shape in "${shapes[@]}"; do
            number=$((number + 1))
            timeout --kill-after=5 "$seconds" python3 "$here/bench_ce.py" "$library" --warm "$work/warm.$number" \
                --only "$family" --shape "$shape" >"$work/log.$number" 2>&1 ||
                echo "$shape $family: status $? after $SECONDS s" &
        done
    done < <(python3 "$here/bench_ce.py" --families --only "$only")
    wait
    cat /dev/null "$work"/log.* | grep -v -e '^$' | cut -c 1-300 | tail -n 80
    echo "compiled after $SECONDS s"
}

measure() {
    local memory=() warmed status
    peers
    warm "$@"
    warmed=("$work"/warm.*)
    timeout --kill-after=10 $((total * 3 / 10)) "$tree/bin/vramscope" run -o "$work/ce.db" -- \
        python3 "$here/bench_ce.py" "$library" --memory "$work/notes" --warmed "${warmed[@]}" --seconds $((total / 5)) "$@"
    echo "recorded (status $?) after $SECONDS s"
    [ -f "$work/ce.db" ] && memory=(--memory-of "$work/ce.db" "$work/notes")
    timeout --kill-after=10 $((total - SECONDS + 20)) python3 "$here/bench_ce.py" "$library" "$out/bench_ce.tsv" "${memory[@]}" \
        --warmed "${warmed[@]}" --seconds $((total - SECONDS)) "$@"
    status=$?
    python3 "$here/bench_ce.py" --markdown "$out/bench_ce.tsv"
    echo "done after $SECONDS s, status $status"
    return $status
}

measure "$@" 2>&1 | tee "$out/bench_ce.txt"
exit "${PIPESTATUS[0]}"
