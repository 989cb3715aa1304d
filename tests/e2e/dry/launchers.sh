#!/bin/bash
# `vramscope fit` of a launcher answers for as many ranks as that would start; where it and --ranks disagree one line says so.  Of a program that
# spawns its ranks itself one rank runs, and the port where these would meet may be taken.
. "$(dirname "$0")/../lib/lib.bash"
. "$(dirname "$0")/../lib/dry.bash"
find_torch
unset LD_LIBRARY_PATH
cd "$dir" || exit 1
program=("$tests/prog_sizes" 4 512)
fit() { # LINE ARGUMENT...: it fits, and says LINE; "": nothing of a launcher
    local line=$1 got
    shift
    timeout 200 "$BUILD/bin/vramscope" fit "$@" >out 2>err </dev/null
    got=$?
    [ $got = 0 ] || fail "fit $*: status $got: $(tail -n 20 err) $(head -c 1000 out)"
    if [ -n "$line" ]; then grep -qxF "  $line" out; else ! grep -q 'would start' out; fi || fail "fit $*: not '$line': $(cat out)"
}
ranks() { # "A B": those that ran
    [ "$(sed -n 's/^ *rank \([0-9]*\) of .*/\1/p' out | xargs)" = "$1" ] || fail "not the ranks $1: $(cat out)"
}
has() { "$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(sys.argv[1]))' "$1"; }
torchrun=("$python" -m torch.distributed.run --no-python)
fit "torchrun would start 6 ranks: the answer is of these, as with --ranks=6" -- "${torchrun[@]}" --nnodes=2 --nproc-per-node=3 "${program[@]}"
ranks "0 1 5"
fit "torchrun would start 8 ranks, and --ranks says 4: the answer is of 4" --ranks=4 --rank=3 -- "${torchrun[@]}" --nproc-per-node=8 "${program[@]}"
ranks 3
if in_full; then
    fit "" --ranks=8 --rank=2 -- "${torchrun[@]}" --nproc-per-node=8 "${program[@]}"
    ranks 2
    fit "torchrun would start 1 rank, as on a machine with one GPU; of more: --ranks" -- "${torchrun[@]}" --nproc-per-node=1 "${program[@]}"
fi

cat >spawns.py <<'PY'
import socket, torch
from torch import distributed, multiprocessing

def work(rank, world, port):
    distributed.init_process_group("nccl", f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    distributed.all_reduce(torch.zeros(1 << 20, device=f"cuda:{rank}"))
    print(f"rank {distributed.get_rank()} of {world}", flush=True)

if __name__ == "__main__":
    ranks = torch.cuda.device_count()
    with socket.create_server(("", 0)) as taken:
        multiprocessing.spawn(work, (ranks, taken.getsockname()[1]), nprocs=ranks)
PY
for ranks in $(! in_full || echo 1) 4; do
    fit "" --ranks=$ranks --rank=$((ranks - 1)) -- "$python" spawns.py
    [ "$(grep '^rank' err)" = "rank $((ranks - 1)) of $ranks" ] || fail "not one rank of $ranks: $(cat err)"
done

if has accelerate; then
    launch=("$python" -c 'from accelerate.commands.accelerate_cli import main; main()' launch --no_python --num_machines=1 --mixed_precision=no --dynamo_backend=no)
    fit "accelerate would start 2 ranks: the answer is of these, as with --ranks=2" -- "${launch[@]}" --multi_gpu --num_processes=2 "${program[@]}"
    ranks "0 1"
    fit "accelerate would start 1 rank, and --ranks says 4: the answer is of 4" --ranks=4 --rank=3 -- "${launch[@]}" --num_processes=1 "${program[@]}"
    ranks 3
else
    echo "not tried: $python has no accelerate"
fi
if has deepspeed; then
    launch=("$python" -c 'from deepspeed.launcher.runner import main; main()' --no_python --no_local_rank)
    fit "deepspeed would start 2 ranks: the answer is of these, as with --ranks=2" -- "${launch[@]}" --include=localhost:0,1 "${program[@]}"
    ranks "0 1"
    fit "deepspeed would start 2 ranks, and --ranks says 4: the answer is of 4" --ranks=4 --rank=3 -- "${launch[@]}" --num_gpus=2 "${program[@]}"
    ranks 3
else
    echo "not tried: $python has no deepspeed"
fi
echo "launchers become ranks"
