"""torch_agrees_check.py FACTS DATABASE [EXPORT IMPORT] - holds a recording of torch_agrees.py, its export, and PyTorch's own snapshot imported
against PyTorch's counters and its history.
"""
import collections
import json
import os
import pickle
import sqlite3
import sys

with open(sys.argv[1]) as file:
    facts = json.load(file)
db = sqlite3.connect(sys.argv[2])
born = {row[0]: row[1:] for row in db.execute("SELECT alloc_seq, free_seq, op, managed, request_bytes, address, size_bytes FROM allocation")}
seq_of = dict(db.execute("SELECT s.text, m.seq FROM moment m JOIN string s ON s.id = m.name"))
failed = collections.Counter()
WRAPPERS = "/vramscope/python/vramscope/"  # those of calls are in no stack


def same(what, recorded, theirs):
    if recorded != theirs:
        failed[what] += 1
        if isinstance(theirs, list) and len(theirs) > 9:  # what differs, in their order
            recorded, theirs = [n for n in recorded if n not in theirs][:9], [n for n in theirs if n not in recorded][:9]
        if failed[what] <= 3:
            print(f"{what}: {recorded} was recorded, and PyTorch says {theirs}")


def counters():
    """What lives and what is reserved at each figure, the most of both since the figure before, and how often memory ran out."""
    before, held = 0, [0, 0]  # what libraries take of the driver lies in the arena where there is one, too
    for name, *theirs in facts["figures"]:
        rows = db.execute("SELECT framework_bytes, reserved_bytes - direct_bytes * (1 - ?) FROM event WHERE device = 0 AND seq > ? AND seq < ?"
                          " AND op NOT IN ('mark', 'step') ORDER BY seq", (facts["arena"], before, seq_of[name])).fetchall() or [held]
        now = [n for i in (0, 1) for n in (rows[-1][i], max(held[i], *(r[i] for r in rows)))]
        ooms = db.execute("SELECT count(*) FROM event WHERE op = 'oom' AND seq < ?", (seq_of[name],)).fetchone()
        same(f"counters at {name}", [*now, *ooms], theirs)
        before, held = seq_of[name], rows[-1]
    return len(facts["figures"])


def roles():
    """Of several roles of one storage the first in this order; nothing else has one."""
    order, wanted = ["parameter", "gradient", "optimizer state", "buffer"], {}
    for address, _, role in facts["roles"]:
        wanted[address] = min(role, wanted.get(address, role), key=order.index)
    end, said = seq_of["snapshot"], []
    for seq, role in db.execute("SELECT alloc_seq, role FROM framework_says"):
        last, _, _, _, address, _ = born[seq]
        if seq < end and not (last and last < end):
            said.append((address, role))
    same("roles", sorted(said), sorted(wanted.items()))
    return len(wanted)


def one_to_one(what, pairs):
    """Names may differ: each of ours is one of theirs, and the other way round."""
    same(f"{what}, one name each", len(set(pairs)), len({b for _, b in pairs}))
    same(f"{what}, each one name", len(set(pairs)), len({a for a, _ in pairs}))


def python_frames(stack, cache={0: []}):
    """Innermost first, what ran before a node of autograd (the rest is the forward that made it): file and line."""
    if stack not in cache:
        parent, kind, file, line = db.execute("SELECT parent, kind, file, f.line FROM stack s JOIN frame f ON f.id = s.frame WHERE s.id = ?", (stack,)).fetchone()
        cache[stack] = [] if kind == 3 else [(file, line)] * (kind == 2 and WRAPPERS not in file) + python_frames(parent)
    return cache[stack]


