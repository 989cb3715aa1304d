#!/bin/bash
# Go's pprof (TEST_PPROF) counts in a profile what the peak has, and Perfetto's own definitions (package perfetto of TEST_PYTHON) know every
# field.
. "$(dirname "$0")/../lib/command.bash"
failures=0 tools=''
make_db run.db --devices 2

pprof=()
if [ -n "${TEST_PPROF:-}" ]; then
    pprof=("$TEST_PPROF")
elif go tool pprof -h >/dev/null 2>&1; then
    pprof=(go tool pprof)
fi
if [ ${#pprof[@]} -gt 0 ]; then
    tools+=' pprof'
    "$V" export --format=pprof run.db -o run.pb.gz || no "export"
    for device in 0 1; do
        peak=$(sqlite3 run.db "SELECT peak_bytes FROM peak WHERE kind = 'allocated' AND device = $device")
        # of traces each has its bytes before its first frame
        sum=$("${pprof[@]}" -traces -unit=B -tagfocus=device=cuda:$device run.pb.gz 2>/dev/null | sed -n 's/^ *\([0-9]*\)B  .*/\1/p' | awk '{ n += $1 } END { printf "%.0f", n }')
        [ "$sum" = "$peak" ] || no "pprof counts $sum of $peak bytes of device $device"
    done
    "${pprof[@]}" -top run.pb.gz 2>/dev/null | grep -q '<module>' || no "pprof has other names: $("${pprof[@]}" -top run.pb.gz | tail -n 5)"
    "${pprof[@]}" -top -diff_base=run.pb.gz run.pb.gz 2>/dev/null | grep -q '^Showing nodes accounting for 0, 0%' || no "a profile differs from itself"
fi

python=${TEST_PYTHON:-python3}
if "$python" -c 'import perfetto.protos.perfetto.trace.perfetto_trace_pb2' 2>/dev/null; then
    tools+=' perfetto'
    "$V" export --format=perfetto run.db -o run.pftrace || no "export"
    "$python" - <<'PY' || no "Perfetto's definitions"
from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

def look(message, path):
    unknown = [u.field_number for u in unknown_fields.UnknownFieldSet(message)]
    assert not unknown, f"{path}: fields {unknown} are unknown"
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if field.is_repeated else [value]:
                look(one, f"{path}.{field.name}")

trace = perfetto_trace_pb2.Trace()
trace.ParseFromString(open("run.pftrace", "rb").read())
look(trace, "trace")
assert len(trace.packet) > 500 and any(p.track_event.callstack_iid for p in trace.packet)
assert any(p.track_descriptor.counter.unit == p.track_descriptor.counter.UNIT_SIZE_BYTES for p in trace.packet)
PY
fi
[ $failures = 0 ] || exit 1
[ -n "$tools" ] || { echo "skipped: neither Go's pprof nor the Python package perfetto is here (TEST_PPROF, TEST_PYTHON)"; exit 77; }
echo "read by:$tools"
