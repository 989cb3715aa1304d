#!/usr/bin/env python3
"""export_read.py [part] RECORDING.db PEAK.json FORMAT EXPORT [FORMAT EXPORT...] - reads exports by the formats' own definitions and by nothing
of ours.

At the peak they must have the bytes that PEAK.json (`vramscope peak --json`) says; part: stretches of a run, which need not have the peak.
Prints a line for each; a difference is an AssertionError.
"""
import collections
import csv
import gzip
import io
import json
import pickle
import sqlite3
import sys


def wanted(path):
    """{device: bytes} as vramscope peak says."""
    devices = json.load(open(path))["files"][0]["devices"]
    return {d["device"]: d["known_bytes"] for d in devices if d["known_bytes"]}


def chosen(db, peaks):
    """Which rows were exported: all, or where one device was asked for (-d) those of it."""
    devices = {d for d, in db.execute("SELECT device FROM peak WHERE kind = 'allocated' AND device >= 0 AND known_bytes IS NULL AND peak_bytes > 0")}
    return f"device IN ({','.join(map(str, peaks))})" if len(peaks) < len(devices) else "1"


def same(got, peaks):
    got = {d: n for d, n in got.items() if n or peaks.get(d)}
    assert got == peaks, f"exported {got}, vramscope peak says {peaks}"
    return ", ".join(f"device {d} {n}" for d, n in sorted(got.items()))


# ---- Protocol Buffers ----

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field: an int, or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
            assert len(value) == n, "cut off"
        yield tag >> 3, value


def message(data):
    out = collections.defaultdict(list)
    for number, value in fields(data):
        out[number].append(value)
    return out


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def packed(data):
    at, out = 0, []
    while at < len(data):
        value, at = varint(data, at)
        out.append(value)
    return out


# ---- the formats ----

def read_folded(path, db, peaks):
    sums = collections.Counter()
    only = next(iter(peaks)) if len(peaks) == 1 else None
    for line in open(path, encoding="utf-8", newline="\n"):
        stack, _, number = line.rstrip("\n").rpartition(" ")
        frames = stack.split(";")
        assert all(frames), f"an empty frame: {line!r}"
        device = only if only is not None else int(frames[0].split()[1])
        sums[device] += int(number)
    return same(sums, peaks)


def read_pprof(path, db, peaks):
    profile = message(gzip.open(path).read())
    texts = [t.decode("utf-8") for t in profile[6]]
    assert texts[0] == ""
    types = [[texts[message(t)[k][0]] for k in (1, 2)] for t in profile[1]]
    assert types == [["inuse_objects", "count"], ["inuse_space", "bytes"]], types
    assert texts[profile[14][0]] == "inuse_space"
    functions = {message(f)[1][0]: message(f) for f in profile[5]}
    locations = {message(m)[1][0]: message(m) for m in profile[4]}
    assert len(functions) == len(profile[5]) and len(locations) == len(profile[4]) and 0 not in locations
    for m in locations.values():
        f = functions[message(m[4][0])[1][0]]
        assert texts[f[2][0]] and f[4][0] < len(texts)
    sums = collections.Counter()
    for data in profile[2]:
        sample = message(data)
        ids, (count, space) = packed(sample[1][0]), packed(sample[2][0])
        assert ids and all(i in locations for i in ids)
        labels = {texts[message(x)[1][0]]: texts[message(x)[2][0]] for x in sample[3]}
        assert labels["device"].startswith("cuda:")
        sums[int(labels["device"][5:])] += space
        assert space > 0 and (count > 0 or len(ids) == 1)
    return same(sums, peaks)


def rows_of(path):
    text = open(path, encoding="utf-8", newline="").read()
    assert text.endswith("\r\n")
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert all(len(r) == len(rows[0]) for r in rows), "lines of different lengths"
    return [dict(zip(rows[0], r)) for r in rows[1:]]


IN_TOTALS = ("device", "pool", "array", "graph", "arena")


