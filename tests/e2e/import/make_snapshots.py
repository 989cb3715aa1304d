"""make_snapshots.py DIRECTORY - snapshots of random programs, and files that are none, for import.sh and whatif.sh.

Prints, for each that a replay must meet exactly: NAME REQUESTS SEGMENT_EVENTS.
"""
import gzip
import os
import pickle
import sys

from torch_allocator import MIB, POOL, STACKS, Allocator, dump, program

out = sys.argv[1]
SEGMENTS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")


def write(name, allocators, **options):
    skip = options.get("skip", 0)
    dump(os.path.join(out, name + ".pickle"), allocators, **options)
    entries = [e for a in allocators for e in a.trace[skip:]]
    print(name, sum(e["action"] == "alloc" for e in entries), sum(e["action"] in SEGMENTS for e in entries))


def ran(seed, steps=6, **options):
    settings = {k: options.pop(k) for k in list(options) if k in ("capacity", "max_split", "roundup", "expandable", "oldest")}
    a = Allocator(seed=seed, **settings)
    program(a, steps, seed, **options)
    return a


for protocol in (2, 3, 4, 5):
    write(f"native{protocol}", [ran(protocol)], protocol=protocol)
write("streams", [ran(11, streams=(0, 7, 0x55), deferred=0.5)])
write("empty_cache", [ran(12, empty=0.7)])
write("retry", [ran(13, steps=12, capacity=400 * MIB)])
write("split", [ran(18, steps=8, max_split=24 * MIB, capacity=700 * MIB)])
write("roundup", [ran(19, roundup=4)])
write("oldest", [ran(20, steps=10, empty=0.3, oldest=True)])
write("midway", [ran(14, steps=10, deferred=0.3, streams=(0, 3))], skip=333)
write("expandable", [ran(15, expandable=True)])
write("expandable_retry", [ran(16, steps=14, expandable=True, capacity=500 * MIB)])
write("expandable_midway", [ran(17, steps=10, expandable=True, empty=0.3)], skip=300)

# private pools: which, and when one ends, of what was in it only what is left can be known
write("pools", [ran(23, steps=10, streams=(0, 7, POOL, POOL + 7, 2 * POOL), deferred=0.3, empty=0.4)])
write("pools_midway", [ran(24, steps=10, streams=(0, POOL, 2 * POOL))], skip=200)
write("expandable_pools", [ran(25, steps=10, streams=(0, 7, POOL), empty=0.3, expandable=True)])
a = ran(26, streams=(0, POOL, 2 * POOL))
for s in [s for s in a.segments if s.stream == 2 * POOL]:
    for b in [b for b in s.blocks if b.state == "active_allocated"]:
        a.free(b)
a.ended.add(2)
a.release_all()
program(a, 3, 26, streams=(0, POOL))
dump(os.path.join(out, "pool_ended.pickle"), [a])

# the same of the only one: nothing of any is left
a = ran(27, streams=(0, POOL))
for b in [b for s in a.segments if s.stream == POOL for b in s.blocks if b.state == "active_allocated"]:
    a.free(b)
a.ended.add(1)
a.release_all()
program(a, 3, 27)
dump(os.path.join(out, "pool_gone.pickle"), [a])

# two devices; and what else import must take
write("devices", [ran(21), ran(22)])
dump(os.path.join(out, "rank0.pickle"), [ran(31)])
dump(os.path.join(out, "job_rank-1.pickle"), [ran(32)])

# one whose every byte is known: 3 blocks, of which one lived before, a step of three phases
a = Allocator()
before = a.malloc(1000)
first = len(a.trace)
kept = a.malloc(5 * MIB, 0, STACKS["forward"])
gradient = a.malloc(3 * MIB, 0, STACKS["backward"])
a.free(kept)
state = a.malloc(700, 0, STACKS["optimizer"])
a.free(gradient, deferred=True)
next_step = a.malloc(2 * MIB, 0, STACKS["forward"])
a.complete(gradient)
dump(os.path.join(out, "known.pickle"), [a], skip=first)

with open(os.path.join(out, "known.pickle"), "rb") as f:
    good = f.read()
snapshot = pickle.loads(good)

# the same with a profiler's range around the optimizer's step
at = [e["time_us"] for e in snapshot["device_traces"][0] if e.get("size") == 700]
with open(os.path.join(out, "ranged.pickle"), "wb") as f:
    edges = [{"name": "Optimizer.step#SGD.step", "stage": stage, "device": 0, "time_us": at[0] + i} for i, stage in enumerate(("START", "END"))]
    pickle.dump({**snapshot, "external_annotations": edges}, f)


class Evil:
    def __reduce__(self):
        return os.system, ("touch " + os.path.join(out, "evil"),)


