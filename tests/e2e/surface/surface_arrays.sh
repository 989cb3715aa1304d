#!/bin/bash
# Arrays count what their texels take, sparse ones what is bound into them, for as long as it is.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_arrays"
expect_events <<'END'
alloc|array|cuArrayCreate_v2|8388608|0|0
alloc|array|cuArray3DCreate_v2|1048576|0|0
alloc|array|cuMipmappedArrayCreate|21504|0|0
free|array|cuArrayDestroy|8388608|0|0
free|array|cuArrayDestroy|0|-1|0
free_failed|array||0|-1|400
free|array|cuMipmappedArrayDestroy|21504|0|0
free|array|cuArrayDestroy|1048576|0|0
alloc|array|cuArrayCreate_v2|68719476736|0|2
alloc|array|cuArray3DCreate_v2|0|0|0
phys_create|device|cuMemCreate|2097152|0|0
bind|array||131072|0|0
bind|array||131072|0|0
phys_release|device|cuMemRelease|0|0|0
unbind|array||131072|0|0
free|array|cuArrayDestroy|0|0|0
phys_freed|device||2097152|0|0
END
expect_sql "SELECT peak_bytes, end_bytes FROM peak WHERE device = 0 AND kind = 'reserved'" "$((8388608 + 1048576 + 21504))|0"
expect_sql "SELECT max(reserved_bytes), max(allocated_bytes) FROM event WHERE seq >= (SELECT seq FROM event WHERE op = 'phys_create')" '2097152|2097152'
expect_clean
