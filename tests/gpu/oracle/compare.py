#!/usr/bin/env python3
"""compare.py [--name NAME] [--json FILE] LOGS DATABASES - holds vramscope's recordings against what CUPTI saw: calls, bytes, totals.

LOGS: a folder of oracle-PID.log files; DATABASES: of the same processes' *.db; or one file each. Calls are compared thread by
thread, in order; bytes are MEMORY2 records. Exit status 1 if one is missed, extra, wrong or out of order without one of the NAMED
reasons, 2 where there is nothing to compare.
"""
import argparse
import collections
import glob
import json
import os
import sys

from memory import compare_bytes, static_bytes
from recording import Recording
from witness import Log, Witness

# Differences that have a reason.  Each is a test of one difference (side: missed, extra, wrong, misordered) and says
# why it is none; whatever no test takes is a failure.  A test must name what it means: no "any call of this kind".
NAMED = [
    ("vramscope's own thread",
     "the sampler's thread asks the driver for its figure; its calls are not the program's",
     lambda side, event, process: side == "missed" and process.threads.get(event.tid) in ("vramscope", "vramscope-nvml")),
    ("refused because the driver is gone",
     "destructors unload code after the driver has deinitialised itself (status 4, CUDA_ERROR_DEINITIALIZED); CUPTI went with "
     "it and tells no call any more.  No call that the driver answered in another way may come after",
     lambda side, event, process: side == "extra" and event.status == DEINITIALIZED and process.after_the_driver(event)),
    ("the call that the process died in",
     "what gives back is recorded before the call; the process was killed in it, before CUPTI told that it began",
     lambda side, event, process: side == "extra" and event.op == "free" and process.died_in(event)),
]
DEINITIALIZED = 4


# ---- calls ----

def key(event):
    function = "" if event.op in ("map", "bind", "unbind") else event.function  # whose events name no function
    return (event.op, function, event.address, event.status)


LOOK = 200  # how far apart two sides may run before they are no longer held to be the same place
SURE = 3    # calls in a row that must be the same to say so


def meet(a, i, b, j):
    """The nearest place after (i, j) where both sides go on alike: (how many of a to leave out, how many of b)."""
    for distance in range(1, LOOK):
        for x in range(distance + 1):
            here, there = a[i + x:i + x + SURE], b[j + distance - x:j + distance - x + SURE]
            if here and here == there:
                return x, distance - x
    return 1, 1


def align(theirs, ours):
    """Pairs of what is the same on both sides in order, and what is left on each.

    Programs repeat themselves thousands of times, so a longest common subsequence would take hours: both sides are
    walked through together, and where they part the nearest place is looked for where they meet again.  What one side
    does not have at all is taken out before."""
    keys_a, keys_b = {key(e) for e in theirs}, {key(e) for e in ours}
    left_a, left_b = [e for e in theirs if key(e) not in keys_b], [e for e in ours if key(e) not in keys_a]
    theirs, ours = [e for e in theirs if key(e) in keys_b], [e for e in ours if key(e) in keys_a]
    a, b = [key(e) for e in theirs], [key(e) for e in ours]
    i, j, pairs = 0, 0, []
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            pairs.append((theirs[i], ours[j]))
            i, j = i + 1, j + 1
            continue
        x, y = meet(a, i, b, j)
        left_a += theirs[i:i + x]
        left_b += ours[j:j + y]
        i, j = i + x, j + y
    return pairs, left_a + theirs[i:], left_b + ours[j:]


def take_same(left, right, sameness):
    """Takes out of both lists what is the same by SAMENESS; returns the pairs."""
    waiting = collections.defaultdict(collections.deque)
    for event in right:
        waiting[sameness(event)].append(event)
    pairs, rest = [], []
    for event in left:
        queue = waiting[sameness(event)]
        if queue:
            pairs.append((event, queue.popleft()))
        else:
            rest.append(event)
    taken = {id(b) for _, b in pairs}
    return pairs, rest, [e for e in right if id(e) not in taken]


def places(events, paired):
    """For each event after how many of the paired ones it comes: one call told in two ways has one place."""
    place, count = {}, 0
    for event in events:
        place[id(event)] = count
        count += id(event) in paired
    return place


