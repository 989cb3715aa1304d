#!/bin/bash
# What is said when a recording ends: one summary a job, the first rank's; a rank that recorded nothing says so; under plain LD_PRELOAD a
# line on a terminal
# or by VRAMSCOPE_VERBOSE, never in a pipe.
. "$(dirname "$0")/../lib/command.bash"
V=$BUILD/bin/vramscope prog=$BUILD/tests/prog_exit shim=$BUILD/lib/libvramscope.so
[ -x "$prog" ] && [ -r "$BUILD/sim/libcuda.so.1" ] || { echo "skipped: the simulated driver or prog_exit is not built"; exit 77; }
unset RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID PMI_RANK OMPI_COMM_WORLD_RANK PYTHONPATH VRAMSCOPE_VERBOSE

# ---- a job ----
job() { # FOLDER COMMAND...: four ranks, each with a run of its own
    local folder=$1 rank
    shift
    mkdir "$folder"
    for rank in 0 1 2 3; do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=4 "$V" run --simulated -o "$folder/%r.db" -- "$@" >out 2>"$folder/err.$rank" &
    done
    wait
    grep -h '^vramscope:' "$folder"/err.* >said
}
job jobs "$prog" exit 20
[ "$(wc -l <said)" = 2 ] && grep -Eq '^vramscope: jobs/0.db \(rank 0 of 4\): peak [0-9.]+ [KMG]?i?B allocated, .*, no events lost$' said &&
    grep -qx 'vramscope: vramscope report jobs/ shows the ranks that wrote there beside each other' said || no "a job: $(cat said)"
[ "$(cd jobs && echo ./*.db)" = "./0.db ./1.db ./2.db ./3.db" ] || no "the job's files: $(ls jobs)"
"$V" report --all jobs/ >report 2>&1 && grep -q 'job of 4 ranks' report || no "the report of jobs/: $(cat report)"
# shellcheck disable=SC2016 # for the ranks' shells
job some sh -c '[ $RANK = 2 ] || exec "$0" exit 20' "$prog"
[ "$(grep -c 'nothing was recorded' said)" = 1 ] && grep -q 'nothing was recorded' some/err.2 && [ "$(wc -l <said)" = 3 ] || no "a rank without a GPU: $(cat said)"
# one run around all of them speaks of all
"$V" run --simulated -o all.db -- sh -c "for rank in 0 1 2; do RANK=\$rank WORLD_SIZE=3 '$prog' exit 20; done" >out 2>err
grep -q '^vramscope: all.db and 2 more: peak' err || no "one run around a job: $(cat err)"

# ---- plain LD_PRELOAD ----
on_terminal() { python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$@" </dev/null | tr -d '\r'; }
plain() { env SIMCUDA_BANNER=0 LD_LIBRARY_PATH="$BUILD/sim" LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$D/$1" "${@:2}"; }
plain pipe.db "$prog" exit 5 2>&1 >/dev/null | cat >err
[ -s pipe.db ] && [ ! -s err ] || no "in a pipe: $(cat err)"
plain verbose.db env VRAMSCOPE_VERBOSE=on "$prog" exit 5 2>&1 >/dev/null | cat >err
grep -q "^vramscope: recorded into $D/verbose.db" err || no "VRAMSCOPE_VERBOSE: $(cat err)"
if command -v python3 >/dev/null; then
    on_terminal env SIMCUDA_BANNER=0 LD_LIBRARY_PATH="$BUILD/sim" LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$D/seen.db" "$prog" exit 5 >err
    grep -qx "vramscope: recorded into $D/seen.db: vramscope report shows it" err || no "on a terminal: $(cat err)"
    on_terminal "$V" run --simulated -o run.db -- "$prog" exit 5 >err
    [ "$(grep -c '^vramscope:' err)" = 1 ] && grep -q '^vramscope: run.db: peak' err || no "under run, on a terminal: $(cat err)"
fi

# ---- PyTorch on the simulated driver ----
if command -v python3 >/dev/null; then
    PYTHONPATH=$HERE/../frameworks/fake_torch "$V" run --simulated -o torch.db -- python3 -c '
import subprocess, sys
import torch
subprocess.run([sys.executable, "-c", "import torch"], check=True)' >out 2>err || no "a program of PyTorch: $(cat err)"
    [ "$(grep -c '^vramscope: PyTorch finds no GPU on the simulated driver: ' err)" = 1 ] || no "PyTorch on the simulated driver: $(cat err)"
    grep -q '^vramscope: nothing was recorded: .*those of PyTorch.s run under vramscope fit)$' err || no "the end of it: $(cat err)"
    PYTHONPATH=$HERE/../frameworks/fake_torch "$V" run -o torch.db -- python3 -c 'import torch' >out 2>err
    grep -q 'simulated' err && no "without --simulated: $(cat err)"
fi
[ $failures = 0 ] && echo "run says what is to be said, once" || exit 1
