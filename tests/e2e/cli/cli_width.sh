#!/bin/bash
# On a terminal no sentence of report, peak and diff is wider than it; in a pipe every line stays whole; both say the same words.
set -u
BUILD=${BUILD:?the build directory}
SRC=$(cd "$(dirname "$0")/../../.." && pwd)
V=$BUILD/bin/vramscope
[ -x "$V" ] || { echo "skipped: there is no analyzer in this build" && exit 77; }
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
cd "$D" || exit 1
make_db() { python3 "$SRC/tests/data/make_db.py" "$SRC/shim/trace/schema.sql" "$@" || exit 1; }
make_db train.db --devices 2
make_db oom.db --kind oom
make_db killed.db --kind killed
make_db thinned.db --kind thinned
make_db leak.db --leak 3 --steps 12
python3 - "$V" <<'PY' || exit 1
import fcntl
import os
import struct
import subprocess
import sys
import termios
import threading


def on_terminal(columns, *command):
    """What COMMAND prints on a terminal of so many columns."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    got = []

    def read():
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                return
            if not part:
                return
            got.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    subprocess.run(command, stdout=follower, stderr=subprocess.DEVNULL, check=False)
    os.close(follower)
    reader.join()
    os.close(leader)
    return b"".join(got).decode().replace("\r\n", "\n")


def piped(*command):
    return subprocess.run(command, capture_output=True, check=False).stdout.decode()


V = sys.argv[1]
commands = [(c, f) for c in ("report", "peak") for f in ("train.db", "oom.db", "killed.db", "thinned.db", "leak.db")]
commands = [(V,) + c for c in commands] + [(V, "peak", "--at=oom", "oom.db"), (V, "diff", "train.db", "leak.db")]
for command in commands:
    whole = piped(*command)
    for columns in (80, 60, 200):
        wrapped = on_terminal(columns, *command)
        assert wrapped.split() == whole.split(), (command, columns)
        for line in wrapped.splitlines():
            table = "  " in line.lstrip(" ")
            one_word = " " not in line.strip()
            assert len(line) <= max(columns, 80) or table or one_word, (command, columns, len(line), line)
            assert len(line) <= columns or table or one_word or columns < 80, (command, columns, len(line), line)
    assert on_terminal(300, *command) == whole, command
page = on_terminal(80, V, "report", "train.db")
assert all(len(line) <= 80 for line in page.splitlines()), max(page.splitlines(), key=len)
assert any(len(line) > 100 for line in piped(V, "report", "oom.db").splitlines()), "nothing was to be wrapped: the test tests nothing"
assert on_terminal(80, V, "report", "--json", "train.db") == piped(V, "report", "--json", "train.db"), "JSON is for programs"
PY
echo "sentences fit the terminal, and are whole in a pipe"
