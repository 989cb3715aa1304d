#!/bin/bash
# What a program logs and uploads in a dry run reaches no server, whichever way it asks for one, and is listed; the program goes on as if it had.
. "$(dirname "$0")/../lib/lib.bash"
python=${TEST_PYTHON:-python3} program=$(realpath "$(dirname "$0")/trackers.py")
unset LD_LIBRARY_PATH
cd "$dir" || exit 1
cat >server.py <<'PY'
import http.server

class Answer(http.server.BaseHTTPRequestHandler):
    def any(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        with open("requests", "a") as file:
            file.write(f"{self.command} {self.path}\n")
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = any
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
with open("port.new", "w") as file:
    file.write(str(server.server_address[1]))
import os
os.rename("port.new", "port")
server.serve_forever()
PY
python3 server.py &
server=$!
trap 'kill $server; rm -rf "$dir"' EXIT
until [ -s port ]; do sleep 0.05; done

tried=0
silent() { # PACKAGE LISTED [HOW]
    timeout 120 "$BUILD/bin/vramscope" fit -- "$python" "$program" "$1" "$(cat port)" "${@:3}" >out 2>err </dev/null
    if [ $? != 3 ] || ! grep -q "^logged$" err; then fail "$1 ${*:3}: did not go on: $(tail -n 20 err out)"; fi
    [ ! -e requests ] || fail "$1 ${*:3}: was sent: $(cat requests)"
    grep -q "an upload: $2" out || fail "$1 ${*:3}: not listed: $2: $(cat out)"
}
while read -r package listed hows; do
    "$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(sys.argv[1]))' "$package" || { echo "not tried: $python has no $package" && continue; }
    tried=$((tried + 1))
    silent "$package" "$listed"
    for how in $hows; do silent "$package" "$listed" "$how"; done
done <<'END'
wandb wandb.init online
mlflow mlflow environment client
comet_ml comet_ml existing start
neptune neptune class project
clearml clearml online
huggingface_hub huggingface_hub before
END
[ $tried -gt 0 ] || skip "$python has none of the trackers' packages"
echo "nothing is sent by $tried packages"
