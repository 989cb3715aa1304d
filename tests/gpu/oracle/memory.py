"""CUPTI's own account of the bytes, MEMORY2, held against a recording's.

MEMORY2 has fewer kinds than there are: virtual memory is "device" at the mapped address, registered host memory is "pinned", what
graphs have reserved comes without an address. Where it counts in a way of its own, one rule each below takes what meets its exact
condition.
"""
import collections

KINDS = {1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "device static", 7: "managed static"}
STATIC = ("device static", "managed static")
SPACE_KINDS = {"device": "device", "pool": "device", "graph": "device", "pinned": "pinned", "registered": "pinned",
               "array": "array", "managed": "managed"}
GRAPHS = "graphs' reserve"

AGAIN = "MEMORY2: CUPTI tells once more what is alive, when another context comes"
RELAUNCH = "MEMORY2: CUPTI tells no free and no allocation where a launch frees its memory and makes it again at the same address"
LAYERS = "MEMORY2: CUPTI counts one layer of a layered array"
LEVELS = "MEMORY2: CUPTI tells the levels of a mipmapped array, whose sizes sum up to ours"

Row = collections.namedtuple("Row", "is_alloc kind address size")


def static_bytes(process):
    return sum(a.size * (1 if a.op == 1 else -1) for a in process.activities if KINDS.get(a.kind) in STATIC)


# ---- the two sides ----

def ours(process):
    live, rows = {}, []
    for op, address, size, status, space in process.memory:
        if status != 0 or op == "pool_reserved":
            continue
        if op in ("alloc", "map"):
            kind = SPACE_KINDS.get(space)
            live[op, address] = kind
        else:
            kind = live.pop(("map" if op == "unmap" else "alloc", address), None)
        if kind:
            rows.append(Row(op in ("alloc", "map"), kind, address, size if op in ("alloc", "map") else 0))
    return rows


def theirs(process):
    """In the order of CUPTI's records; what graphs have reserved apart, and code's static data left out."""
    rows, reserve = [], []
    for a in process.activities:
        kind = KINDS.get(a.kind, f"kind {a.kind}")
        if kind == "device" and a.address == 0:
            reserve.append(a.size if a.op == 1 else -a.size)
        elif kind not in STATIC and kind != "pageable":
            rows.append((Row(a.op == 1, kind, a.address, a.size if a.op == 1 else 0), a.size))
    return rows, reserve


# ---- CUPTI's ways of counting ----

def whole_layers(rows, layers, named):
    result = []
    for row, size in rows:
        if row.is_alloc and row.kind == "array" and row.address in layers:
            row = row._replace(size=row.size * layers[row.address])
            named[LAYERS] += 1
        result.append((row, size))
    return result


def whole_mipmaps(rows, mipmapped, known, named):
    """Puts the array in the place of its levels: arrays that no call returned, in the order of the arrays."""
    waiting, first_of, gone, result = list(mipmapped), {}, collections.Counter(), []
    levels, total = [], 0
    for row, size in rows:
        if row.kind != "array" or row.address in known:
            result.append(row)
        elif not row.is_alloc and row.address in first_of:
            array, count = first_of.pop(row.address)
            gone[array] += 1
            if gone[array] == count:
                result.append(Row(False, "array", array, 0))
        elif row.is_alloc and waiting:
            levels.append(row)
            total += row.size
            if total == waiting[0][1]:
                result.append(Row(True, "array", *waiting[0]))
                first_of.update((level.address, (waiting[0][0], len(levels))) for level in levels)
                named[LEVELS] += len(levels)
                gone[waiting.pop(0)[0]] = 0
                levels, total = [], 0
            elif total > waiting[0][1]:
                result += levels
                levels, total = [], 0
        else:
            result.append(row)
    return result + levels


def told_again(rows):
    """How often each row came while CUPTI itself had it alive."""
    live, again = {}, collections.Counter()
    for row in rows:
        at = (row.kind, row.address)
        if row.is_alloc and live.get(at) == row.size:
            again[row] += 1
        if row.is_alloc:
            live[at] = row.size
        else:
            live.pop(at, None)
    return again


def take(counts, row, at_most, named, name):
    n = min(counts[row], at_most)
    if n > 0:
        counts[row] -= n
        named[name] += n


def by_rules(process, named):
    """Both sides as counts of what neither a rule nor the other side explains, and what agrees."""
    rows, reserve = theirs(process)
    known = {row.address for row in ours(process) if row.kind == "array"}
    rows = whole_layers(rows, process.layers, named)
    rows = whole_mipmaps(rows, process.mipmapped, known, named)
    a, b = collections.Counter(rows), collections.Counter(ours(process))
    same = a & b
    a, b = a - same, b - same
    for row, n in told_again(rows).items():
        take(a, row, n, named, AGAIN)
    for (address, size), n in process.relaunched.items():
        take(b, Row(True, "device", address, size), n, named, RELAUNCH)
        take(b, Row(False, "device", address, 0), n, named, RELAUNCH)
    return same, a, b, reserve


def reserve_moves(process):
    """By how much the recorded figure of the graphs' reserve rose in sum, and fell."""
    at, up, down = {}, 0, 0
    for op, address, size, _, space in process.memory:
        if op == "pool_reserved" and space == "graph":
            step = size - at.get(address, 0)
            at[address] = size
            up, down = up + max(0, step), down + max(0, -step)
    return up, down


def empty():
    return dict(allocs=[0, 0, 0], bytes=[0, 0, 0], frees=[0, 0, 0], examples=[])


def compare_reserve(process, reserve, table):
    """Its size is a figure that is asked for after each launch: so the sums are compared."""
    recorded = reserve_moves(process)
    told = (sum(n for n in reserve if n > 0), -sum(n for n in reserve if n < 0))
    for field, seen, had, records in zip(("allocs", "frees"), told, recorded, (
            sum(n > 0 for n in reserve), sum(n < 0 for n in reserve))):
        if seen == had == 0:
            continue
        entry = table[GRAPHS]
        entry[field][0] += records if seen == had else 0
        entry[field][1] += seen > had
        entry[field][2] += seen < had
        if field == "allocs":
            for i, n in enumerate((min(seen, had), max(0, seen - had), max(0, had - seen))):
                entry["bytes"][i] += n
        if seen != had:
            entry["examples"].append(f"{field}: {seen} bytes by CUPTI, {had} recorded")


def compare_bytes(process):
    """({kind: count and bytes that agree, CUPTI's alone, ours alone; frees: counts}, {rule: count})."""
    table, named = collections.defaultdict(empty), collections.Counter()
    *sides, reserve = by_rules(process, named)
    for i, side in enumerate(sides):
        for row, n in side.items():
            entry = table[row.kind]
            entry["allocs" if row.is_alloc else "frees"][i] += n
            entry["bytes"][i] += n * row.size
            if i and n:
                entry["examples"].append(f"{'alloc' if row.is_alloc else 'free'} {row.address:#x} {row.size} {('', 'missed', 'extra')[i]}")
    compare_reserve(process, reserve, table)
    return table, named
