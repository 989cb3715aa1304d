#!/bin/bash
# VRAMSCOPE_ACCESS=on: every block knows when, by what and in which phase the device was given it, and what cannot be seen is said to be
# unseen.
. "$(dirname "$0")/../lib/lib.bash"

used() { # PART: size (KiB, or MiB from 1 MiB on)|uses|steps|first step|last step|first by|last by|used in|kinds|unseen
    shim_env=(VRAMSCOPE_ACCESS=on)
    run_shimmed "$tests/prog_access" "$1"
    expect_clean
    ask "SELECT size_bytes / 1024, uses, steps, first_step, last_step, replace(first_by, 'simcuda_nothing_', ''), replace(last_by, 'simcuda_nothing_', ''),
        used_in, kinds & 127, unseen FROM block_use ORDER BY alloc_seq" >"$run/uses"
    cat >"$run/wanted"
    diff "$run/wanted" "$run/uses" >"$run/difference" || fail "$1: uses (< wanted, > recorded):
$(cat "$run/difference")"
}

used params <<END
4|3|3|1|3|two|two|none,forward,backward|1|
8|1|1|1|1|two|two|forward|1|
12|0|0||||||0|
16|1|1|1|1|struct|struct|forward|1|
20|1|1|2|2|two|two|none|1|
65536|1|1|2|2|two|two|backward|1|
24|1|1|3|3|two|two|none|1|
28|1|1|3|3|two|two|none|1|
32|1|1|3|3|two|two|none|1|
36|1|1|2|2|two|two|backward|1|
40|0|0||||||0|
END
# the times are those of the events around them
expect_sql "SELECT count(*) FROM block_use u, range r WHERE r.phase = 'forward' AND u.used_in = 'forward' AND u.first_use_ns BETWEEN r.t_push_ns AND r.t_pop_ns
    AND u.last_use_ns = u.first_use_ns" 2
expect_sql "SELECT count(*) FROM block_use u JOIN allocation a USING(alloc_seq) WHERE u.last_use_ns > a.t_free_ns OR u.first_use_ns < a.t_alloc_ns" 0
expect_sql "SELECT group_concat((size_bytes / 1024) || ':' || ifnull(end_step, '-'), ' ') FROM (SELECT * FROM block_use WHERE size_bytes < 20480 ORDER BY size_bytes)" \
    '4:3 8:- 12:3 16:3'

used maps <<END
4096|1|1|1|1|map|map|none|65|
6144|1|1|1|1|map|map|none|65|
8192|1|1|1|1|two|two|none|1|
END
used copies <<END
4|1|1|1|1|cuMemcpyHtoD|cuMemcpyHtoD|none|24|
8|1|1|1|1|cuMemcpyDtoHAsync|cuMemcpyDtoHAsync|none|20|
12|1|1|1|1|cuMemsetD32Async|cuMemsetD32Async|none|32|
16|1|1|1|1|cuMemcpyDtoD|cuMemcpyDtoD|none|4|
20|1|1|1|1|cuMemcpyDtoD|cuMemcpyDtoD|none|8|
24|1|1|1|1|cuMemcpy|cuMemcpy|none|24|
28|0|0||||||0|stored
32|3|1|1|1|cuMemcpyHtoDAsync|cuMemcpy3D|none|24|
36|1|1|1|1|cuMemsetD8|cuMemsetD8|none|32|
40|0|0||||||0|stored
44|0|0||||||0|stored
END
# a captured launch is no use; a launched graph is, also of what its nodes had before they were changed
used graphs <<END
4|2|2|2|3|two|two|none,forward|7|
8|2|2|2|3|two|two|none,forward|3|
12|2|2|2|3|cuMemsetD8Async|cuMemsetD8Async|none,forward|34|
16|2|2|2|3|cuMemcpyAsync|cuMemcpyAsync|none,forward|10|
20|1|1|3|3|two|two|none|3|
24|0|0||||||0|
END
used graph_source <<END
4|1|1|1|1|cuMemcpyAsync|cuMemcpyAsync|none|10|
8|0|0||||||0|stored
END
# ... of a graph that was captured twice what it has now
used recapture <<END
4|0|0||||||0|
8|0|0||||||0|
12|1|1|2|2|cuMemcpyAsync|cuMemcpyAsync|none|10|
16|1|1|2|2|cuMemcpyAsync|cuMemcpyAsync|none|6|
20|1|1|1|1|cuMemcpyWithAttributesAsync|cuMemcpyWithAttributesAsync|none|8|
24|1|1|1|1|cuMemcpyWithAttributesAsync|cuMemcpyWithAttributesAsync|none|4|
END
# of PyTorch's lists of tensors (foreach in a graph, also where a node was changed; cat) what is in use, not what was left behind it
run_shimmed "$tests/prog_access" lists
expect_clean
expect_sql "SELECT group_concat((size_bytes / 1024) || ':' || uses, ' ') FROM (SELECT size_bytes, uses FROM block_use WHERE size_bytes % 4096 = 0 ORDER BY 1)" \
    '4:2 8:2 12:0 16:1 20:1 24:0 28:1 32:0 100:3 104:1 108:1 112:0'