def read_csv(path, db, peaks):
    rows = rows_of(path)
    if rows and "alloc_seq" in rows[0]:
        (count,), = db.execute(f"SELECT count(*) FROM allocation WHERE {chosen(db, peaks)}")
        assert len(rows) == count, f"{len(rows)} rows of {count} allocations"
        sums = {}
        for device, seq in db.execute(f"SELECT device, seq FROM peak WHERE kind = 'allocated' AND seq > 0 AND {chosen(db, peaks)}"):
            # that it was a caching allocator's, was seen after the peak
            late = {str(s) for s, in db.execute("SELECT seq FROM amend WHERE op = 50 AND by_seq > ?", (seq,))}
            sums[device] = sum(int(r["size_bytes"]) for r in rows if int(r["device"]) == device and int(r["alloc_seq"]) <= seq
                               and (not r["free_seq"] or int(r["free_seq"]) > seq) and (r["managed"] == "0" or r["alloc_seq"] in late)
                               and (r["op"] == "block_alloc" or r["space"] in IN_TOTALS))
            (base,), = db.execute("SELECT coalesce(sum(size_bytes), 0) FROM live_at_peak WHERE device = ? AND category = 'before recording'",
                                  (device,))
            sums[device] += base
        return same(sums, peaks)
    (count,), = db.execute(f"SELECT count(*) FROM event WHERE {chosen(db, peaks)}")
    assert len(rows) == count, f"{len(rows)} rows of {count} events"
    sums = collections.Counter()
    for r in rows:
        if int(r["device"]) >= 0:
            sums[int(r["device"])] = max(sums[int(r["device"])], int(r["framework_bytes"]) + int(r["direct_bytes"]))
    return same(sums, peaks)


def read_perfetto(path, db, peaks):
    data = open(path, "rb").read()
    tracks, events, interned, first, starts = {}, [], collections.defaultdict(dict), True, None
    for number, raw in fields(data):
        assert number == 1
        packet = message(raw)
        assert len(packet[10]) == 1 and packet[13] == [3 if first else 2], "the packets' sequence"
        starts = starts or packet[10][0]
        assert packet[10][0] == starts and 0 < starts < 1 << 32
        first = False
        for raw_track in packet[60]:
            track = message(raw_track)
            uuid = track[1][0]
            assert uuid and uuid not in tracks, "a track twice"
            assert all(p in tracks for p in track[5]), "a track before its parent"
            tracks[uuid] = track
        for raw_interned in packet[12]:
            for kind, raw_entry in fields(raw_interned):
                entry = message(raw_entry)
                assert entry[1][0] > 0 and entry[1][0] not in interned[kind], "an iid twice"
                if kind == 6:
                    assert entry[2][0] in interned[5] and all(p in interned[18] for p in entry[5])
                elif kind == 7:
                    assert entry[2] and all(f in interned[6] for f in entry[2])
                else:
                    entry[2][0].decode("utf-8")
                interned[kind][entry[1][0]] = entry
        for raw_event in packet[11]:
            event = message(raw_event)
            assert event[11][0] in tracks, "an event before its track"
            assert all(n in interned[2] for n in event[10]) and all(c in interned[7] for c in event[56])
            assert len(event[31]) == len(event[12]) and all(t in tracks for t in event[31])
            events.append((packet[8][0], event))
    events.sort(key=lambda e: e[0])  # stable, as the reader does
    name = {u: t[2][0].decode() if t[2] else "" for u, t in tracks.items()}
    parent = {u: t[5][0] if t[5] else None for u, t in tracks.items()}
    device_of = {u: int(name[parent[u]].split(":")[0].split()[1]) for u in tracks if name[u].startswith(("allocated", "reserved"))}
    depth, most, instants = collections.Counter(), collections.defaultdict(collections.Counter), collections.Counter()
    slices = collections.Counter()
    for _, event in events:
        uuid, kind = event[11][0], event[9][0]
        values = list(zip(event[31], event[12]))
        if kind == 1:
            depth[uuid] += 1
            slices[event[22][0].decode(), interned[2][event[10][0]][2][0].decode()] += 1
        elif kind == 2:
            depth[uuid] -= 1
            assert depth[uuid] >= 0, "an end without its begin"
        elif kind == 3:
            instants[interned[2][event[10][0]][2][0].decode()] += 1
        else:
            assert kind == 4
            values = [(uuid, event[30][0])]
        for track, value in values:
            assert tracks[track][8], "a value of a track that is no counter"
            assert message(tracks[track][8][0])[3] == [3], "the unit is not bytes"
            if track in device_of:
                kind_of = "reserved" if name[track] == "reserved" else "allocated"
                most[kind_of][device_of[track]] = max(most[kind_of][device_of[track]], signed(value))
    if not db.execute("SELECT 1 FROM stretch WHERE folded > 0 OR unwritten > 0").fetchone():
        (count,), = db.execute("SELECT count(*) FROM ev e JOIN kind k ON k.id = e.kind WHERE e.op = 20 AND e.device >= 0 AND k.status = 0 "
                              f"AND {chosen(db, peaks)}")
        assert instants["framework block"] == count, f"{instants} of {count} blocks"
        reserved = dict(db.execute("SELECT device, peak_bytes FROM peak WHERE kind = 'reserved' AND peak_bytes > 0 AND device >= 0 "
                                   f"AND {chosen(db, peaks)}"))
        assert {d: n for d, n in most["reserved"].items() if n} == reserved, f"reserved {most['reserved']}, not {reserved}"
        for phase, ranges in db.execute(  # names that are escaped are another test's
                "SELECT (SELECT name FROM phase WHERE id = r.phase), count(*) FROM rng r WHERE phase > 0 GROUP BY 1"):
            assert not phase.isprintable() or slices["phase", phase] == ranges, f"{slices} of {ranges} ranges {phase}"
    return same(most["allocated"], peaks) + f"; {sum(instants.values())} instants, {sum(slices.values())} slices"


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise AssertionError(f"a class: {module}.{name}")


