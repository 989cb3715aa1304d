#!/usr/bin/env bash
# ci_tools.sh TREE OUT - check, the pytest plugin and top beside PyTorch's own counters, on a GPU.
#
# TREE: an installed vramscope.  OUT: folder for databases.  Needs a GPU and PyTorch, and pytest for one part; takes about a minute.
# Ends with "N passed, N failed"; exit 77 without a GPU.
. "$(dirname "$0")/gpu.bash"
need

# check: a limit of exactly PyTorch's peak is kept, one of a byte less is not
rm -f "$out"/ci.db* "$out"/ci.json
"$V" run -q -o "$out/ci.db" -- "$python" "$here/ci_tools.py" train "$out/ci.json" >"$out/ci.log" 2>&1 || tail -n 3 "$out/ci.log"
peak=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["peak"])' "$out/ci.json")
# what libraries take beside PyTorch's blocks counts as allocated, too
direct=$("$V" check --json "$out/ci.db" --max-peak=1B | "$python" -c 'import json, sys; print(json.load(sys.stdin)["checks"][0]["value_bytes"] - int(sys.argv[1]))' "$peak")
[ "$direct" -ge 0 ] && [ "$direct" -lt $((256 << 20)) ]
verdict $? "check: the peak is PyTorch's, and $direct bytes of libraries"
"$V" check "$out/ci.db" --max-peak=$((peak + direct)) --no-growth >"$out/check.txt"
verdict $? "check: within its own peak, nothing grows"
"$V" check "$out/ci.db" --max-peak=$((peak + direct - 1)) >>"$out/check.txt"
[ $? = 1 ] && grep -q "line ci_tools.py" "$out/check.txt"
verdict $? "check: beyond it by a byte, with the line"

# the plugin: what a test adds is what PyTorch counted
if "$python" -c 'import pytest' 2>/dev/null; then
  mkdir -p "$out/site/vramscope-0.dist-info" "$out/suite"
  printf '[pytest11]\nvramscope = vramscope.pytest_plugin\n' >"$out/site/vramscope-0.dist-info/entry_points.txt"
  printf 'Metadata-Version: 2.1\nName: vramscope\nVersion: 0\n' >"$out/site/vramscope-0.dist-info/METADATA"
  cp "$here/ci_tools.py" "$out/suite/test_ci_tools.py"
  (cd "$out/suite" && PYTHONPATH=$out/site:$tree/share/vramscope/python "$python" -m pytest -q --vramscope test_ci_tools.py) >"$out/pytest.txt" 2>&1
  grep -q "1 failed, 2 passed" "$out/pytest.txt" && grep -q "^FAILED test_ci_tools.py::test_beyond " "$out/pytest.txt" &&
    grep -q "^vram_limit: added by the test at its peak on device 0: 64.00 MiB, limit 63.00 MiB" "$out/pytest.txt" # the summary cuts it off
  verdict $? "pytest --vramscope: $(tail -n 1 "$out/pytest.txt")"
else
  echo "SKIP pytest --vramscope: no pytest here"
fi

# top: what it shows of a process that stands still is what PyTorch counts there
mkfifo "$out/hold.in" 2>/dev/null
rm -f "$out"/hold.db* "$out"/hold.json
"$V" run -q -o "$out/hold.db" -- "$python" "$here/ci_tools.py" hold "$out/hold.json" <"$out/hold.in" >"$out/hold.log" 2>&1 &
exec 9>"$out/hold.in"
for _ in $(seq 240); do [ -s "$out/hold.json" ] && break; sleep 0.25; done
shown=1
for _ in $(seq 40); do # what was recorded last may not be in the database yet
  COLUMNS=120 "$V" top --once "$out/hold.db" >"$out/top.txt" 2>&1
  "$python" "$here/ci_tools.py" top "$out/hold.json" "$out/top.txt" && shown=0 && break
  sleep 0.25
done
verdict $shown "top: $(sed -n 3p "$out/top.txt")"
exec 9>&-
wait
rm -f "$out/hold.in"
counted
