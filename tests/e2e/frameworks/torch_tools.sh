#!/bin/bash
# Under vramscope run torch.compile, the profiler, tracers, hooks, copies and TorchScript see modules as they do without it.
. "$(dirname "$0")/../lib/lib.bash"
has_modules "${TEST_PYTHON:-python3}" torch || skip "${TEST_PYTHON:-python3} has no torch (TEST_PYTHON names one that has)"
plain=$(timeout 120 "${TEST_PYTHON:-python3}" "$here/torch_tools.py" 2>&1) || fail "without vramscope: $plain"
new_run
seen=$(timeout 120 "$BUILD/bin/vramscope" run -q -o "$db" -- "${TEST_PYTHON:-python3}" "$here/torch_tools.py" 2>&1) || fail "under run: $seen"
[ "$(grep ^= <<<"$seen")" = "$(grep ^= <<<"$plain")" ] || fail "without: $plain"$'\n'"with: $seen"
version=$("${TEST_PYTHON:-python3}" -c 'import sys; print(sys.version_info[1])')
if [ "$version" -ge 10 ] && [ "$version" -le 13 ]; then grep -qx 'direct True' <<<"$seen" || fail "modules are called by the wrapper's code: $seen"; fi
echo "torch.compile and the profiler see modules as before: $(grep -c ^= <<<"$plain") findings"