class Differences:
    """What the comparison of one process found, as (side, event, other side's event)."""

    def __init__(self, process):
        self.process, self.matched, self.found = process, collections.Counter(), []
        self.matched_bytes = collections.Counter()

    def match(self, theirs, ours):
        if theirs.size is not None and theirs.size != ours.size:
            self.found.append(("wrong", theirs, ours))
            return
        self.matched[theirs.op, theirs.function] += 1
        self.matched_bytes[theirs.op, theirs.function] += ours.size or 0

    def thread(self, theirs, ours):
        pairs, left, right = align(theirs, ours)
        for pair in pairs:
            self.match(*pair)
        place = places(theirs, {id(a) for a, _ in pairs}) | places(ours, {id(b) for _, b in pairs})
        swapped, theirs, ours = take_same(left, right, key)
        self.found += [("misordered", a, b) for a, b in swapped]
        for what in (lambda e: (place[id(e)], e.op, e.function, e.address),
                     lambda e: (place[id(e)], e.op, e.function, e.size, e.status)):
            wrong, theirs, ours = take_same(theirs, ours, what)
            self.found += [("wrong", a, b) for a, b in wrong]
        return theirs, ours

    def leftovers(self, theirs, ours):
        moved, theirs, ours = take_same(theirs, ours, key)
        for a, b in moved:  # a thread that has no id in the recording any more may stand under none
            if b.tid is None:
                self.match(a, b)
            else:
                self.found.append(("other thread", a, b))
        self.found += [("missed", e, None) for e in theirs] + [("extra", e, None) for e in ours]

    def unnamed(self):
        return [d for d in self.found if reason(d, self.process) is None]


def reason(difference, process):
    side, event, _ = difference
    return next((name for name, _, test in NAMED if test(side, event, process)), None)


def by_thread(events):
    threads = collections.defaultdict(list)
    for event in events:
        threads[event.tid].append(event)
    return threads


def compare_calls(process):
    result = Differences(process)
    theirs, ours = by_thread(process.expected), by_thread(process.recorded)
    left, right = [], []
    for tid in sorted(set(theirs) | set(ours), key=str):
        a, b = result.thread(theirs.get(tid, []), ours.get(tid, [])) if tid is not None else ([], ours[tid])
        left += a
        right += b
    result.leftovers(left, right)
    return result


# ---- totals ----

def totals(events):
    """Per kind of memory: [bytes allocated in sum, bytes alive at the end]."""
    sums, live = collections.defaultdict(lambda: [0, 0]), {}
    for e in events:
        if e.status != 0 or e.address in (0, None):
            continue
        if e.op == "alloc":
            live[e.address] = (e.space, e.size or 0)
            sums[e.space][0] += e.size or 0
            sums[e.space][1] += e.size or 0
        elif e.op == "free" and e.address in live:
            space, size = live.pop(e.address)
            sums[space][1] -= size
        elif e.op == "phys_create":
            sums["physical " + (e.space or "?")][0] += e.size or 0
    return sums


# ---- processes ----

class Process:
    def __init__(self, pid, log, recording):
        witness = Witness(log) if log else None
        self.pid = pid
        self.threads = log.threads if log else {}
        self.ended = log.ended if log else True
        self.expected = witness.events if witness else []
        self.skipped = witness.skipped if witness else collections.Counter()
        self.unexamined = witness.unexamined if witness else collections.Counter()
        self.activities = [a for a in log.activities if a.pid == pid] if log else []
        self.layers, self.mipmapped, self.relaunched = (witness.layers, witness.mipmapped, witness.relaunched) if witness else ({}, [], {})
        self.recorded = recording.events if recording else []
        self.memory = recording.memory_events() if recording else []
        self.place = {id(e): i for i, e in enumerate(self.recorded)}
        self.last_answer = max((i for i, e in enumerate(self.recorded) if e.status != DEINITIALIZED), default=-1)
        self.lost = recording.lost if recording else 0
        self.problems = list(log.errors) if log else [f"process {pid}: the oracle was not in it, but it has a recording"]
        if self.lost:
            self.problems.append(f"process {pid}: vramscope lost {self.lost} events: {'; '.join(recording.losses)}")
        if log and not recording and self.expected:
            self.problems.append(f"process {pid}: moved memory and has no recording")


    def died_in(self, event):
        return not self.ended and self.place.get(id(event)) == len(self.recorded) - 1

    def after_the_driver(self, event):
        return self.place.get(id(event), -1) > self.last_answer


def files(path, pattern):
    return sorted(glob.glob(os.path.join(path, pattern))) if os.path.isdir(path) else [path]


def processes(logs, databases):
    logs = {log.pid: log for log in map(Log, files(logs, "oracle-*.log")) if log.pid is not None}
    recordings = {r.pid: r for r in map(Recording, files(databases, "*.db"))}
    return [Process(pid, logs.get(pid), recordings.get(pid)) for pid in sorted(set(logs) | set(recordings))]


# ---- the result ----

SIDES = ("missed", "extra", "wrong", "misordered", "other thread")


