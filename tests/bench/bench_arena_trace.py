#!/usr/bin/env python3
"""bench_arena_trace.py FILE [DEVICE] > TRACE: what a run asked of its allocator, for bench_arena_replay (which has the format). FILE
is a PyTorch memory snapshot (pickle), rewound from the end to find what was live at its first event, or a recording of a run under
the arena.
"""
import pickle
import sqlite3
import sys


class Plain(pickle.Unpickler):
    """A snapshot is lists, dicts, numbers and text: anything else is refused."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"a snapshot has no {module}.{name}")


def live_at_end(snapshot, device):
    live = {}
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if segment["device"] == device and block["state"] == "active_allocated":
                live[block.get("address", address)] = (block.get("requested_size", block["size"]), segment["stream"])
            address += block["size"]
    return live


def live_at_start(events, live):
    live = dict(live)
    for e in reversed(events):
        if e["action"] == "alloc":
            live.pop(e["addr"], None)
        elif e["action"] == "free_requested":
            live[e["addr"]] = (e["size"], e["stream"])
    return live


def convert(snapshot, device):
    events = snapshot["device_traces"][device]
    number, lines = {}, []
    streams = {}

    def allocate(address, size, stream):
        number[address] = allocate.next
        allocate.next += 1
        lines.append(f"a {number[address]} {size} {streams.setdefault(stream, len(streams))}")

    allocate.next = 0
    for address, (size, stream) in sorted(live_at_start(events, live_at_end(snapshot, device)).items()):
        allocate(address, size, stream)
    first = len(lines)
    for e in events:
        if e["action"] == "alloc":
            allocate(e["addr"], e["size"], e["stream"])
        elif e["action"] == "free_requested" and e["addr"] in number:
            lines.append(f"f {number.pop(e['addr'])}")
    return [f"{first} {len(lines)}"] + lines


def of_snapshot(path, device):
    with open(path, "rb") as f:
        snapshot = Plain(f).load()
    traces = snapshot["device_traces"]
    return convert(snapshot, max(range(len(traces)), key=lambda d: len(traces[d])) if device is None else device)


def why_not(db):
    """What a replay of this recording could not be exact for."""
    if db.execute("SELECT count(*) FROM loss").fetchone()[0]:
        return "events are missing in it (table loss)"
    if db.execute("SELECT count(*) FROM arena WHERE number > 1").fetchone()[0]:
        return "its device had several arenas, one after the other"
    if db.execute("SELECT count(*) FROM event WHERE space = 'arena' AND op = 'alloc' AND status <> 0").fetchone()[0]:
        return "memory ran out in it, and the replay has no end of memory"
    return None


def of_recording(path, device):
    """Blocks of the space arena, whoever got them, in the order of the recording."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    if why_not(db):
        sys.exit(f"{path}: can't be replayed: {why_not(db)}")
    streams, lines = {}, []
    for seq, op, api, stream, size, mate in db.execute(
        "SELECT seq, op, api, stream, size_bytes, mate FROM event WHERE space = 'arena' AND status = 0 AND device = ?"
        " AND op IN ('alloc', 'block_alloc', 'free', 'block_free') ORDER BY seq",
        (device or 0,),
    ):
        told = op.startswith("block") or "Async" in (api or "")
        on = streams.setdefault(stream, len(streams)) if told else "any"
        lines.append(f"a {seq} {size} {on}" if op.endswith("alloc") else f"f {mate} {on}")
    return [f"0 {len(lines)}"] + lines


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as f:
        recording = f.read(15) == b"SQLite format 3"
    device = int(sys.argv[2]) if len(sys.argv) > 2 else None
    print("\n".join((of_recording if recording else of_snapshot)(sys.argv[1], device)))


main()