def history(trace):
    """Each request, free and segment in their order: address, bytes, stream and, of a request, the lines that asked."""
    segments = {seq for first, (last, _, managed, *_) in born.items() if managed for seq in (first, last)}
    ours = [(op, address, size, stream, stack, born[mate if op == "block_free" else seq][3] if op.startswith("block") else None)
            for seq, op, address, size, stream, stack, mate in db.execute(
                "SELECT seq, op, address, size_bytes, stream, stack, mate FROM event WHERE device = 0 AND seq < ? ORDER BY seq", (seq_of["snapshot"],))
            if op in ("block_alloc", "block_free", "oom") or op in ("alloc", "free") and seq in segments]
    names = {"alloc": "block_alloc", "free_requested": "block_free", "segment_alloc": "alloc", "segment_free": "free", "oom": "oom"}
    theirs = [e for e in trace if e["action"] in names]
    same("entries", len(ours), len(theirs))
    streams = []
    for (op, address, size, stream, stack, request), e in zip(ours, theirs):
        same("history", (op, address, request or e["size"]), (names[e["action"]], e.get("addr", address), e["size"]))
        if op == "block_alloc":
            streams.append((stream, e["stream"]))
            same("lines", python_frames(stack), [(f["filename"], f["line"]) for f in e["frames"] if WRAPPERS not in f["filename"]])
    one_to_one("streams", streams)
    return len(theirs)


def segments(of):
    """What lives at the end, with the pool that it is of."""
    end = seq_of["snapshot"]
    live = [(address, size, request, seq, op, managed) for seq, (last, op, managed, request, address, size) in born.items() if seq < end and not (last and last < end)]
    live.sort(key=lambda row: row[0])
    theirs = [(b["address"], b["size"], b["requested_size"]) for s in of for b in s["blocks"] if b["state"] == "active_allocated"]
    ours = [row for row in live if row[4] == "block_alloc"]
    asked = {address: request for address, _, request in theirs}
    same("blocks", [(a, n, r or asked.get(a)) for a, n, r, *_ in ours], sorted(theirs))
    if not any(s["is_expandable"] for s in of):
        same("segments", [row[:2] for row in live if row[4] == "alloc" and row[5]], sorted((s["address"], s["total_size"]) for s in of))
    pool, pool_of = 0, {}
    for seq, op, address in db.execute("SELECT seq, op, address FROM event WHERE op IN ('pool_begin', 'pool_end', 'block_alloc') ORDER BY seq"):
        if op == "block_alloc":
            pool_of[seq] = pool
        else:
            pool = address if op == "pool_begin" else 0
    theirs = {b["address"]: tuple(s["segment_pool_id"]) for s in of for b in s["blocks"]}
    one_to_one("pools", [(pool_of[seq], theirs.get(address)) for address, _, _, seq, *_ in ours])
    return len(ours)


def exported(trace, path):
    """The same entries in the same order, but for what libraries took of the driver, which PyTorch knows nothing of; of bytes that no tensor
    was made of the request is not recorded, and theirs is rounded up as the block's is."""
    names = "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom"
    direct = {row[4] for row in born.values() if row[1] == "alloc" and not row[2]}
    theirs = [(e["action"], e.get("addr"), -(-e["size"] // 512)) for e in trace if e["action"] in names]
    with open(path, "rb") as file:
        ours = [(e["action"], e.get("addr"), -(-e["size"] // 512)) for e in pickle.load(file)["device_traces"][0] if e["action"] in names and e.get("addr") not in direct]
    same("exported entries", ours[: len(theirs)], theirs)


def imported(trace, path):
    """The most that was requested at a time, what of it lives at the end, and each request."""
    db, now, most = sqlite3.connect(path), 0, 0
    for e in trace:
        now += {"alloc": e["size"], "free_completed": -e["size"]}.get(e["action"], 0)
        most = max(most, now)
    same("imported peak and end", db.execute("SELECT peak_bytes, end_bytes FROM peak WHERE kind = 'framework'").fetchone(), (most, now))
    same("imported requests", db.execute("SELECT count(*) FROM event WHERE op = 'block_alloc'").fetchone()[0], sum(e["action"] == "alloc" for e in trace))
    same("imported mismatches", db.execute("SELECT count(*) FROM mismatch").fetchone()[0], 0)
    same("imported setting", db.execute("SELECT value FROM meta WHERE key = 'torch_garbage_collection_threshold'").fetchone(), ("0.75",))


said = f"{counters()} figures, {roles()} storages with a role"
if os.path.exists(sys.argv[1] + ".pickle"):
    with open(sys.argv[1] + ".pickle", "rb") as file:
        snapshot = pickle.load(file)
    said += f", {history(snapshot['device_traces'][0])} entries of the history, {segments(snapshot['segments'])} blocks at the end"
    for path, check in zip(sys.argv[3:], (exported, imported)):
        check(snapshot["device_traces"][0], path)
print(said)
sys.exit(len(failed) > 0)