expect_sql "SELECT group_concat(name, ' ') FROM (SELECT name FROM contract WHERE name IN ('torch_foreach', 'cuda_parameters') AND state = 'proven' ORDER BY 1)" \
    'cuda_parameters torch_foreach'
used reaching <<END
4|0|0||||||0|reachable
8|0|0||||||0|
12|1|1|1|1|ncclDevKernel|ncclDevKernel|none|1|reachable
16|1|1|1|1|two|two|none|1|
END

# a driver that says otherwise that there are no more parameters: what it says of that kernel is not believed
shim_env=(VRAMSCOPE_ACCESS=on SIMCUDA_FAIL=cuFuncGetParamInfo:2=801)
run_shimmed "$tests/prog_access" reaching
expect_sql "SELECT name, state, detail LIKE '%of parameter 1 of a kernel it answers 801%' FROM contract WHERE name = 'cuda_parameters'" \
    'cuda_parameters|broken|1'

# off: no rows, and the file is as it would be
shim_env=()
run_shimmed "$tests/prog_access" many
expect_clean
expect_sql "SELECT (SELECT count(*) FROM access), (SELECT count(*) FROM access_kind), (SELECT count(*) FROM block_use)" '0|0|0'

# on: 400 words of a launch, 200 steps
shim_env=(VRAMSCOPE_ACCESS=on)
run_shimmed "$tests/prog_access" many
expect_clean
expect_sql "SELECT count(*), min(uses), max(uses), min(steps), max(steps), min(first_step), max(last_step), group_concat(DISTINCT used_in) FROM block_use
    WHERE size_bytes > 512 AND size_bytes < 1048576" '399|200|200|200|200|1|200|forward,other'
expect_sql "SELECT uses, steps FROM block_use WHERE size_bytes = 512" '400|200'
expect_sql "SELECT count(*), sum(uses), max(first_phase) FROM block_use WHERE size_bytes = 1048576" '200|200|my own phase'

# killed: what is known of every block, living or gone, is in the journal
shim_env=(VRAMSCOPE_ACCESS=on)
shimmed "$tests/prog_access" killed
[ "$status" = 134 ] || fail "the program was to be killed by a signal: $status"
recover_run
expect_sql "SELECT count(*), min(uses), max(uses), max(last_step) FROM block_use WHERE size_bytes > 512 AND size_bytes < 1048576" '399|200|200|200'
expect_sql "SELECT count(*), sum(uses) FROM block_use WHERE size_bytes = 1048576" '200|200'
# a long run in a small file: what is folded takes its row with it, what lives or lived at the peak keeps its own
shim_env=(VRAMSCOPE_ACCESS=on VRAMSCOPE_MAX_BYTES=1MiB VRAMSCOPE_RING_EVENTS=1048576) # 121,000 events, and uses
run_shimmed "$tests/prog_steps" 60000
expect_clean
expect_sql "SELECT count(*) > 10 FROM stretch WHERE folded > 0" 1
expect_sql "SELECT count(*) FROM ev e WHERE op = 20 AND NOT EXISTS (SELECT 1 FROM access a WHERE a.alloc_seq = e.seq)" 0
expect_sql "SELECT count(*) FROM access a WHERE NOT EXISTS (SELECT 1 FROM ev WHERE seq = a.alloc_seq) AND NOT EXISTS (SELECT 1 FROM peak_live p WHERE p.alloc_seq = a.alloc_seq)" 0
expect_sql "SELECT count(*) > 100, count(*) = count(role) FROM live_at_peak" '1|1'
[ "$(stat -c %s "$db")" -le 1048576 ] || fail "the file has $(stat -c %s "$db") bytes"
echo "every way that a block is given to the device is seen"
