#!/bin/bash
# What lay unused is found, a planted block of each kind, and how low the peak could have been follows from the events.
. "$(dirname "$0")/../lib/lib.bash"
shim_env=(VRAMSCOPE_ACCESS=on)
run_shimmed "$tests/prog_access" waste
expect_clean
# those of the peak: a program that the machine stops leaves others idle before and after it
waste="SELECT kind, group_concat(size_bytes >> 20) FROM (SELECT w.* FROM waste w JOIN peak p ON p.kind = 'allocated' AND p.device = 0 WHERE from_ns < p.t_ns AND to_ns > p.t_ns AND size_bytes >> 20 NOT IN (10, 20) ORDER BY size_bytes) GROUP BY kind ORDER BY kind"
expect_sql "$waste" 'early|8
idle|12
late free|6
never used|4'
expect_sql "SELECT kind, peak_bytes >> 20, mended_bytes >> 20 FROM waste_bound ORDER BY kind" 'all|60|30
early|60|52
idle|60|48
late free|60|54
never used|60|56'
expect_sql "SELECT (SELECT peak_bytes FROM peak WHERE kind = 'allocated') - (SELECT peak_bytes FROM waste_bound WHERE kind = 'all')" 0


# the command says the same as the view, of each kind and of all, and who asked for it
"$V" waste --json "$db" >"$run/json" || fail "waste --json ended with $?"
ask "SELECT kind, mended_bytes FROM waste_bound ORDER BY kind" | tr '\n' ' ' >"$run/bounds"
python3 - "$run/json" "$(cat "$run/bounds")" <<'PY' || fail "waste --json: $(head -c 4000 "$run/json")"
import json, sys
device = json.load(open(sys.argv[1]))["files"][0]["devices"][0]
bounds = dict(pair.split("|") for pair in sys.argv[2].replace("late free", "late_free").replace("never used", "never_used").split())
peak = device["peak_bytes"]
kinds = {k["kind"].replace(" ", "_"): peak - k["seen_lower_bytes"] for k in device["kinds"]}
kinds["all"] = peak - device["together"]["seen_lower_bytes"]
assert kinds == {k: int(v) for k, v in bounds.items()}, (kinds, bounds)
assert device["together"]["seen_lower_bytes"] == 30 << 20 and device["peak_bytes"] == 60 << 20
assert device["unknown_because"] is None and device["not_followed_bytes"] == 0
assert all(0 <= w["seen_lower_bytes"] <= w["most_bytes"] and w["seen_lower_bytes"] <= w["at_most_lower_bytes"] == peak - w["peak_at_least_bytes"]
           for w in device["waste"]), device["waste"]
PY
"$V" waste "$db" >"$run/page" || fail "waste ended with $?"
tr -s '\n ' ' ' <"$run/page" >"$run/words"
for said in 'peak: 60.00 MiB allocated; without what is counted here it would have been 30.00 MiB (50.0 %) lower as uses were seen, and at most 30.00 MiB (50.0 %) lower: at least 30.00 MiB' \
    'never used 1 4.00 MiB 56.00 MiB 4.00 MiB 4.00 MiB' '6.00 MiB 54.00 MiB 6.00 MiB' 'freed late no Python line' \
    'Mending what is counted here cannot lower the peak by more' 'where those inside of structures were not, as an earlier call may have left them there'; do
    grep -qF "$said" "$run/words" || fail "waste does not say '$said': $(cat "$run/page")"
done
[ "$(wc -L <"$run/page")" -le 200 ] || fail "a line of $(wc -L <"$run/page") columns"

# a file that does not say which uses are sure: what was seen stands alone
cp "$db" "$run/older.db"
sqlite3 "$run/older.db" "UPDATE access SET sure = NULL" || fail "sure is no column of access"
"$V" waste "$run/older.db" | tr -s '\n ' ' ' >"$run/words"
for said in 'it would have been 30.00 MiB (50.0 %) lower as uses were seen; at most is unknown, as which uses are sure is not in this recording' \
    'never used 1 4.00 MiB 4.00 MiB allocated early'; do
    grep -qF "$said" "$run/words" || fail "without sure uses waste does not say '$said': $(cat "$run/words")"
done
! grep -q 'at most lower\|at least' "$run/words" || fail "a bound without sure uses: $(cat "$run/words")"
"$V" waste --json "$run/older.db" >"$run/json"
python3 - "$run/json" <<'PY' || fail "without sure uses: $(head -c 4000 "$run/json")"
import json, sys
device = json.load(open(sys.argv[1]))["files"][0]["devices"][0]
for row in [device["together"], *device["kinds"], *device["waste"]]:
    assert row["peak_at_least_bytes"] is None and row["at_most_lower_bytes"] is None, row
assert device["together"]["seen_lower_bytes"] == 30 << 20, device["together"]
PY

# an address inside a structure may have been left there: as it was seen, the late free is an idling and the block that is never used comes early;
# where it was none, the peak falls by their bytes, and no less is said "at most"
run_shimmed "$tests/prog_access" leftover
expect_clean
"$V" waste --json "$db" >"$run/json" || fail "waste --json ended with $?"
python3 - "$run/json" <<'PY' || fail "leftover: $(head -c 4000 "$run/json")"
import json, sys
device = json.load(open(sys.argv[1]))["files"][0]["devices"][0]
lower = {k["kind"]: (k["seen_lower_bytes"] >> 20, k["at_most_lower_bytes"] >> 20) for k in device["kinds"]}
assert device["peak_bytes"] >> 20 == 36 and lower == {"never used": (0, 6), "early": (6, 6), "late free": (0, 16), "idle": (10, 10)}, lower
together = device["together"]
assert together["at_most_lower_bytes"] >> 20 == 16 and together["peak_at_least_bytes"] >> 20 == 20, together
PY
run_shimmed "$tests/prog_access" reaching
expect_sql "SELECT count(*) FROM waste w JOIN block_use u USING(alloc_seq) WHERE u.unseen IS NOT NULL" 0
shim_env=()
run_shimmed "$tests/prog_access" waste
expect_sql "SELECT (SELECT count(*) FROM waste), (SELECT count(*) FROM waste_bound)" '0|0'
"$V" waste "$db" | tr -s '\n ' ' ' | grep -qF 'what lay unused is unknown: no use of memory was followed: record it with `vramscope run --access`' ||
    fail "without accesses waste says: $("$V" waste "$db")"
# where events are folded there is no replay, and no bound
shim_env=(VRAMSCOPE_ACCESS=on VRAMSCOPE_MAX_BYTES=1MiB VRAMSCOPE_RING_EVENTS=1048576)
run_shimmed "$tests/prog_steps" 60000
"$V" waste "$db" | tr -s '\n ' ' ' | grep -qF 'unknown: some events are not in the file one by one' || fail "folded: $("$V" waste "$db")"
echo "each kind of waste is found, and what the peak would be without it"
