#!/bin/bash
# `vramscope fit --ranks` runs ranks of a job, each alone: parts and copies have the sizes that arithmetic says for 64 ranks, and collectives leave
# what sizes need (ranks.py).  What only an absent rank knows ends the run with 3.
. "$(dirname "$0")/../lib/lib.bash"
find_torch
program=$(realpath "$(dirname "$0")/ranks.py")
unset LD_LIBRARY_PATH
cd "$dir" || exit 1
fit() { # STATUS ARGUMENT...
    local wanted=$1 got
    shift
    timeout 500 "$BUILD/bin/vramscope" fit --steps=all --json "$@" >out 2>err </dev/null
    got=$?
    [ $got = "$wanted" ] || fail "fit $*: status $got, not $wanted: $(tail -n 20 err) $(head -c 1000 out)"
}
good() { # TIMES: so many cases of ranks say that all was as it should be
    [ "$(grep -c '^good$' err)" = "$1" ] || fail "not $1 ranks are good: $(tail -n 20 err)"
}
if in_full; then
    for ranks in 1 8; do
        fit 0 --ranks=$ranks --rank=$((ranks - 1)) -- "$python" "$program" shards
        good 1
    done
    fit 0 --ranks=4 --rank=0 -- "$python" "$program" exchange
    good 1
    fit 0 --expandable --ranks=2 --rank=1 -- "$python" "$program" rebuilt
    good 1
    # the group that 2.15 calls NCCL keeps none of them
    "$python" -c 'import importlib.metadata as m, json
allocated = json.load(open("out"))["answers"][0]["allocated"]
older = tuple(map(int, m.version("torch").split(".")[:2])) < (2, 15)
assert allocated["most_bytes"] - allocated["least_bytes"] == (6 * 4096 * 256 * 4 if older else 0), allocated' || fail "the buckets that DDP replaces"
fi
fit 0 --ranks=64 --rank=63,0 -f -o kept.db -- "$python" "$program" shards copies
good 4
[ -s kept-0.db ] && [ -s kept-63.db ] || fail "no recording for each rank: $(ls)"
python3 -c 'import json
answer = json.load(open("out"))["answers"][0]
ranks = answer["ranks"]
assert [rank["rank"] for rank in ranks] == [0, 63] and max(rank["reserved_bytes"] for rank in ranks) == answer["reserved_bytes"] and not ranks[0]["refused"], ranks' || fail "ranks in JSON"
fit 3 --ranks=4 --rank=3 -- "$python" -m torch.distributed.run --nproc-per-node=2 --nnodes=2 --rdzv-endpoint=nowhere:1 "$program" exchange waits
good 1
grep -q 'another rank writes' err || fail "nothing says what is waited for: $(cat err)"

for bad in --rank=0 "--ranks=0" "--ranks=x" "--ranks=4 --rank=4" "--ranks=4 --rank=" "--ranks=4 --local-ranks=3"; do
    # shellcheck disable=SC2086
    fit 2 $bad -- true
done
echo "ranks run alone"
