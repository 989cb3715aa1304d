#!/bin/bash
# No line is wider than the terminal, or than COLUMNS says of a pipe; in a pipe without COLUMNS nothing is cut.  Colours are for terminals;
# C locales
# get ASCII.
. "$(dirname "$0")/../lib/command.bash"
make_db train.db --devices 2
make_db oom.db --kind oom
make_db killed.db --kind killed
make_db thinned.db --kind thinned
make_db leak.db --leak 3 --steps 12
make_db waste.db && sqlite3 waste.db "INSERT INTO frame(id, kind, function, file) VALUES(900, 4, 'Model.decoder.layers.self_attention.output_projection', 'Layer');
    UPDATE stack SET layer = 900;
    INSERT INTO access_kind VALUES(1, 1, 0, 0, 0, 0, 0, 0, 0);
    INSERT INTO access(alloc_seq, kind, uses, born_step) SELECT alloc_seq, 1, 0, 1 FROM live_at_peak WHERE category = 'framework block' AND stack > 0" || exit 1
python3 - "$V" <<'PY' || exit 1
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading


plain = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "TERM", "LC_ALL", "LC_CTYPE", "LANG")}


def on_terminal(columns, *command, **variables):
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
    subprocess.run(command, stdout=follower, stderr=subprocess.DEVNULL, check=False, env=dict(plain, **variables))
    os.close(follower)
    reader.join()
    os.close(leader)
    return b"".join(got).decode().replace("\r\n", "\n")


def piped(*command, **variables):
    return subprocess.run(command, capture_output=True, check=False, env=dict(plain, **variables)).stdout.decode()


V = sys.argv[1]
commands = [(c, f) for c in ("report", "peak") for f in ("train.db", "oom.db", "killed.db", "thinned.db", "leak.db")]
commands = [(V,) + c for c in commands] + [(V, "peak", "--at=oom", "oom.db"), (V, "diff", "train.db", "leak.db"), (V, "diff", "train.db", "oom.db"),
                                           (V, "whatif", "oom.db"), (V, "waste", "waste.db"), (V, "check", "--max-peak=1GiB", "train.db")]
for command in commands:
    for columns in (80, 60):
        page = piped(*command, COLUMNS=str(columns))
        assert on_terminal(columns, *command) == page, (command, columns)
        for line in page.splitlines():
            one_word = " " not in line.strip()
            assert len(line) <= columns or one_word, (command, columns, len(line), line)
    loose, wide = piped(*command), piped(*command, COLUMNS="1000")  # nobody reads columns there: nothing is cut, and sentences end at 80
    assert "no room for" not in loose and loose.split() == wide.split() or command[1] == "whatif" and "no room for" not in loose, command
whole = piped(V, "report", "--all", "oom.db", COLUMNS="1000")
assert any(len(line) > 100 for line in whole.splitlines()), "nothing was to be wrapped: the test tests nothing"
assert whole.split() == piped(V, "report", "--all", "oom.db", COLUMNS="200").split(), "a word was lost"
for line in piped(V, "doctor", "--quick").splitlines():
    assert len(line) <= 80 or max(map(len, line.split())) > 60, line  # a path has no blank to be broken at

# a table that is too wide loses a column and says which; no row is broken
for question, lost in (("line", "allocations"), ("layer", "each"), ("role", "allocations"), ("phase", "allocations"), ("category", "allocations")):
    for columns in (45, 50, 60):
        page = piped(V, "peak", f"--by={question}", "waste.db", COLUMNS=str(columns))
        rows = page[page.index(f"  by {question} "):].splitlines()
        rows = rows[:[row.startswith("  ─") for row in rows].index(True) + 2]
        said = re.search(rf"no room for: (share, )?{lost};", page) is not None
        assert said != (f" {lost}" in rows[0]), (question, columns, page)
        assert all(re.match(r"  .*\d B|  .*\d [KMG]iB|  ─", row) for row in rows[1:]) and not any(row.endswith(" ") for row in rows), (question, columns, page)

# a place has the room that there is, and with --full is never cut
place = "model.py:17 Model.__init__, in Model.decoder.layers.self_attention"
assert place in piped(V, "waste", "waste.db", COLUMNS="140") and place in " ".join(piped(V, "waste", "--full", "waste.db", COLUMNS="60").split())
for columns in ("70", "80"):  # where there is no room for both the layer goes below, and is what is cut
    narrow = piped(V, "waste", "waste.db", COLUMNS=columns)
    rows = re.findall(r"never used  (\S.*)\n +in (Mod.*)", narrow)
    assert [line for line, _ in rows] == ["model.py:17 Model.__init__", "no Python line", "model.py:41 Model.forward"] and place not in narrow, narrow

# colours: on a terminal that has them, and nowhere else
colored = on_terminal(100, V, "diff", "train.db", "leak.db", TERM="xterm")
assert "\033[31m+" in colored and "\033[1mdevice 0" in colored, colored
assert "\033[31mLOST: " in on_terminal(100, V, "report", "--all", "killed.db", TERM="xterm")
for variables in ({"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}, {}):
    assert "\033" not in on_terminal(100, V, "diff", "train.db", "leak.db", **variables), variables
assert "\033" not in piped(V, "diff", "train.db", "leak.db", TERM="xterm")
sequence = re.compile("\033\\[[0-9;]*m")
assert sequence.sub("", colored) == on_terminal(100, V, "diff", "train.db", "leak.db"), "colours move nothing"

# ASCII, of the same width
for command in commands + [(V, "plot", "train.db")]:
    ascii_page = piped(*command, LC_ALL="C")
    assert ascii_page.isascii(), (command, [line for line in ascii_page.splitlines() if not line.isascii()])
    assert len(ascii_page.splitlines()) == len(piped(*command).splitlines()), command
for command in ((V, "check", "--max-peak=1GiB", "train.db"), (V, "whatif", "train.db"), (V, "doctor", "--quick"), (V, "--help")):
    assert piped(*command, LC_ALL="C").isascii(), command
helps = subprocess.run([V, "--help"], capture_output=True, check=True).stdout.decode()
for name in re.findall(r"^  ([a-z]+)  ", helps[helps.index("commands:"):], re.M):
    for line in [*piped(V, name, "--help").splitlines()[1:], *helps.splitlines()]:
        assert len(line) <= 80, (name, line)
assert not piped(V, "report", "--all", "train.db", LANG="C.UTF-8").isascii()
assert not piped(V, "report", "--all", "train.db").isascii()
assert on_terminal(90, V, "plot", "train.db", TERM="dumb").isascii()
assert on_terminal(80, V, "report", "--json", "train.db") == piped(V, "report", "--json", "train.db"), "JSON is for programs"
PY
echo "pages fit the terminal, and are whole in a pipe"
