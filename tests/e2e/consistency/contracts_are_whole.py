#!/usr/bin/env python3
"""Each name and offset of others' code that the shim uses is in a row of contracts.def, and each row is proven or broken somewhere."""

import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[3]
script = root / "scripts/contracts.py"


def fails(why):
    print(f"FAIL: {why}")
    sys.exit(1)


def main():
    result = subprocess.run([sys.executable, script], capture_output=True, text=True)
    if result.returncode:
        fails(result.stdout)
    with tempfile.TemporaryDirectory() as directory:
        planted = pathlib.Path(directory) / "planted.h"
        planted.write_text('#define UNHEARD "_ZN5torch7unheardEv"\n#define NODE_AT 99\n')
        found = subprocess.run([sys.executable, script, planted], capture_output=True, text=True)
    if found.returncode == 0 or "_ZN5torch7unheardEv" not in found.stdout or "NODE_AT=99" not in found.stdout:
        fails(f"a new name and a new offset are not found: {found.stdout}")
    text = "".join(path.read_text() for path in sorted((root / "shim").rglob("*.c")))
    python = "".join(path.read_text() for path in sorted((root / "shim").rglob("*.py")))
    rows = re.findall(r'^VS_CONTRACT\((\w+), "(\w+)", [^"]*"(?:[^"]*)",\s*"([^"]*)', (root / "shim/core/contracts.def").read_text(), re.M)
    for row, name, proof in rows:
        if not proof.startswith("by rule") and f"VS_CONTRACT_{row}" not in text and f'"{name}"' not in python:
            fails(f"nobody says how the proof of {name} went")
    print(f"{result.stdout.strip()}; {len(rows)} rows")


main()
