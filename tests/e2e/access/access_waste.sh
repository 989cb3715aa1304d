#!/bin/bash
# What lay unused is found, a planted block of each kind, and the bound on the peak without it follows from the events: of each kind alone, and together.
# Blocks that may have been used unseen are no waste.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../lib/lib.bash"
shim_env=(VRAMSCOPE_ACCESS=on)
run_shimmed "$tests/prog_access" waste
expect_clean
waste="SELECT kind, group_concat(size_bytes >> 20) FROM (SELECT * FROM waste WHERE to_ns - from_ns > 8000000 AND size_bytes >> 20 NOT IN (10, 20) ORDER BY size_bytes) GROUP BY kind ORDER BY kind"
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

run_shimmed "$tests/prog_access" reaching
expect_sql "SELECT count(*) FROM waste w JOIN block_use u USING(alloc_seq) WHERE u.unseen IS NOT NULL" 0
shim_env=()
run_shimmed "$tests/prog_access" waste
expect_sql "SELECT (SELECT count(*) FROM waste), (SELECT count(*) FROM waste_bound)" '0|0'
echo "each kind of waste is found, and what the peak would be without it"
