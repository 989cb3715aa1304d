#!/usr/bin/env bash
# witness.sh TREE OUT - what goes past a recording, on a real driver: a quota library behind us keeps its place, and both see each
# call; the driver's figure tells of memory that no call asked for, and programs whose calls are all seen are accused of nothing; a
# full ring hides no bytes.
#
# Needs gcc and cuda.h (CUDA_INCLUDE). DRIVER=DIR: the simulated driver.
. "$(dirname "$0")/gpu.bash"
cd "$out" || exit 1
unset LD_PRELOAD VRAMSCOPE_OUTPUT VRAMSCOPE_CLAIM CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH PYTHONPATH
export VRAMSCOPE_EXIT_MS=60000
find_driver
include=${CUDA_INCLUDE:-${CUDA_HOME:-/usr/local/cuda}/include}
build() { gcc -O1 -g "-I$include" -o "$1" "${@:2}" -ldl -lpthread || fail "$1 does not build"; }
build roads "$here/roads/roads.c"
build roads_linked -DLINKED "$here/roads/roads.c" "$driver"
build past "$here/roads/past.c" "$driver"
build crowd "$here/roads/crowd.c" "$driver"
build quota.so -shared -fPIC "$here/../e2e/roads/quota.c"
build quota_symbolic.so -shared -fPIC -Wl,-Bsymbolic "$here/../e2e/roads/quota.c"

for quota in quota quota_symbolic; do
    for road in "roads_linked linked" "roads dlsym" "roads proc1" "roads proc2" "roads ptsz"; do
        read -r program how <<<"$road"
        LD_PRELOAD=$out/$quota.so "./$program" "$how" >plain.out 2>plain.err
        rm -f quota.db*
        VRAMSCOPE_OUTPUT=$out/quota.db LD_PRELOAD=$shim:$out/$quota.so "./$program" "$how" >with.out 2>with.err
        seen=$(ask quota.db "SELECT count(*) FROM event WHERE op IN ('alloc', 'free') AND space = 'device'" 2>&1)
        if cmp -s plain.out with.out && cmp -s plain.err with.err && [ "$(grep -c '^quota:' with.err)" = 4 ] && [ "$seen" = 4 ]; then
            pass "$quota, $road: both see each call"
        else
            fail "$quota, $road: recorded $seen of 4: $(diff plain.err with.err | head -n 4)"
        fi
    done
done

# first NAME COMMAND...: the report's first line; NAME.db stays
first() {
    local name=$1
    shift
    rm -f "$name".db*
    "$V" run -q -o "$name.db" -- "$@" >"$name.log" 2>&1 || echo "ended with $?: $(tail -n 1 "$name.log")"
    "$V" report --all "$name.db" | head -n 2 | tr -s ' \n' ' '
}
line=$(first past ./past)
[[ $line == "UNSEEN: 64"[0-9]."0 MiB of this process on device 0 were allocated by no call that was seen"* || $line == "UNSEEN: 640.0 MiB"* ]] &&
    pass "memory past the hooks: $line" || fail "memory past the hooks: $line"
"$V" check --max-peak=1MiB past.db >past.check
[ $? = 3 ] && pass "check cannot tell" || fail "check: $(cat past.check)"
accused() { # accused NAME COMMAND...: nobody is
    local said
    said=$(first "$@")
    "$V" report --all "$1.db" | grep -q '^complete: ' && pass "$1: nobody is accused" || fail "$1: $said"
    "$V" report --all "$1.db" | tr -s ' \n' ' ' | grep -o 'whether other memory of this process[^.]*' | head -c 160
}
accused seen ./past seen
accused linked ./roads_linked linked
if "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    for how in eager expandable async graphs limited; do accused "torch_$how" "$python" "$here/roads/accused.py" "$how"; done
else
    echo "SKIP PyTorch's programs: no PyTorch with a GPU"
fi

rm -f crowd.db*
"$V" run -q --ring-events=1024 -o crowd.db -- ./crowd >crowd.log 2>&1 || fail "crowd: $(tail -n 1 crowd.log)"
peak=$(ask crowd.db "SELECT max(peak_bytes) FROM peak WHERE device = 0 AND kind = 'allocated'")
lost=$(ask crowd.db "SELECT sum(events) FROM loss")
if [ "$peak" -ge $((1280 << 20)) ] && [ "$peak" -le $(((1280 << 20) + (1 << 20))) ]; then
    pass "a full ring: peak $peak, of which 1280 MiB were held, with $lost events lost"
else
    fail "a full ring: peak $peak of 1280 MiB and at most 1 MiB, $lost events lost"
fi
counted
