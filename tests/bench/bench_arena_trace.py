#!/usr/bin/env python3
"""bench_arena_trace.py SNAPSHOT.pickle [DEVICE] > TRACE: a PyTorch memory snapshot as input for bench_arena_replay.

The trace may begin in the middle of a run, so it is rewound from the end to find what was live at its first event.
Output: "N ALL" (how many events of ALL only set up that state), then "a ID SIZE STREAM" or "f ID" a line.
"""
import pickle
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


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as f:
        snapshot = Plain(f).load()
    traces = snapshot["device_traces"]
    device = int(sys.argv[2]) if len(sys.argv) > 2 else max(range(len(traces)), key=lambda d: len(traces[d]))
    print("\n".join(convert(snapshot, device)))


main()
