#!/bin/bash
# Memory of an arena is opened by whoever has its handle, as the driver's own is: root and other users, each of each.
. "$(dirname "$0")/../lib/lib.bash"
[ "$(id -u)" = 0 ] || skip "not root: only root can be other users"
python=${TEST_PYTHON:-python3}
command -v "$python" >/dev/null || skip "there is no $python"
new_run
chmod 711 "$dir"
chmod 1777 "$run"
"$python" -c 'import ctypes, os; os.setgroups([]); os.setresuid(65533, 65533, 65533); ctypes.CDLL("libcuda.so.1")' 2>"$run/err" ||
    skip "another user cannot be, or cannot read $BUILD: $(tail -n 1 "$run/err")"
SIMCUDA_BANNER=0 timeout 300 env LD_PRELOAD="$shim" VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_JOURNAL_DIR="$run" VRAMSCOPE_OUTPUT="$run/%p.db" \
    "$python" "$(dirname "$0")/../../gpu/ipc_users.py" >"$run/out" 2>"$run/err" || fail "ended with $?"
[ "$(grep -c ': 0 after .* words right$' "$run/out")" = 5 ] || fail "not five pairs"
grep -qx '5 of 5 pairs share memory' "$run/out" || fail "no verdict"
[ ! -s "$run/err" ] || fail "said something"
# and the program that judges does so: the simulated driver alone lets no other user in
! SIMCUDA_BANNER=0 "$python" "$(dirname "$0")/../../gpu/ipc_users.py" >"$run/out" 2>"$run/err" || fail "all pairs right without the arena"
echo "whoever has the handle shares the memory"
