#!/bin/bash
# Each block of a training has its role, by the rule that decided; roles add up to the peak; without VRAMSCOPE_ACCESS there are only those that the
# framework says.
. "$(dirname "$0")/../lib/lib.bash"
shim_env=(VRAMSCOPE_ACCESS=on)
run_shimmed "$tests/prog_roles"
expect_clean
cat >"$dir/roles" <<END
100|parameter|1
200|not told|1
300|not told|1
400|not told|1
500|input|4
600|activation|4
700|temporary|4
800|output|4
900|temporary|1
1000|gradient|4
1100|temporary|4
1200|optimizer state|1
1300|temporary|4
1400|communication|1
END
expect_roles() {
    ask "SELECT u.size_bytes / 1024, r.role, count(*) FROM block_use u JOIN block_role r USING(alloc_seq) GROUP BY 1, 2 ORDER BY 1, 2" >"$run/roles"
    diff "$dir/roles" "$run/roles" >"$run/difference" || fail "roles${1:+, $1} (< wanted, > found): $(cat "$run/difference")"
}
expect_roles ''
expect_sql "SELECT DISTINCT rule FROM block_role JOIN block_use USING(alloc_seq) WHERE size_bytes IN (204800, 409600)" \
    'kept over iterations, used in forward, and never by an optimizer: a buffer, a frozen parameter, an input that stays, a workspace or a cache'
# an address that was left in a structure of forward's does not make something else of the optimizer's state
expect_sql "SELECT used_in, rule FROM block_role JOIN block_use USING(alloc_seq) WHERE size_bytes = 1228800" \
    'forward,optimizer|made in the optimizer, kept over iterations, used by it, and neither in backward nor in evaluation'
# work of a communication library ran while it lived, so that it is not known to be unused
expect_sql "SELECT rule FROM block_role JOIN block_use USING(alloc_seq) WHERE size_bytes = 307200" 'no use of it was seen, and the device may have reached it all the same'
expect_sql "SELECT count(*) FROM block_role WHERE rule IS NULL OR role IS NULL" 0

# nor do the addresses of all blocks in what a kernel of PyTorch's is given beside its tensors: of none of them a use more is seen
used="SELECT group_concat(kib || ' ' || uses || ' ' || used_in, ', ') FROM (SELECT size_bytes / 1024 AS kib, uses, used_in FROM block_use ORDER BY alloc_seq)"
without=$(ask "$used")
run_shimmed "$tests/prog_roles" leftovers
expect_clean
expect_roles 'where words were left'
expect_sql "$used" "$without"
expect_sql "SELECT count(*) FROM access WHERE uses > 0 AND sure IS NULL" 0
run_shimmed "$tests/prog_roles"

# the peak: 100 + 200 + 300 + 400 + 500 + 600 + 800 + 1000 + 1100 + 1200
expect_sql "SELECT group_concat(role || ' ' || kib, ', ') FROM (SELECT role, sum(size_bytes) / 1024 AS kib FROM live_at_peak GROUP BY role ORDER BY 2 DESC, 1)" \
    'optimizer state 1200, temporary 1100, gradient 1000, not told 900, output 800, activation 600, input 500, parameter 100'
"$BUILD/bin/vramscope" peak --by role -b "$db" >"$run/peak" || fail "peak ended with $?"
grep -q '^ *optimizer state  *1228800 ' "$run/peak" || fail "peak --by role lacks the optimizer's state: $(cat "$run/peak")"
grep -q '^ *peak allocated  *6348800 ' "$run/peak" || fail "the roles do not add up to the peak: $(cat "$run/peak")"
"$BUILD/bin/vramscope" peak --json --by role "$db" >"$run/json" || fail "peak --json ended with $?"
[ "$(sqlite3 :memory: "SELECT sum(json_extract(value, '\$.size_bytes')) FROM json_tree(CAST(readfile('$run/json') AS TEXT)) WHERE type = 'object' AND path LIKE '%by_role%'")" = 6348800 ] ||
    fail "JSON: $(head -c 3000 "$run/json")"

