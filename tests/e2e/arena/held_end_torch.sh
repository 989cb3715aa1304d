#!/bin/bash
# PyTorch's interpreter ends while its tensors are away and a thread waits for one: at once, with its own status, and all is recorded.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "this build has no arena"
find_torch
[ -f "$BUILD/dry/libcudart.so.12" ] || skip "the stand-ins for CUDA's libraries are not built"
. "$(dirname "$0")/../lib/dry.bash"
cat >"$dir/program.py" <<'PY'
import os, sys, threading
import torch
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(64, 512, device="cuda")).square().mean().backward()
optimizer.step()
def work():
    print("waits", flush=True)
    model[0].weight.sum().item()
    print("worked", flush=True)
print(os.getpid(), "ready", flush=True)
sys.stdin.readline()
threading.Thread(target=work, daemon=True).start()
sys.stdin.readline()
sys.exit(5)
PY
until_says() { # WORD
    until grep -q "$1" "$run/out"; do
        kill -0 $runs_it 2>/dev/null || fail "it has ended before '$1'"
        sleep 0.02
    done
}
new_run
mkfifo "$run/in"
export VRAMSCOPE_JOURNAL_DIR=$run
env LD_PRELOAD="$stand_ins" LD_LIBRARY_PATH="$BUILD/sim:$BUILD/dry" SIMCUDA_DRY=1 SIMCUDA_CAPACITY=8GiB \
    timeout --kill-after=1 $limit "$V" run -q --simulated --allocator=arena -o "$db" -- "$python" "$dir/program.py" <"$run/in" >"$run/out" 2>"$run/err" &
runs_it=$!
exec {in}>"$run/in"
until_says ready
"$V" suspend "$(sed -n 's/ ready$//p' "$run/out")" >"$dir/said" 2>&1 || fail "suspend: $(cat "$dir/said")"
grep -qx "0 B of the arena's are left on the device" "$dir/said" || fail "suspend: $(cat "$dir/said")"
echo suspended >&"$in"
until_says waits
echo end >&"$in"
wait $runs_it
status=$?
[ $status = 5 ] || fail "it ended with $status, not 5"
! grep -q worked "$run/out" || fail "the thread did not wait"
expect_clean
"$V" resume "$db" >"$dir/said" 2>&1
[ $? = 3 ] && grep -q 'has ended' "$dir/said" || fail "resume: $(cat "$dir/said")"
echo "PyTorch ends as it would have"