def summary(name, compared):
    """One dictionary for all processes of a program."""
    functions = collections.defaultdict(lambda: collections.Counter())
    named, skipped, unexamined, kinds = collections.Counter(), collections.Counter(), collections.Counter(), {}
    problems, examples, statics, sums = [], [], 0, {"cupti": {}, "vramscope": {}}
    for process, result, table in compared:
        for (op, function), n in result.matched.items():
            functions[function or op]["matched"] += n
            functions[function or op]["bytes"] += result.matched_bytes[op, function]
        for difference in result.found:
            why = reason(difference, process)
            side, event, other = difference
            if why:
                named[why] += 1
                continue
            functions[event.function or event.op][side] += 1
            functions[event.function or event.op]["missed bytes"] += (event.size or 0) if side == "missed" else 0
            examples.append(f"{side}: {show(event)}" + (f"; recorded {show(other)}" if other else ""))
        skipped.update(process.skipped)
        unexamined.update(process.unexamined)
        problems += process.problems
        statics += static_bytes(process)
        add_bytes(kinds, table[0])
        named.update(table[1])
        for side, events in (("cupti", process.expected), ("vramscope", process.recorded)):
            for space, (allocated, live) in totals(events).items():
                entry = sums[side].setdefault(str(space), [0, 0])
                entry[0] += allocated
                entry[1] += live
    calls = {side: sum(f[side] for f in functions.values()) for side in ("matched",) + SIDES}
    clean = not any(calls[side] for side in SIDES) and not unexamined and not problems
    byte_misses = sum(k["allocs"][1] + k["allocs"][2] + k["frees"][1] + k["frees"][2] for k in kinds.values())
    return {"program": name, "processes": len(compared), "calls": calls, "functions": {f: dict(c) for f, c in sorted(functions.items())},
            "bytes": kinds, "static_bytes": statics, "totals": sums, "named": dict(named), "no_event_expected": dict(skipped),
            "unexamined": dict(unexamined), "problems": problems, "examples": examples[:40],
            "ok": clean and not byte_misses and calls["matched"] > 0}


def add_bytes(kinds, table):
    for kind, row in table.items():
        entry = kinds.setdefault(kind, dict(allocs=[0, 0, 0], bytes=[0, 0, 0], frees=[0, 0, 0], examples=[]))
        for field in ("allocs", "bytes", "frees"):
            entry[field] = [x + y for x, y in zip(entry[field], row[field])]
        entry["examples"] = (entry["examples"] + row["examples"])[:10]


def show(event):
    size = "" if event.size is None else f" size {event.size}"
    where = "?" if event.address is None else f"{event.address:#x}"
    return f"{event.op} {event.function} {where}{size} status {event.status} thread {event.tid}"


def mib(n):
    return f"{n / 2**20:.1f}"


def print_table(s):
    print(f"== {s['program']}: {s['processes']} process(es), {'OK' if s['ok'] else 'DIFFERS'}")
    print(f"{'function':34} {'matched':>8} {'missed':>7} {'extra':>6} {'wrong':>6} {'order':>6} {'MiB':>11} {'missed MiB':>11}")
    for function, c in s["functions"].items():
        print(f"{function:34} {c.get('matched', 0):8} {c.get('missed', 0):7} {c.get('extra', 0):6} {c.get('wrong', 0):6} "
              f"{c.get('misordered', 0) + c.get('other thread', 0):6} {mib(c.get('bytes', 0)):>11} {mib(c.get('missed bytes', 0)):>11}")
    print(f"{'CUPTI MEMORY2':34} {'matched':>8} {'missed':>7} {'extra':>6} {'frees':>8} {'missed':>7} {'extra':>6} {'MiB':>11}")
    for kind, row in sorted(s["bytes"].items()):
        a, f = row["allocs"], row["frees"]
        print(f"  {kind:32} {a[0]:8} {a[1]:7} {a[2]:6} {f[0]:8} {f[1]:7} {f[2]:6} {mib(row['bytes'][0]):>11}")
        for example in row["examples"]:
            print("      " + example)
    for space in sorted(set(s["totals"]["cupti"]) | set(s["totals"]["vramscope"])):
        a, b = s["totals"]["cupti"].get(space, [0, 0]), s["totals"]["vramscope"].get(space, [0, 0])
        print(f"  total {space:26} CUPTI's calls {mib(a[0])} MiB, alive at the end {mib(a[1])}; vramscope {mib(b[0])}, {mib(b[1])}")
    print(f"  device-static memory by CUPTI {mib(s['static_bytes'])} MiB (code's own: in the residual)")
    for title in ("named", "no_event_expected", "unexamined"):
        for what, n in sorted(s[title].items()):
            print(f"  {title.replace('_', ' ')}: {n} x {what}")
    for line in s["problems"] + s["examples"]:
        print("  ! " + line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs")
    parser.add_argument("databases")
    parser.add_argument("--name", default="program")
    parser.add_argument("--json", help="also written there")
    args = parser.parse_args()
    compared = [(p, compare_calls(p), compare_bytes(p)) for p in processes(args.logs, args.databases)]
    compared = [row for row in compared if row[0].expected or row[0].recorded or row[0].problems]
    if not compared:
        print(f"compare.py: no logs in {args.logs} and no recordings in {args.databases} that say anything")
        return 2
    result = summary(args.name, compared)
    print_table(result)
    print(json.dumps(result))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
