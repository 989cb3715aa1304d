# shellcheck shell=bash
# dry.bash - sourced after lib.bash: programs on the simulated driver and the stand-ins for CUDA's libraries, with `shim_env`.
#
#   dry COMMAND...      recorded as `vramscope fit` does: $db, $status, $run/out, $run/err, $run/facts (dry/facts.h)
#   recorded COMMAND... recorded as `vramscope run` does, without what `fit` does within PyTorch
stand_ins=$BUILD/sim/libcuda.so.1
for library in "$BUILD"/dry/libcudart.so.* "$BUILD"/dry/*.so.*; do
    case :$stand_ins: in *:"$library":*) ;; *) stand_ins=$stand_ins:$library ;; esac
done

dry() {
    new_run
    : >"$run/facts"
    timeout --kill-after=1 $limit env LD_PRELOAD="$shim:$stand_ins" LD_LIBRARY_PATH="$BUILD/sim:$BUILD/dry" \
        VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" VRAMSCOPE_DRY=1 VRAMSCOPE_DRY_FACTS="$run/facts" \
        SIMCUDA_DRY=1 SIMCUDA_GPU=H200 "${shim_env[@]}" "$@" >"$run/out" 2>"$run/err" </dev/null
    # shellcheck disable=SC2034 # for the tests
    status=$?
}

recorded() {
    new_run
    timeout --kill-after=1 300 env LD_PRELOAD="$stand_ins" LD_LIBRARY_PATH="$BUILD/sim:$BUILD/dry" SIMCUDA_DRY=1 "${shim_env[@]}" \
        "$BUILD/bin/vramscope" run -q --simulated -o "$db" -- "$@" >"$run/out" 2>"$run/err" </dev/null
    # shellcheck disable=SC2034 # for the tests
    status=$?
}
