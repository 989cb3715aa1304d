#!/bin/bash
# The quickstart trains with both losses and shows what the fused one changed, or says in one line why not.  Setting up and building are
# played here.
set -u
BUILD=$(cd "${BUILD:?the build directory}" && pwd)
SRC=$(cd "$(dirname "$0")/../../.." && pwd)
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
fail() {
    echo "FAIL: $*"
    [ ! -s "$D/out" ] || tail -n 40 "$D/out"
    exit 1
}
command -v sqlite3 >/dev/null || { echo "there is no sqlite3 command here" && exit 77; }
cd "$D" || exit 1
mkdir -p examples scripts build/quick/bin path
cp "$SRC/examples/quickstart.sh" examples/
cp "$SRC/LICENSE" .
ln -s "$BUILD/sim" "$BUILD/lib" "$BUILD/share" build/quick/
cp "$BUILD/bin/vramscope" build/quick/bin/
cat >scripts/setup.sh <<'END'
#!/bin/bash
echo "$*" >asked
echo "CUDA_INCLUDE_DIR=/include"
END
cat >scripts/build.sh <<'END'
#!/bin/bash
echo "$BUILD_DIR $*" >built
echo "[7/9] Building C object core/log.c.o" >>"$BUILD_DIR/build.log"
END
# train_lm, small: of the workload only the loss is kept.  With REFUSE it is as one without cuBLASLt; with NO_KERNELS as
# one that was built without nvcc, which computes nothing but on the simulated driver.
cat >build/quick/bin/train_lm <<END
#!/bin/bash
loss=naive
[[ \$* == *"--loss fused"* ]] && loss=fused
if [ \$loss = fused ] && [ -n "\${REFUSE:-}" ]; then
    echo "train_lm: fused loss: lce_open: cuBLASLt was not found" >&2
    exit 1
fi
if [ -n "\${NO_KERNELS:-}" ] && [[ \${LD_LIBRARY_PATH:-} != *sim* ]]; then
    echo "train_lm: built without nvcc, so without kernels" >&2
    exit 1
fi
[[ \$* != *--device* ]] || exec "$BUILD/bin/train_lm" --device --loss \$loss
echo "\$*" >>asked_of_train_lm
export LD_LIBRARY_PATH=$BUILD/sim
exec "$BUILD/bin/train_lm" --steps 12 --batch 512 --hidden 32 --vocab 1024 --rate 0.02 --loss \$loss LICENSE
END
printf '#!/bin/bash\necho "GPU 0: played"\n' >path/nvidia-smi
chmod +x scripts/*.sh build/quick/bin/train_lm path/nvidia-smi

quickstart() { env -u LD_LIBRARY_PATH "$@" ./examples/quickstart.sh >out 2>&1 || fail "$*: exit status $?"; }
says() { grep -qF -- "$1" out || fail "it does not say '$1'"; }

if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    quickstart env
    [ "$(cat asked)" = build ] || fail "without a GPU it sets up '$(cat asked)'"
    says "using the SIMULATED driver"
    [ "$(cat built)" = "build/quick quick /include -DVRAMSCOPE_KERNELS=OFF" ] || fail "without a GPU it builds '$(cat built)'"
    head -n 1 out | grep -qE '^quickstart: +[0-9]+ s  part 1 of 2: set up, build, train, report' || fail "it does not begin with what it will do"
    says "part 2 of 2: the same training with its loss fused"
    tail -n 1 out | grep -qE "Your own program, where a GPU is: build/quick/bin/vramscope run -o run.db -- python train.py" || fail "it does not end with the line for one's own program"
    says "what would lower the peak"
    says "B's peak is"
    grep -qE '^quickstart: the phase that changed most: logits, from .* to .* \(-[0-9.]+ %\)$' out || fail "the logits' fall"
    run=build/quickstart/run-001
    [ "$(cd $run && echo *)" = "diff.txt fused.db losses.png memory.png naive.db" ] || fail "it left: $(ls $run)"
    for file in naive.db fused.db memory.png losses.png; do says "$run/$file"; done
    fell=$(sqlite3 $run/naive.db "ATTACH '$run/fused.db' AS f" "SELECT a.allocated_bytes > 2 * b.allocated_bytes FROM phase_peak a, f.phase_peak b
        WHERE a.phase = 'logits' AND b.phase = 'logits' AND a.device = 0 AND b.device = 0")
    [ "$fell" = 1 ] || fail "the logits' peak did not fall by half"
    quickstart REFUSE=1
    says "the naive loss alone, as the fused one can't be had here: train_lm: fused loss: lce_open: cuBLASLt was not found"
    [ "$(cd build/quickstart/run-002 && echo *)" = "memory.png naive.db" ] || fail "without the fused loss it left: $(ls build/quickstart/run-002)"
    # a GPU that nothing was built for
    quickstart NO_KERNELS=1 "PATH=$D/path:$PATH"
    [ "$(cat asked)" = gpu ] || fail "with a GPU it sets up '$(cat asked)'"
    [ "$(cat built)" = "build/quick quick /include -DVRAMSCOPE_KERNELS=ON" ] || fail "with a GPU it builds '$(cat built)'"
    says "the GPU can't be used (the line above says why): using the SIMULATED driver instead"
    grep -q -- "--vocab 32768" asked_of_train_lm && fail "the simulated driver got the GPU's workload"
fi
# a GPU with all that is needed (the simulated one plays it)
: >asked_of_train_lm
env "LD_LIBRARY_PATH=$BUILD/sim" "PATH=$D/path:$PATH" ./examples/quickstart.sh >out 2>&1 || fail "with a GPU: exit status $?"
says "training on simcuda"
[ "$(grep -c -- "--vocab 32768 .*--loss" asked_of_train_lm)" = 2 ] || fail "the GPU's workload was not run with both losses: $(cat asked_of_train_lm)"
echo "the quickstart shows both losses, or says why not"
