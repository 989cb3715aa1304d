#!/bin/bash
# A replay with --capacity=LIMIT is what PyTorch recorded under that limit, with expandable segments, too: those reserve addresses for nine eighths of
# the device's memory, not of the limit.
. "$(dirname "$0")/../lib/lib.bash"
data=$(dirname "$0")/../../data
# a Qwen2 with checkpoints, 3 x 1728 tokens, on an H200 of 140 GiB with 12 GiB allowed; call stacks taken out
xz -dc "$data/qwen-h200-limit.db.xz" >"$dir/qwen.db" || fail "no xz, or no recording"
reserved() { "$V" whatif --json --policy=torch-expandable "$@" "$dir/qwen.db" | python3 -c 'import json, sys
def find(x):
    if isinstance(x, dict):
        if x.get("policy") == "torch-expandable":
            yield x["reserved_bytes"]
        x = list(x.values())
    for y in x if isinstance(x, list) else []:
        yield from find(y)
print(*find(json.load(sys.stdin)))'; }
COLUMNS=1000 "$V" whatif --policy=torch-expandable "$dir/qwen.db" >"$dir/text" || fail "whatif"
grep -q "fits after 3 emptied caches; exact: 9175 of 9175 addresses" "$dir/text" || fail "the recording is not met: $(cat "$dir/text")"
recorded=$(reserved)
[ "${recorded:-0}" -gt $((11 << 30)) ] || fail "reserved: $recorded"
[ "$(reserved --capacity=12884901888)" = "$recorded" ] || fail "with --capacity: $(reserved --capacity=12884901888), recorded $recorded"
# the program as recorded, beside changes of it: the recording has no phases, so that there is none to make
edited=$("$V" whatif --json --policy=torch-expandable --capacity=12884901888 -e foreach=no "$dir/qwen.db" | python3 -c 'import json, sys
rows = json.load(sys.stdin)["devices"][0]["edits"]
print(*{p["reserved_high_bytes"] for r in rows if r["edit"] is None for p in r["policies"] if p["policy"] == "torch-expandable"})')
[ "$edited" = "$recorded" ] || fail "with --capacity beside a change: $edited, recorded $recorded"
echo "a capacity that stands for a limit is that limit"
