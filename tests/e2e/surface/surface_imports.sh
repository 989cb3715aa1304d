#!/bin/bash
# Imported memory is marked and in no total. External memory is recorded once, at its import; what is mapped of it is a view.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_imports"
expect_events <<'END'
alloc|imported|cuImportExternalMemory|8388608|0|0
alloc|imported|cuExternalMemoryGetMappedBuffer|0|0|0
alloc|imported|cuExternalMemoryGetMappedMipmappedArray|0|0|0
free|imported|cuMemFree_v2|0|0|0
free|imported|cuMipmappedArrayDestroy|0|0|0
free|imported|cuDestroyExternalMemory|8388608|0|0
alloc|imported|cuImportExternalMemory|1099511627776|0|400
phys_create|device|cuMemCreate|2097152|0|0
phys_retain|device|cuMemImportFromShareableHandle|0|0|0
phys_release|device|cuMemRelease|0|0|0
phys_release|device|cuMemRelease|2097152|0|0
phys_retain|imported|cuMemImportFromShareableHandle|0|-1|0
phys_release|imported|cuMemRelease|0|-1|0
END
expect_sql "SELECT peak_bytes, end_bytes FROM peak WHERE kind = 'imported'" '8388608|0'
expect_sql "SELECT max(reserved_bytes) FROM event WHERE device = 0" 2097152
expect_sql "$unknown_frees" 0
expect_clean
