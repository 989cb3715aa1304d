"""arena_ddp_verify.py FOLDER - whether the jobs of arena_ddp.sh trained alike, how fast, and what was recorded of each rank."""
import glob
import json
import os
import sqlite3
import statistics
import sys

MIB = 1 << 20


def facts(folder, name):
    try:
        with open(os.path.join(folder, name + ".json")) as file:
            return json.load(file)
    except OSError:
        return None


def recordings(folder, name):
    """A line for each process that was recorded."""
    for path in sorted(glob.glob(os.path.join(folder, name + ".d", "*.db"))):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        rank, = db.execute("SELECT rank FROM process").fetchone()
        for device, allocated, reserved in db.execute("SELECT device, max(allocated_bytes), max(reserved_bytes) FROM timeline GROUP BY device"):
            yield rank, f"{os.path.basename(path)}: rank {rank}, device {device}: allocated {allocated / MIB:.1f} MiB, reserved {reserved / MIB:.1f} MiB"
        db.close()


def main():
    folder, wrong = sys.argv[1], 0
    native = facts(folder, "native")
    for name in ("native", "native-ipc", "arena", "arena-ipc", "arena-under"):
        found = facts(folder, name)
        if not found or not native:
            print(f"FAIL  {name}: it left no facts")
            wrong = 1
            continue
        same = found["losses"] == native["losses"]
        wrong |= not same
        ms = statistics.median(found["step_ms"][5:])
        print(f"{'ok   ' if same else 'FAIL '} {name:12} {len(found['losses'])} losses, the last {found['losses'][-1]:.6f}, "
              f"{'those of native' if same else 'NOT those of native'}; step {ms:.2f} ms; device {found['device_used'] / MIB:.0f} MiB used")
    for name in ("arena", "arena-ipc", "arena-under"):
        lines = list(recordings(folder, name))
        print("\n".join(f"{name}: {line}" for _, line in lines))
        if not {0, 1} <= {rank for rank, _ in lines}:
            print(f"FAIL  {name}: not both ranks were recorded")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