class Segments:
    """Segments as a viewer keeps them; addresses to [size, stream]."""

    def __init__(self, at=()):
        self.at = dict(at)

    def alloc(self, e):
        assert e["addr"] not in self.at, "a segment twice"
        self.at[e["addr"]] = [e["size"], e["stream"]]

    def free(self, e):
        assert self.at.pop(e["addr"], None) == [e["size"], e["stream"]], f"no such segment: {e}"

    def map(self, e):
        begin, end = e["addr"], e["addr"] + e["size"]
        for addr, (size, stream) in sorted(self.at.items()):
            if stream == e["stream"] and (addr + size == begin or addr == end):
                begin, end = min(begin, addr), max(end, addr + size)
                del self.at[addr]
        self.at[begin] = [end - begin, e["stream"]]

    def unmap(self, e):
        begin, end = e["addr"], e["addr"] + e["size"]
        (addr, (size, stream)), = [(a, s) for a, s in self.at.items() if a <= begin and end <= a + s[0]]
        del self.at[addr]
        if addr < begin:
            self.at[addr] = [begin - addr, stream]
        if end < addr + size:
            self.at[end] = [addr + size - end, stream]

    def holds(self, addr, size):
        return any(a <= addr and addr + size <= a + s for a, (s, _) in self.at.items())

    def total(self):
        return sum(s for s, _ in self.at.values())


def check_end(snapshot, device, segments, blocks):
    """The segments at the end, which their blocks tile, are what the events lead to."""
    found, live = {}, {}
    for s in snapshot["segments"]:
        if s["device"] != device:
            continue
        at = s["address"]
        for b in s["blocks"]:
            assert b["address"] == at and b["size"] > 0, "blocks do not tile their segment"
            if b["state"] == "active_allocated":
                live[at] = b["requested_size"]
                assert 0 < b["requested_size"] <= b["size"]
                assert b["requested_size"] == b["size"] or "size_is_block" not in b, "a size that is the request and is not"
            at += b["size"]
        assert at == s["address"] + s["total_size"], "blocks do not fill their segment"
        assert s["allocated_size"] == sum(b["size"] for b in s["blocks"] if b["state"] == "active_allocated")
        found[s["address"]] = [s["total_size"], s["stream"]]
    assert found == segments.at, "the segments at the end are not those of the events"
    assert live == blocks, "the blocks at the end are not those of the events"