# a picture is divided by role where roles are known: at the peak as the figures above, in KiB
"$BUILD/bin/vramscope" plot "$db" -o "$run/roles.gp" || fail "plot ended with $?"
python3 - "$run/roles.gp" <<'END' || fail "the picture's roles"
import re, sys
text = open(sys.argv[1]).read()
head, rows = re.search(r"\$parts_0 << EOD\n#(.*)\n([^E]*)EOD", text).groups()
unit = {"KiB": 1, "MiB": 1024}[re.search("in (.iB) upper", head).group(1)]
top = max((list(map(float, row.split())) for row in rows.splitlines()), key=lambda row: row[-1])
got = {n: round((b - a) * unit) for n, a, b in zip(re.findall(r'"([^"]*)"', head), [0] + top[1:], top[1:]) if b - a > 1e-4}
want = {"optimizer state": 1200, "temporary": 1100, "gradient": 1000, "made outside any phase": 900, "output": 800, "activation": 600, "input": 500, "parameter": 100}
assert got == want, got
END
"$BUILD/bin/vramscope" peak --by role --why "$db" >"$run/why" || fail "peak --why ended with $?"
tr -s '\n ' ' ' <"$run/why" >"$run/words"
grep -q 'gradient, 1000.0 KiB: made in backward, used in backward and by the optimizer' "$run/words" || fail "--why: $(cat "$run/why")"
! grep -q 'PyTorch says' "$run/why" || fail "PyTorch is said to have said something: $(cat "$run/why")"
expect_sql "SELECT count(*) FROM framework_role" 0

# what a framework says is the first witness, and both stand beside each other
run_shimmed "$tests/prog_roles" told
expect_clean
expect_sql "SELECT group_concat(kib || ' ' || by_framework || ' ' || by_access, ', ') FROM (SELECT u.size_bytes / 1024 AS kib, r.by_framework, r.by_access
    FROM block_role r JOIN block_use u USING(alloc_seq) WHERE r.by_framework IS NOT NULL ORDER BY 1)" \
    '100 parameter parameter, 200 buffer not told, 1000 gradient gradient, 1000 gradient gradient, 1000 gradient gradient, 1000 gradient gradient, 1200 optimizer state optimizer state'
expect_sql "SELECT group_concat(by_framework || ' ' || by_access || ' ' || (size_bytes / 1024), ', ') FROM (SELECT * FROM role_agreement WHERE by_framework IS NOT NULL ORDER BY size_bytes)" \
    'parameter parameter 100, buffer not told 200, gradient gradient 1000, optimizer state optimizer state 1200'
expect_sql "SELECT sum(size_bytes) - (SELECT peak_bytes FROM peak WHERE kind = 'allocated') FROM role_agreement" 0
expect_sql "SELECT role_rule FROM live_at_peak WHERE role = 'buffer'" 'PyTorch says so: a buffer of a model'
expect_sql "SELECT role FROM allocation WHERE size_bytes = 102400" parameter
expect_sql "SELECT DISTINCT role FROM leak WHERE size_bytes = 102400" parameter
"$BUILD/bin/vramscope" peak --by role --why "$db" >"$run/why" || fail "peak --why ended with $?"
grep -Eq '^  buffer +not told +200.0 KiB' "$run/why" || fail "no table of witnesses: $(cat "$run/why")"
"$BUILD/bin/vramscope" peak --json --why "$db" >"$run/json" || fail "peak --json --why ended with $?"
python3 - "$run/json" <<'PY' || fail "JSON: $(head -c 3000 "$run/json")"
import json, sys
device = json.load(open(sys.argv[1]))["files"][0]["devices"][0]
witnesses = {(w["by_framework"], w["by_access"]): w["size_bytes"] for w in device["role_witnesses"]}
assert witnesses["buffer", "not told"] == 204800 and sum(witnesses.values()) == device["allocated_bytes"], witnesses
assert {"role": "buffer", "old_role": "buffer", "rule": "PyTorch says so: a buffer of a model", "size_bytes": 204800, "allocations": 1} in device["role_rules"]
assert sum(p["size_bytes"] for p in device["parts"]) == device["allocated_bytes"], device["parts"]
PY
# a picture has what it says, too
"$BUILD/bin/vramscope" plot "$db" -o "$run/roles.gp" || fail "plot ended with $?"
grep -q '"buffer"' "$run/roles.gp" || fail "the picture has no buffer"
# without accesses what the framework says is all that is known; of the rest there is no role, and the first screen has the phase in its place
shim_env=()
run_shimmed "$tests/prog_roles" told
expect_sql "SELECT group_concat(role || ' ' || kib, ', ') FROM (SELECT role, sum(size_bytes) / 1024 AS kib FROM live_at_peak WHERE role IS NOT NULL GROUP BY role ORDER BY 2, 1)" \
    'parameter 100, buffer 200, gradient 1000, optimizer state 1200'
"$BUILD/bin/vramscope" report --all "$db" | head -n 25 >"$run/screen"
grep -Eq '^ +1.17 MiB +19.4 % +optimizer state$' "$run/screen" || fail "the first screen has no roles: $(cat "$run/screen")"
grep -Eq '^ +1.66 MiB +27.4 % +made in forward$|^ +1.07 MiB +17.7 % +made in backward$' "$run/screen" || fail "the first screen has no phases beside: $(cat "$run/screen")"
! grep -qE ' (activation|temporary)( |$)' "$run/screen" || fail "a role that nobody knows: $(cat "$run/screen")"

