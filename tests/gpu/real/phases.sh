#!/usr/bin/env bash
# phases.sh TREE OUT [PROGRAM...] - the phases of real trainings (phases_programs.py), block by block, against PyTorch's own memory
# history by a written rule (phases_rule.py). With two GPUs also DDP and FSDP2.
#
# DRY=1: on the CPU, with the hooks' own word in place of a recording (LIBRARY: what the hooks talk to).
python=${PYTHON:-python3}
. "$(dirname "$0")/../gpu.bash"
shift 2
[ -n "${DRY:-}" ] || need
export tree here out python HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
cd "$out" || exit 1

one() { # PROGRAM
    local name=$1 history=$out/$1.history.gz
    rm -f "$out/$name".*
    if [ -n "${DRY:-}" ]; then
        PHASE_LOG=$out/$name.phases LD_PRELOAD=$LIBRARY PYTHONPATH=$tree/share/vramscope/python \
            "$python" "$here/phases_programs.py" "$name" "$history" >"$out/$name.log" 2>&1 &&
            "$python" "$here/phases_rule.py" "$history" >"$out/$name.result" 2>&1
    else
        CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} "$tree/bin/vramscope" run -o "$out/$name.db" -- "$python" "$here/phases_programs.py" "$name" "$history" >"$out/$name.log" 2>&1 &&
            "$python" "$here/phases_rule.py" "$history" "$out/$name.db" >"$out/$name.result" 2>&1
    fi
    local status=$?
    [ -s "$out/$name.result" ] || { echo "FAIL $name: the program ended with $status"; tail -n 12 "$out/$name.log"; } >"$out/$name.result"
    cat "$out/$name.result"
    return "$status"
}
both() { # PROGRAM: on two GPUs
    local name=${1}_2gpu status=0
    rm -f "$out/$name"*
    "$tree/bin/vramscope" run -o "$out/$name-%r.db" -- "$python" -m torch.distributed.run --nproc-per-node=2 --master-port=$((29500 + RANDOM % 1000)) \
        "$here/phases_programs.py" "$1" "$out/$name-RANK.history.gz" >"$out/$name.log" 2>&1 ||
        { echo "FAIL $name: the program failed"; tail -n 12 "$out/$name.log"; return 1; }
    for rank in 0 1; do
        echo "$name, rank $rank:"
        "$python" "$here/phases_rule.py" "$out/$name-$rank.history.gz" "$out/$name-$rank.db" || status=1
    done >"$out/$name.result" 2>&1
    cat "$out/$name.result"
    return "$status"
}
export -f one both

[ $# -gt 0 ] || mapfile -t programs < <("$python" "$here/phases_programs.py" --list)
[ $# -eq 0 ] || programs=("$@")
printf '%s\n' "${programs[@]}" | xargs -P "${JOBS:-5}" -I{} bash -c 'one {}' || failed=1
if [ -z "${DRY:-}" ] && [ "$("$python" -c 'import torch; print(torch.cuda.device_count())')" -ge 2 ]; then
    printf '%s\n' ddp fsdp2 | xargs -P 2 -I{} bash -c 'both {}' || failed=1
fi
exit "$failed"
