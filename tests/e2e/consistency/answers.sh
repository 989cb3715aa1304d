#!/bin/bash
# What README.md, docs/answers.md and docs/report.md show below a command with $ is what it prints.  UPDATE=1 writes it anew: read the diff
# before committing it.
set -u
: "${BUILD:?where the build is}"
cd "$(dirname "$0")/../../.." || exit 1
[ -x "$BUILD/bin/vramscope" ] || { echo "skipped: there is no analyzer in this build" && exit 77; }
command -v sqlite3 >/dev/null || { echo "no sqlite3 command here" && exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# as a reader of the pages unpacks them: they are of the present schema
for name in train fused oom demo; do
    db=$dir/$name.db
    case $name in
    train) xz -dc tests/data/llama-h200.db.xz ;;
    fused) xz -dc tests/data/llama-h200-fused.db.xz ;;
    oom | demo) gzip -dc examples/llama-h200-oom.db.gz ;;
    esac >"$db" || exit 1
    "$BUILD/bin/vramscope" report --all "$db" >/dev/null 2>"$dir/why" || { cat "$dir/why" && exit 1; } # of another schema: tests/data/renew_db.py, xz -9e
done
# the made-up ones
make_db() { python3 tests/data/make_db.py shim/trace/schema.sql "$dir/$1" "${@:2}" || exit 1; }
make_db leak.db --leak 1 --steps 12
mkdir "$dir/runs" && for rank in 0 1 2 3 4 6 7; do
    more=()
    [ $rank = 2 ] && more=(--kind oom)
    make_db runs/gpu-$((rank / 4))-$rank.db --rank $rank --host gpu-$((rank / 4)) --gpu $((rank % 4)) --extra $((rank * 37 % 101)) "${more[@]}"
done
BUILD=$(realpath "$BUILD")
PATH=$BUILD/bin:$PATH LC_ALL=C.UTF-8 COLUMNS=80 python3 - "$dir" README.md docs/answers.md docs/report.md <<'PY'
import difflib
import os
import re
import subprocess
import sys

folder, *pages = sys.argv[1:]


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


def renewed(page):
    """The page as it is and as it should be, and how many commands it has."""
    text, count = open(page).read(), 0

    def renew(match):
        nonlocal count
        count += match[1].count("\n$ ") + match[1].startswith("$ ")
        return "```console\n" + run(match[1]) + "```\n"

    new = re.sub(r"```console\n(.*?)```\n", renew, text, flags=re.S)
    assert count >= (1 if page == "README.md" else 6), f"{page} has {count} commands"
    return text, new, count


wrong = ""
for page in pages:
    text, new, count = renewed(page)
    if os.environ.get("UPDATE"):
        open(page, "w").write(new)
    elif new != text:
        wrong += "".join(difflib.unified_diff(text.splitlines(True), new.splitlines(True), page, "what is printed"))
    print(f"{page}: {count} commands")
readme = open("README.md").read().splitlines()
if len(readme) > 120 or max(map(len, readme)) > 100:
    wrong += f"README.md has {len(readme)} lines of up to {max(map(len, readme))} characters: 120 of 100 are its room"
sys.exit(wrong or 0)
PY