# what PyTorch was asked for without a tensor is no parameter, gradient or state, wherever it is used
shim_env=(VRAMSCOPE_ACCESS=on)
run_shimmed "$tests/prog_roles"
sqlite3 "$db" "INSERT INTO tensor(id, kind) VALUES ((SELECT coalesce(max(id), 0) + 1 FROM tensor), 3); UPDATE kind SET tensor = (SELECT max(id) FROM tensor)"
expect_sql "SELECT count(*) FROM block_role WHERE role IN ('parameter', 'gradient', 'optimizer state')" 0
expect_sql "SELECT count(*) > 0 FROM block_role WHERE role = 'activation'" 1

# what is folded takes its row with it, what lives or lived at the peak keeps its own
shim_env=(VRAMSCOPE_MAX_BYTES=1MiB)
run_shimmed "$tests/prog_roles" told 6000
expect_clean
expect_sql "SELECT count(*) > 3 FROM stretch WHERE folded > 0" 1
expect_sql "SELECT count(*) FROM framework_role f WHERE NOT EXISTS (SELECT 1 FROM ev WHERE seq = f.alloc_seq) AND NOT EXISTS (SELECT 1 FROM peak_live p WHERE p.alloc_seq = f.alloc_seq)" 0
expect_sql "SELECT group_concat(role || ' ' || kib, ', ') FROM (SELECT role, sum(size_bytes) / 1024 AS kib FROM live_at_peak WHERE role IS NOT NULL GROUP BY role ORDER BY 2, 1)" \
    'parameter 100, buffer 200, gradient 1000, optimizer state 1200'

# what a rule says of another use, by rows of the recording that are changed: sets of phases are bits, none 1, forward 2, logits 4, backward 8, optimizer 16,
# evaluation 32
shim_env=(VRAMSCOPE_ACCESS=on)
run_shimmed "$tests/prog_roles"
role() { # KIB SQL ROLE [RULE]: of the blocks of that size
    cp "$db" "$dir/changed.db"
    sqlite3 "$dir/changed.db" "CREATE TABLE these AS SELECT alloc_seq FROM block_use WHERE size_bytes = $1 * 1024; $2" || fail "$2"
    local got
    got=$(sqlite3 "$dir/changed.db" "SELECT DISTINCT r.role || ': ' || r.rule FROM block_role r WHERE r.alloc_seq IN these")
    [[ $got == "$3: ${4-}"* ]] || fail "$1 KiB with $2: $got"
}
used_in() { # PHASES SURE: in which of them for certain, as the word was no leftover in a structure
    echo "INSERT INTO access_kind SELECT 999, process, first_by, last_by, first_phase, last_phase, $1, kinds, $2 FROM access_kind LIMIT 1; UPDATE access SET kind = 999 WHERE alloc_seq IN these"
}
# what the optimizer makes and keeps is its state although backward was given its address, where that was only by words that may have been left
role 1200 "$(used_in 24 16)" 'optimizer state' 'made in the optimizer, kept over iterations, used by it, not in forward, and in backward by addresses alone'
role 1200 "$(used_in 24 24)" 'not told' # a mask
role 1200 "$(used_in 26 16)" 'not told' # copies of the weights
role 1200 "$(used_in 48 16)" 'not told' # averages of the weights, which evaluation uses
role 200 "$(used_in 16 16)" 'optimizer state' 'used by the optimizer alone, made in none of the phases before it, and kept beyond the iteration'
role 200 "$(used_in 16 16); UPDATE ev SET phase = 1 WHERE seq IN these" 'not told' # a workspace that forward made
# where no iteration is known what one range hands on to the next is no temporary, though one phase alone uses it, and it is freed
role 700 "DELETE FROM step" temporary 'used in one phase alone, and not after the range that it was made in; no training iteration is known'
role 700 "DELETE FROM step; UPDATE access SET span = span + 1000000000 WHERE alloc_seq IN these" 'not told'
# a library that asks the driver itself
owned_by() { echo "INSERT INTO string VALUES(9000, '$1'); UPDATE stack SET owner = 9000 WHERE id IN (SELECT stack FROM ev WHERE seq IN these)"; }
role 300 "$(owned_by libcublasLt.so.13)" workspace
role 300 "$(owned_by libnccl.so.2)" communication

# without accesses: no roles
shim_env=()
run_shimmed "$tests/prog_roles"
expect_sql "SELECT count(*), count(role) FROM live_at_peak" '10|0'
"$BUILD/bin/vramscope" peak "$db" >"$run/peak" || fail "peak ended with $?"
"$BUILD/bin/vramscope" plot "$db" -o "$run/plain.gp" && ! grep -q parts_0 "$run/plain.gp" || fail "a picture of roles where none are known"
! grep -q 'by role' "$run/peak" || fail "peak speaks of roles where none are known"
echo "every role is found, and its rule"
