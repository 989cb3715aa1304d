#!/bin/bash
# docs/answers.md: every command of the page, run on the recording that it is about, prints what stands there.
#
#   UPDATE=1 answers.sh writes the outputs anew: read the diff before committing it.
set -u
: "${BUILD:?where the build is}"
cd "$(dirname "$0")/../../.." || exit 1
[ -x "$BUILD/bin/vramscope" ] || { echo "skipped: there is no analyzer in this build" && exit 77; }
command -v sqlite3 >/dev/null || { echo "no sqlite3 command here" && exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# as a reader of the page unpacks it: it is of the present schema
xz -dc tests/data/llama-h200.db.xz >"$dir/train.db" || exit 1
"$BUILD/bin/vramscope" report "$dir/train.db" >/dev/null 2>"$dir/why" || { cat "$dir/why" && exit 1; } # of another schema: tests/data/renew_db.py, xz -9e
BUILD=$(realpath "$BUILD")
PATH=$BUILD/bin:$PATH LC_ALL=C.UTF-8 COLUMNS=80 python3 - docs/answers.md "$dir" <<'PY'
import difflib
import os
import re
import subprocess
import sys

page, folder = sys.argv[1:]
text = open(page).read()


def run(block):
    """The commands of a block, each with what it prints."""
    out, commands = [], 0
    lines = iter(block.splitlines())
    for line in lines:
        if line.startswith("$ "):
            out.append([line])
        elif line.startswith("> ") and len(out[-1]) == len([l for l in out[-1] if l[:2] in ("$ ", "> ")]):
            out[-1].append(line)
    shown = []
    for command in out:
        done = subprocess.run(["bash", "-euc", "\n".join(line[2:] for line in command)], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, (command, done.returncode, done.stderr)
        assert done.stdout.strip(), (command, "prints nothing")
        shown += command + [line.rstrip() for line in done.stdout.splitlines()]
    return "\n".join(shown) + "\n"


count = 0


def renew(match):
    global count
    count += match[1].count("\n$ ") + match[1].startswith("$ ")
    return "```console\n" + run(match[1]) + "```\n"


new = re.sub(r"```console\n(.*?)```\n", renew, text, flags=re.S)
assert count >= 6, f"the page has {count} commands"
if os.environ.get("UPDATE"):
    open(page, "w").write(new)
elif new != text:
    sys.exit("".join(difflib.unified_diff(text.splitlines(True), new.splitlines(True), page, "what is printed")))
print(f"{count} commands print what the page says")
PY