def bad(name, data):
    with open(os.path.join(out, name + ".pickle"), "wb") as f:
        f.write(data)


def changed(name, change):
    copy = pickle.loads(good)
    change(copy["device_traces"][0], copy)
    bad(name, pickle.dumps(copy))


def blocks_of(snapshot):
    return [b for s in snapshot["segments"] for b in s["blocks"]]


def without_stacks(trace, snapshot):
    trace.clear()
    for b in blocks_of(snapshot):
        b["frames"] = []


def as_of_2_0(trace, snapshot):
    for b in blocks_of(snapshot):
        frames, size = b.pop("frames"), b.pop("requested_size")
        del b["address"]
        if b["state"] == "active_allocated":
            b["history"] = [{"addr": 0, "real_size": size, "frames": frames}, {"addr": 0, "real_size": 1, "frames": []}]


def high(trace, snapshot):
    for e in trace:
        e["addr"] += 1 << 63
    for x in snapshot["segments"] + blocks_of(snapshot):
        x["address"] += 1 << 63


def qualified(trace, snapshot):
    for f in {id(f): f for e in trace for f in e["frames"]}.values():
        f["name"] = f["name"] if f["name"].startswith("<") or "::" in f["name"] else "Some." + f["name"]


def one_oom(trace, snapshot):
    trace.append({"action": "oom", "size": 1 << 30, "device_free": 300 << 20, "stream": 0, "frames": [], "time_us": trace[-1]["time_us"] + 5})


def state(trace, snapshot):  # what _record_memory_history("state") leaves
    frames = next(e["frames"] for e in trace if e["size"] == 5 * MIB)
    trace.clear()
    for b in blocks_of(snapshot):
        b["frames"] = frames if b["state"] == "active_allocated" else []


def state_no_traces(trace, snapshot):
    state(trace, snapshot)
    snapshot["device_traces"].clear()


def idle(trace, snapshot):  # 1.6 s between the optimizer's step and the next forward
    for e in trace[next(i for i, e in enumerate(trace) if e["action"] == "alloc" and e["size"] == 2 * MIB) :]:
        e["time_us"] += 1600000


changed("idle", idle)
changed("state", state)
changed("state_no_traces", state_no_traces)
changed("old_history", as_of_2_0)
changed("high", high)
changed("qualified", qualified)
changed("one_entry", lambda trace, snapshot: trace.__delitem__(slice(0, len(trace) - 1)))
changed("device_free", one_oom)
changed("bad_unrecorded", without_stacks)
changed("bad_sizeless", lambda trace, snapshot: trace[6].pop("size"))
changed("bad_negative", lambda trace, snapshot: trace[7].update(size=-512))
changed("bad_huge", lambda trace, snapshot: trace[8].update(addr=1 << 80))
changed("bad_segment", lambda trace, snapshot: snapshot["segments"][0].pop("total_size"))
changed("bad_block", lambda trace, snapshot: snapshot["segments"][0]["blocks"][0].update(size="much"))
changed("stopped", lambda trace, snapshot: trace.__delitem__(slice(len(trace) // 2, None)))
changed("one_less", lambda trace, snapshot: trace.remove([e for e in trace if e["action"] == "alloc"][3]))
changed("newer", lambda trace, snapshot: trace.extend([{"action": "segment_shrink", "addr": 512, "size": 512}] * 2))
for e in snapshot["device_traces"][0]:
    del e["time_us"]
bad("untimed", pickle.dumps(snapshot))
for e in snapshot["device_traces"][0]:
    e["frames"] = []
bad("frameless", pickle.dumps(snapshot))
bad("bad_truncated", good[: len(good) // 2])
bad("bad_empty", b"")
bad("bad_text", b"this is no pickle\n")
bad("bad_protocol0", pickle.dumps(snapshot, 0))
bad("bad_evil", pickle.dumps({"segments": [Evil()], "device_traces": []}))
bad("bad_other", pickle.dumps({"some": "dict"}))
bad("bad_list", pickle.dumps([1, 2, 3]))
bad("bad_gzip", gzip.compress(good))
bad("bad_zip", b"PK\3\4" + good)
bad("bad_marks", b"\x80\x04" + b"(" * 1000000)
bad("bad_memo", b"\x80\x04}r\xff\xff\xff\xff.")
shared = b"\x80\x04}(\x8c\rdevice_traces](](" + b"}" * 3000 + b"e\x94" + b"h\x00" * 40 + b"e\x8c\x08segments]u."
bad("bad_shared", shared)
with open(os.path.join(out, "bad_large.pickle"), "wb") as f:
    f.truncate(5 << 30)  # a hole