def check_host(snapshot):
    held = {}
    for e in snapshot["host_traces"]:
        assert e["pool_id"] == (0, 0) and e["stream"] == 0 and isinstance(e["time_us"], int), e
        if e["action"] == "segment_alloc":
            held[e["addr"]] = e["size"]
        elif e["action"] == "segment_free":
            held.pop(e["addr"], None)
    end = {s["address"]: s["total_size"] for s in snapshot["host_segments"]}
    assert held.items() <= end.items(), "host memory that is not there at the end"
    assert all(s["device"] == -1 and s["active_size"] == s["total_size"] == sum(b["size"] for b in s["blocks"]) for s in snapshot["host_segments"])


def read_pytorch(path, db, peaks, whole=True):
    with open(path, "rb") as f:
        snapshot = Plain(f).load()
        assert not f.read(1)
    sums, moves, categories = {}, 0, set()
    do = {"segment_alloc": "alloc", "segment_free": "free", "segment_map": "map", "segment_unmap": "unmap"}
    for device, trace in enumerate(snapshot["device_traces"]):
        segments, blocks, pending, total, most, flat = Segments(), {}, None, 0, 0, 0
        for e in trace:
            assert all(set(f) == {"filename", "line", "name"} and isinstance(f["line"], int) for f in e["frames"])
            assert isinstance(e["time_us"], int) and isinstance(e["stream"], int)
            assert isinstance(e["user_metadata"], str) and e["compile_context"] == "N/A" and len(e.get("pool_id", (0, 0))) == 2
            categories |= {e["category"]} if "category" in e else set()
            action = e["action"]
            if action in do:
                getattr(segments, do[action])(e)
                flat += {"segment_alloc": 1, "segment_free": -1}.get(action, 0) * e["size"]
                moves += action == "segment_map"
                if action in ("segment_free", "segment_unmap"):
                    assert all(segments.holds(a, n) for a, n in blocks.items() if e["addr"] <= a < e["addr"] + e["size"]), \
                        "a block in no segment"
            elif action == "alloc":
                assert e["addr"] not in blocks and segments.holds(e["addr"], e["size"]), f"a block in no segment: {e}"
                blocks[e["addr"]] = e["size"]
                total += e["size"]
                most = max(most, total)
            elif action == "free_requested":
                pending = e["addr"]
            elif action == "free_completed":
                assert pending == e["addr"] and blocks.pop(e["addr"]) == e["size"], f"no such block: {e}"
                total -= e["size"]
            else:
                assert action in ("oom", "snapshot"), action
                assert action != "oom" or isinstance(e["device_free"], int)
        assert flat == segments.total(), "who reads only segment_alloc and segment_free sees another sum"
        check_end(snapshot, device, segments, blocks)
        if trace:
            sums[device] = most
    assert not categories or "unknown" in categories, "the page of PyTorch fails where no category is unknown"
    annotations, open_, last = snapshot["external_annotations"], collections.Counter(), 0
    for a in annotations:
        assert set(a) - {"phase", "time_ns"} == {"name", "stage", "device", "time_us"} and a["time_us"] >= last, a
        last = a["time_us"]
        open_[a["name"]] += {"START": 1, "END": -1}[a["stage"]]
        assert open_[a["name"]] >= 0, f"END before START of {a['name']}"
    check_host(snapshot)
    assert snapshot["allocator_settings"] == {"expandable_segments": moves > 0}
    return (same(sums, peaks) if whole else "part") + f"; {sum(map(len, snapshot['device_traces']))} events"


if __name__ == "__main__":
    arguments = sys.argv[1:]
    more = {"whole": False} if arguments[0] == "part" else {}
    recording, peak, *exports = arguments[len(more):]
    database = sqlite3.connect(f"file:{recording}?mode=ro", uri=True)
    for form, export in zip(exports[::2], exports[1::2]):
        try:
            print(form, globals()["read_" + form](export, database, wanted(peak), **more))
        except Exception:
            print(f"{form}, {export}:")
            raise
