# shellcheck shell=bash
# dry.bash - sourced after lib.bash: programs on the simulated driver and the stand-ins for CUDA's libraries.
#
#   dry COMMAND...      runs it recorded, as `vramscope fit` does: $db, $status, $run/out, $run/err, $run/facts (dry/facts.h)
#   recorded COMMAND... the same of `vramscope run`, which does nothing within PyTorch that `fit` does
#   find_torch          $python, which imports PyTorch built for CUDA; skips where there is none
#
# `shim_env` has further variables.
stand_ins=$BUILD/sim/libcuda.so.1
for library in "$BUILD"/dry/libcudart.so.* "$BUILD"/dry/*.so.*; do
    case :$stand_ins: in *:"$library":*) ;; *) stand_ins=$stand_ins:$library ;; esac
done

find_torch() {
    python=${TEST_PYTHON:-python3}
    "$python" -c 'import importlib.util as u, os, sys
sys.exit(not os.path.exists(os.path.join(u.find_spec("torch").submodule_search_locations[0], "lib", "libtorch_cuda.so")))' 2>/dev/null ||
        skip "$python has no PyTorch built for CUDA: TEST_PYTHON=\$(scripts/torch.sh 2.11.0 | tail -n 1)"
}

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
