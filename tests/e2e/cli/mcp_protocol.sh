#!/bin/bash
# `vramscope mcp` answers each line with one line that keeps to max_bytes, and a cancelled request, whose program ends, with none.  fit is
# off unless it is
# allowed.
. "$(dirname "$0")/../lib/command.bash"
gzip -dc "$BUILD/share/vramscope/demo.db.gz" >demo.db || exit 1
cp demo.db ./--force.db
python3 - "$V" <<'PY' || no "the protocol (above)"
import json, os, subprocess, sys, time

class Server:
    def __init__(self, *options):
        self.p = subprocess.Popen([sys.argv[1], "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    def send(self, message):
        self.p.stdin.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
        self.p.stdin.flush()
    def ask(self, message):
        self.send(message)
        line = self.p.stdout.readline()
        assert len(line) < 100000 and line.endswith(b"\n"), line[:200]
        return json.loads(line)
    def tool(self, name, **arguments):
        return self.ask({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
    def end(self):
        self.p.stdin.close()
        assert self.p.stdout.read() == b"" and self.p.wait() == 0, self.p.returncode

s = Server()
def error(code, message, text):
    e = s.ask(message)["error"]
    assert e["code"] == code and text in e["message"] and "\n" not in e["message"], e
error(-32700, b"junk", "column")
error(-32700, b'{"a": "\xff"}', "column")
error(-32700, b"[" * 100000, "column")
error(-32700, b'"' + b"x" * 3000000, "column")
error(-32600, b"[]", "one object")
for bad in ({"method": "ping"}, {"jsonrpc": "2.0", "id": {}, "method": "ping"}, {"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}):
    error(-32600, bad, "one object")
error(-32601, {"jsonrpc": "2.0", "id": 1, "method": "nothing\n"}, "not served")
def refused(text, name, **arguments):
    e = s.tool(name, **arguments)["error"]
    assert e["code"] == -32602 and text in e["message"] and "\n" not in e["message"], e
refused("no tool 'a\\nb'", "a\nb")
refused("--allow-run", "fit", command=["touch", "ran"])
refused("takes no 'output'", "report", files=["demo.db"], output="x")
refused("takes no 'device top'", "peak", files=["demo.db"], **{"device top": 1})
refused("takes no ''", "peak", files=["demo.db"], **{"": 1})
for name, value in (("device", 0.5), ("by", {}), ("by", [["line"]]), ("max_bytes", 10), ("timeout_s", 0), ("part", 1), ("max_bytes", "9")):
    refused("", "peak", files=["demo.db"], **{name: value})
for files in (None, "demo.db", [], [""], [1], {}):
    refused("files: a list", "report", files=files)
refused("files: a list", "report")
assert s.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "report", "arguments": [1]}})["error"]["code"] == -32602
# what the command itself refuses is its own line, and a name of a file is none of its options
r = s.tool("peak", files=["demo.db"], device="-1")["result"]
assert r["isError"] and r["content"][0]["text"] == "vramscope: peak: --device takes a whole number such as 1, not '-1'", r
for files, text in ((["nowhere.db"], "nowhere.db: No such file"), (["/dev/null"], "/dev/null"), (["--sort"], "--sort: No such file")):
    r = s.tool("report", files=files)["result"]
    assert r["isError"] and text in r["content"][0]["text"], r
def document(name, **arguments):
    r = s.tool(name, **arguments)["result"]
    assert not r["isError"], r
    return json.loads(r["content"][0]["text"]), len(r["content"][0]["text"].encode())
assert document("peak", files=["--force.db"], by="role")[0]["files"][0]["file"] == "--force.db"
whole, size = document("report", files=["demo.db"], max_bytes=1 << 20)
assert "left_out" not in whole and whole.pop("exit_status") == 0
assert whole == json.loads(subprocess.run([sys.argv[1], "report", "--json", "demo.db"], capture_output=True).stdout)
for most in (1024, 12000, 20000, size - 1):
    short, n = document("report", files=["demo.db"], max_bytes=most)
    assert n <= most and "left_out" in short, (most, n)
for at, value in (("files[0].devices[0].peak.parts", whole["files"][0]["devices"][0]["peak"]["parts"]), ("files[0].file", "demo.db")):
    part, n = document("report", files=["demo.db"], part=at)
    assert part == {"part": at, "value": value} and n < 32768
part, n = document("report", files=["demo.db"], part="files[0].devices[0].peak.parts", max_bytes=1500)
assert n <= 1500 and len(part["value"]) + part["value_left_out"] == len(whole["files"][0]["devices"][0]["peak"]["parts"])
for bad in ("files[1]", "files[-1]", "files[0", "files[]", "files..file", "x", "files[0].file.x"):
    assert s.tool("report", files=["demo.db"], part=bad)["result"]["isError"], bad
s.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
s.send(b"  ")
assert s.ask({"jsonrpc": "2.0", "id": 7, "method": "ping"})["id"] == 7
s.end()
assert not os.path.exists("ran")

# a program of fit's: it ends where nobody wants it any more, and where its time is over
s = Server("--allow-run")
r = s.tool("fit", command=["sh", "-c", "sleep 1000"], timeout_s=2)["result"]
assert r["isError"] and "took longer than 2 s" in r["content"][0]["text"], r
s.send({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {"name": "fit", "arguments": {"command": ["sh", "-c", f"sleep 1000.{os.getpid()}"]}}})
def running():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"sleep\x001000.%d\x00" % os.getpid() == open(f"/proc/{pid}/cmdline", "rb").read():
                found.append(pid)
        except OSError:
            pass
    return found
while not running():
    time.sleep(0.05)
assert s.ask({"jsonrpc": "2.0", "id": 8, "method": "ping"})["id"] == 8 # it is served meanwhile
s.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}})
while running():
    time.sleep(0.05)
s.end()
s = Server("--allow-run") # killed: what it runs ends with it
s.send({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {"name": "fit", "arguments": {"command": ["sh", "-c", f"sleep 1000.{os.getpid()}"]}}})
while not running():
    time.sleep(0.05)
s.p.kill()
while running():
    time.sleep(0.05)
PY
refused "takes no file" "$V" mcp demo.db
refused "unknown option" "$V" mcp --port=1
[ $failures = 0 ] && echo "mcp answers each line" || exit 1
