#!/bin/bash
# The virtual-memory API: physical memory counts until its references and its mappings are both gone, whichever goes last; failed calls change none.
. "$(dirname "$0")/../lib/lib.bash"

run_shimmed "$tests/prog_vmm"
# what every call did to the device's total, in MiB.  A release or an unmap that is not the last thing to hold the memory
# takes nothing; phys_freed is the moment where it goes with its mapping.  set_access belongs to no device: no total
ask "SELECT op || ' ' || (size_bytes / 1048576) || ' -> ' || (reserved_bytes / 1048576) || CASE status WHEN 0 THEN '' ELSE ' !' || status END
     FROM event WHERE op NOT IN ('sample', $costs) ORDER BY seq" >"$run/curve"
cat >"$run/wanted" <<'END'
va_reserve 64 -> 0
phys_create 20 -> 20
map 20 -> 20
phys_create 20 -> 40
map 20 -> 40
phys_create 20 -> 60
map 20 -> 60
set_access 60 -> 0
phys_release 0 -> 60
unmap 20 -> 60
phys_freed 20 -> 40
unmap 40 -> 40
phys_release 20 -> 20
phys_release 20 -> 0
va_free 64 -> 0
va_reserve 4 -> 0
phys_create 2 -> 2
map 2 -> 2
map 2 -> 2
set_access 4 -> 0
phys_release 0 -> 2
phys_retain 0 -> 2
unmap 4 -> 2
phys_release 2 -> 0
va_free 4 -> 0
phys_create 3 -> 0 !1
phys_create 4194304 -> 0 !2
va_reserve 2 -> 0
phys_create 2 -> 0
map 4 -> 0 !1
map 2 -> 0
va_free 2 -> 0
free_failed 0 -> 0 !1
unmap 2 -> 0
free_failed 0 -> 0 !1
phys_release 0 -> 0
free_failed 0 -> 0 !1
unmap 2 -> 0
phys_release 2 -> 0
END
diff "$run/wanted" "$run/curve" >"$run/difference" || fail "events (< wanted, > recorded): $(cat "$run/difference")"
expect_sql "SELECT count(*) FROM event WHERE op = 'phys_create' AND space = 'host_vmm'" 1
expect_sql "SELECT peak_bytes, end_bytes FROM peak WHERE device = 0 AND kind = 'reserved'" '62914560|0'
expect_clean
