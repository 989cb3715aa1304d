#!/bin/bash
# `vramscope top --prometheus` serves what processes hold, on the loopback address alone, as Prometheus and its lint take it.
. "$(dirname "$0")/../lib/lib.bash"
prometheus=$SRC/build/deps/prometheus/usr/bin
cd "$dir" || exit 1
mkdir journals jobs
export VRAMSCOPE_JOURNAL_DIR=$dir/journals
mkfifo in
env LD_PRELOAD="$shim" SIMCUDA_NVML=nopid SIMCUDA_CONTEXT_BYTES=100MiB RANK=3 WORLD_SIZE=8 VRAMSCOPE_OUTPUT="$dir/jobs/one.db" "$tests/prog_top" hold <in >out 2>&1 &
pid=$!
exec {in}>in
"$V" top --prometheus=0 jobs >url 2>err &
server=$!
program=$pid scraper=
trap 'kill $program $server $scraper 2>/dev/null; wait; rm -rf "$dir"' EXIT
trap 'echo "it was waiting for $awaited: $(cat page answer log err 2>/dev/null)"; exit 1' TERM # the runner gives up
awaited='the page and the program'
until grep -q ready out && grep -q '^http' url; do # the port is free, and known once it is bound
    kill -0 $server 2>/dev/null && kill -0 $pid 2>/dev/null || fail "top or the program has ended: $(cat err out)"
    sleep 0.05
done
url=$(cat url)
cat >get.py <<'PY'
import sys, urllib.error, urllib.request
try:
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers=dict([h.split(": ") for h in sys.argv[2:]])), timeout=60) as f:
        assert f.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"), f.headers
        sys.stdout.write(f.read().decode())
except urllib.error.HTTPError as e:
    print(e.code)
PY
get() { python3 get.py "$@"; }
value() { sed -n "s/^vramscope_$1_bytes{pid=\"$pid\",device=\"0\",rank=\"3\"${2:-}} //p" page; }
awaited='its figures'
until get "$url" >page && [ "$(value allocated)" = $((160 << 20)) ] && [ "$(value headroom)" = $((4096 - 260 << 20)) ] &&
    [ -n "$(value held ',phase="none",role="[a-z ]*"')" ]; do
    kill -0 $pid 2>/dev/null || fail "the program has ended: $(cat out)"
    sleep 0.2
done
[ "$(value reserved)" = $((160 << 20)) ] && [ "$(value peak_allocated)" = $((192 << 20)) ] && [ "$(value peak_reserved)" = $((192 << 20)) ] ||
    fail "figures: $(cat page)"
[ "$(value limit)" = $((4 << 30)) ] && [ "$(tail -n 1 page)" = "# EOF" ] || fail "the limit, the end: $(cat page)"
awk -F'} ' '/^vramscope_held_bytes/ { sum += $2 } END { exit sum != 160 * 1048576 }' page || fail "what lives: $(cat page)"
[ "$(value held ',phase="attention",role="[a-z ]*"')" = $((32 << 20)) ] || fail "made in attention: $(cat page)"
port=${url##*:} port=${port%/*}
[ "$(get "http://127.0.0.1:$port/")" = 404 ] && [ "$(get "$url" "Host: evil.example:$port")" = 403 ] && [ "$(get "$url" "Host: localhost.evil.example")" = 403 ] ||
    fail "another page, another host"
python3 - "$port" <<'PY' || fail "what is no request"
import socket, sys
for text, wanted in ((b"POST /metrics HTTP/1.1\r\nHost: localhost:%s\r\n\r\n" % sys.argv[1].encode(), b"404"), (b"GET /metrics HTTP/1.1\r\n\r\n", b"403"), (b"\0" * 20000, b""), (b"GET", b"")):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
        try:
            s.sendall(text)
            s.shutdown(socket.SHUT_WR)
            got = s.recv(100)
        except OSError: # it was closed before it was read whole
            got = b""
        assert got.startswith(b"HTTP/1.0 " + wanted if wanted else b"") and bool(got) == bool(wanted), (text, got)
PY
ss -Hltn 2>/dev/null | awk '{ print $4 }' | grep ":$port$" | grep -qv '^127\.0\.0\.1:' && fail "it listens elsewhere, too"
"$V" top --prometheus="$port" jobs >second 2>err && fail "two on one port"
grep -q "port $port of 127.0.0.1 can't be had" err && [ "$(wc -l <err)" = 1 ] || fail "two on one port: $(cat err)"
"$V" top --prometheus=65536 2>err
[ $? = 2 ] && grep -q "takes a port" err || fail "no port: $(cat err)"

if [ -x "$prometheus/promtool" ]; then
    "$prometheus/promtool" check metrics <page >lint 2>&1 || fail "promtool: $(cat lint)"
    [ -s lint ] && fail "promtool: $(cat lint)"
    printf 'global: {scrape_interval: 1s}\nscrape_configs: [{job_name: vramscope, static_configs: [{targets: ["127.0.0.1:%s"]}]}]\n' "$port" >prometheus.yml
    "$prometheus/prometheus" --config.file=prometheus.yml --storage.tsdb.path="$dir/tsdb" --web.listen-address=127.0.0.1:0 >log 2>&1 &
    scraper=$!
    awaited='Prometheus'
    until its=$(sed -n 's/.*msg="Listening on".* address=\(127\.0\.0\.1:[0-9]*\).*/\1/p' log) && [ -n "$its" ]; do
        kill -0 $scraper 2>/dev/null || fail "prometheus has ended: $(cat log)"
        sleep 0.1
    done
    awaited='its answer'
    until "$prometheus/promtool" query instant "http://$its" "sum by (pid, rank) (vramscope_held_bytes) == on (pid, rank) vramscope_allocated_bytes" >answer 2>&1 &&
        grep -q "pid=\"$pid\", rank=\"3\"} => $((160 << 20)) @" answer; do
        kill -0 $scraper 2>/dev/null || fail "prometheus has ended: $(cat log)"
        sleep 0.2
    done
fi
awaited="the program's end"
echo >&"$in"
wait $pid
program=
get "$url" >page
grep -q "pid=\"$pid\"" page && fail "a process that has ended: $(cat page)"
kill $server
wait $server
[ $? = 143 ] || fail "top's end by a signal"
[ -x "$prometheus/promtool" ] || skip "NO PROMETHEUS: scripts/setup.sh test fetches it into build/deps/prometheus; what top --prometheus serves was read by no Prometheus"
echo "top's figures reach a monitor"
