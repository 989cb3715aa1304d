#!/usr/bin/env python3
"""The comparison of tests/gpu/oracle finds what it is there to find: every kind of planted difference, in hand-made logs
and databases, fails; the same thing on both sides passes."""
import os
import shutil
import sqlite3
import sys
import tempfile
import time

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
sys.path.insert(0, os.path.join(TOP, "tests/gpu/oracle"))
sys.dont_write_bytecode = True
import compare  # noqa: E402
import coverage  # noqa: E402
from recording import Recording  # noqa: E402

OPS = {"alloc": 1, "free": 2, "free_failed": 3, "phys_create": 4, "phys_retain": 5, "phys_release": 6, "map": 7, "unmap": 8,
       "va_reserve": 9, "va_free": 10, "set_access": 11, "graph_node": 13, "context_create": 16, "context_destroy": 17,
       "module_unload": 19, "pool_reserved": 12, "limit": 23, "context_freed": 53}
SPACES = {"none": 0, "device": 1, "pool": 2, "managed": 3, "pinned": 4, "registered": 5, "array": 9, "graph": 10}
FAILED = []


class Database:
    """A recording of one process, as the store writes it, row by row."""

    def __init__(self, path, pid=100, tids=(100, 101)):
        self.db = sqlite3.connect(path)
        with open(os.path.join(TOP, "shim/trace/schema.sql")) as f:
            self.db.executescript(f.read())
        self.seq, self.apis, self.tids = 0, {}, {}
        self.db.execute("INSERT INTO meta(key, value) VALUES('start_monotonic_ns', 1000)")
        self.db.execute("INSERT INTO process(id, pid) VALUES(1, ?)", (pid,))
        self.db.executemany("INSERT INTO op VALUES(?, ?)", [(n, name) for name, n in OPS.items()])
        self.db.executemany("INSERT INTO space VALUES(?, ?)", [(n, name) for name, n in SPACES.items()])
        for i, tid in enumerate(tids, 1):
            self.tids[tid] = i
            self.db.execute("INSERT INTO thread(id, process, tid) VALUES(?, 1, ?)", (i, tid))

    def event(self, op, api, address, size=0, status=0, tid=100, space="device", mate=0, reserved=0):
        self.seq += 1
        number = self.apis.setdefault(api, len(self.apis) + 1) if api else 0
        self.db.execute("INSERT OR IGNORE INTO api VALUES(?, ?)", (number, api))
        self.db.execute("INSERT INTO kind VALUES(?, 1, ?, ?, 0, 0, ?, ?, 0, NULL)", (self.seq, number, SPACES[space], self.tids.get(tid, 999), status))
        self.db.execute("INSERT INTO ev VALUES(?, ?, ?, 0, 0, ?, ?, ?, 0, 0, ?, 0, 0, ?)",
                        (self.seq, self.seq * 10, OPS[op], self.seq, -address if address % 512 else address // 512,
                         -size if size % 512 else size // 512, mate, -2 * reserved - 2))  # schema.sql: b512, x2m
        return self.seq

    def done(self):
        self.db.commit()
        self.db.close()


class Logged:
    def __init__(self, path, pid=100):
        self.file, self.seq = open(path, "w"), 0
        self.line(f"H 1 {pid} 26")

    def line(self, text):
        self.file.write(text + "\n")

    def call(self, name, *values, status=0, tid=100, before=False, inside=()):
        """One call; INSIDE: lines of resources that happened in it, with S for its number."""
        self.seq += 1
        words = "".join(f" {v:x}" for v in values)
        if before:
            self.line(f"B {self.seq:x} {tid} {name}{words}")
        for text in inside:
            self.line(text.replace("S", f"{self.seq:x}"))
        self.line(f"R {self.seq:x} {status:x}" if before else f"C {self.seq:x} {tid} {name} {status:x}{words}")

    def memory(self, op, kind, address, size, pid=100):
        self.line(f"A {op} {kind} {address:x} {size:x} {pid} 0 1 7 0 0 0 0 -")

    def done(self, ended=True):
        if ended:
            self.line("Z 10 0")
        self.file.close()


def run(plant):
    """PLANT(log, db) writes both sides; gives the summary."""
    folder = tempfile.mkdtemp()
    try:
        log, db = Logged(folder + "/oracle-100.log"), Database(folder + "/a.db")
        plant(log, db)
        if not log.file.closed:
            log.done()
        db.done()
        rows = [(p, compare.compare_calls(p), compare.compare_bytes(p)) for p in compare.processes(folder, folder)]
        return compare.summary("test", rows)
    finally:
        shutil.rmtree(folder)


def check(name, plant, ok=False, **counts):
    result = run(plant)
    wrong = [f"{side} is {result['calls'][side]}, not {n}" for side, n in counts.items() if result["calls"][side] != n]
    if result["ok"] != ok:
        wrong.append(f"passed: {result['ok']}; {result['examples']} {result['problems']} {result['bytes']}")
    print(("FAIL  " if wrong else "ok    ") + name + ("" if not wrong else ": " + "; ".join(wrong)))
    FAILED.extend(wrong)
    return result


# ---- both sides of one thing ----

def allocate(log, db, address=0x700000, size=4096, tid=100, ours=True, our_size=None, theirs=True, bytes_=True):
    if theirs:
        log.call("cuMemAlloc_v2", address, size, tid=tid)
        if bytes_:
            log.memory(1, 3, address, size)
    if ours:
        db.event("alloc", "cuMemAlloc_v2", address, our_size or size, tid=tid)


def release(log, db, address=0x700000, tid=100):
    log.call("cuMemFree_v2", address, tid=tid, before=True)
    log.memory(2, 3, address, 4096)
    db.event("free", "cuMemFree_v2", address, 4096, tid=tid)


def everything(log, db):
    log.call("cuDevicePrimaryCtxRetain", 0x5550, 0, inside=("K S 100 + 5550",))
    db.event("context_create", "cuDevicePrimaryCtxRetain", 0x5550)
    log.call("cuDevicePrimaryCtxRetain", 0x5550, 0)
    for i in range(300):
        allocate(log, db, 0x700000 + i * 8192)
        release(log, db, 0x700000 + i * 8192)
    log.call("cuMemAlloc_v2", 0, 1 << 44, status=2)
    db.event("alloc", "cuMemAlloc_v2", 0, 1 << 44, status=2)
    log.call("cuMemFree_v2", 0, before=True)
    log.call("cuMemFree_v2", 0x1230, before=True, status=1)
    freed = db.event("free", "cuMemFree_v2", 0x1230)
    db.event("free_failed", None, 0x1230, status=1, mate=freed)
    log.call("cuMemCreate", 0x99, 1 << 21, 1 << 32)
    db.event("phys_create", "cuMemCreate", 0x99, 1 << 21)
    log.call("cuMemMap", 0x900000, 1 << 21, 0, 0x99)
    db.event("map", None, 0x900000, 1 << 21)
    log.call("cuMemRelease", 0x99, before=True)
    db.event("phys_release", "cuMemRelease", 0x99)
    log.memory(1, 3, 0x900000, 1 << 21)  # from the map to the unmap, whenever the handle is released
    log.memory(2, 3, 0x900000, 1 << 21)
    log.call("cuMemUnmap", 0x900000, 1 << 21, before=True)
    db.event("unmap", "cuMemUnmap", 0x900000, 1 << 21)
    log.call("cuMemPoolTrimTo", 0x44, 0, before=True)


def captured(log, db):
    """Values of an asynchronous call: address, size, stream, and the graph that the stream is captured into."""
    log.call("cuMemAllocAsync", 0x800000, 2048, 7, 0x6660)
    db.event("graph_node", "cuMemAllocAsync", 0x800000, 2048)
    log.call("cuMemAllocAsync", 0x900000, 512, 7, 0x6660)
    db.event("graph_node", "cuMemAllocAsync", 0x900000, 512)
    log.call("cuMemFreeAsync", 0x800000, 7, 0x6660, before=True)
    db.event("graph_node", "cuMemFreeAsync", 0x800000)
    log.call("cuGraphInstantiateWithFlags", 0x6666, 0x6660, 0)


def relaunched(log, db, flags=0):
    """A launch that finds its memory alive is refused, or with AUTO_FREE_ON_LAUNCH (1) frees it first."""
    captured(log, db)
    log.call("cuGraphInstantiateWithFlags", 0x6667, 0x6660, flags)
    log.call("cuGraphLaunch", 0x6667, 7)
    db.event("alloc", "cuGraphLaunch", 0x900000, 512, space="graph")
    log.call("cuGraphLaunch", 0x6667, 7, status=0 if flags else 1)
    if flags:
        db.event("free", "cuGraphLaunch", 0x900000, 512)
        db.event("alloc", "cuGraphLaunch", 0x900000, 512, space="graph")
    log.memory(1, 3, 0x900000, 512)  # CUPTI tells a launch that frees and allocates the same no second time


def other_graph_frees(log, db):
    launched(log, db, freed=False)
    log.call("cuGraphAddMemFreeNode", 0x900000, 0x7770)
    db.event("graph_node", "cuGraphAddMemFreeNode", 0x900000)
    log.call("cuGraphInstantiateWithFlags", 0x7777, 0x7770, 0)
    log.call("cuGraphLaunch", 0x7777, 7)
    db.event("free", "cuGraphLaunch", 0x900000, 512)
    log.memory(2, 3, 0x900000, 512)


def contexts(log, db):
    log.call("cuCtxCreate_v4", 0x4440, 0, inside=("K S 100 + 4440",))
    db.event("context_create", "cuCtxCreate_v4", 0x4440)
    log.call("cuCtxCreate_v4", 0, 99, status=101)
    db.event("context_create", "cuCtxCreate_v4", 0, status=101)
    log.call("cuCtxDestroy_v2", 0x4440, before=True, inside=("K S 100 - 4440",))
    db.event("context_destroy", "cuCtxDestroy_v2", 0x4440)
    log.call("cuDevicePrimaryCtxRetain", 0x5550, 0, inside=("K S 100 + 5550",))
    db.event("context_create", "cuDevicePrimaryCtxRetain", 0x5550)
    log.call("cuDevicePrimaryCtxRelease_v2", 0, before=True)
    log.call("cuDevicePrimaryCtxReset_v2", 0, before=True, inside=("K S 100 - 5550",))
    db.event("context_destroy", "cuDevicePrimaryCtxReset_v2", 0x5550)


def handle_of_another_graph(log, db):
    """A destroyed graph's handle is given to a graph without memory: launching that one allocates nothing."""
    captured(log, db)
    log.call("cuGraphDestroy", 0x6660, before=True)
    log.call("cuGraphInstantiateWithFlags", 0x6669, 0x6660, 0)
    log.call("cuGraphLaunch", 0x6669, 7)


def graph_memory(log, db, recorded=64 << 20):
    """CUPTI tells what a device's graphs reserve without an address; the recording has it as a figure."""
    launched(log, db)
    for op in (1, 1, 2, 2):
        log.memory(op, 3, 0, 32 << 20)
    db.event("pool_reserved", None, 1, recorded, space="graph")
    db.event("pool_reserved", None, 1, 0, space="graph")


def arrays(log, db, layers=6, level=1024, freed=True):
    """A layered array by one of its layers, a mipmapped one by its levels, at handles of their own."""
    log.call("cuArray3DCreate_v2", 0xa000, 6144, 1, layers)
    log.memory(1, 4, 0xa000, 1024)
    db.event("alloc", "cuArray3DCreate_v2", 0xa000, 6144, space="array")
    log.call("cuMipmappedArrayCreate", 0xb000, 5120, 0, 1)
    db.event("alloc", "cuMipmappedArrayCreate", 0xb000, 5120, space="array")
    for op in (1, 2) if freed else (1,):
        log.memory(op, 4, 0xb100, 4096)
        log.memory(op, 4, 0xb200, level)
    log.call("cuMipmappedArrayDestroy", 0xb000, before=True)
    db.event("free", "cuMipmappedArrayDestroy", 0xb000, 5120, space="array")


def registered(log, db):
    log.call("cuMemHostRegister_v2", 0xc000, 4096, 0)
    log.memory(1, 2, 0xc000, 4096)
    db.event("alloc", "cuMemHostRegister_v2", 0xc000, 4096, space="registered")


def end_of_a_context(log, db, ours=True, again=True):
    """What was in it is freed; what was alive before was told once more when it came."""
    contexts(log, db)
    allocate(log, db, 0xd000)
    if again:
        log.memory(1, 3, 0xd000, 4096)
    log.memory(2, 3, 0xd000, 4096)
    if ours:
        db.event("context_freed", None, 0xd000, 4096)


def torn_down(log, db, status=4, more=False):
    everything(log, db)
    seq = db.event("module_unload", "cuLibraryUnload", 0xe000)
    db.event("free_failed", None, 0xe000, status=status, mate=seq)
    if more:
        allocate(log, db)


def killed_inside(log, db, begun=True, ended=False, last=True):
    everything(log, db)
    if begun:
        log.line("B 999 100 cuMemFree_v2 1230")
    db.event("free", "cuMemFree_v2", 0x1230)
    if not last:
        db.event("alloc", "cuMemAlloc_v2", 0, 1 << 44, status=2)
    log.done(ended=ended)


def launched(log, db, ours=True, freed=True):
    captured(log, db)
    log.call("cuGraphLaunch", 0x6666, 7)
    if ours:
        db.event("alloc", "cuGraphLaunch", 0x900000, 512, space="graph")
    if ours:
        log.memory(1, 3, 0x900000, 512)
    if freed:
        log.call("cuMemFreeAsync", 0x900000, 7, before=True)
        db.event("free", "cuMemFreeAsync", 0x900000, 512)
        if ours:
            log.memory(2, 3, 0x900000, 512)


def planted():
    check("the same on both sides passes", everything, ok=True, missed=0, extra=0, wrong=0, misordered=0)
    check("an allocation that only CUPTI saw is missed", lambda l, d: (everything(l, d), allocate(l, d, ours=False)), missed=1)
    check("an allocation that only the recording has is extra",
          lambda l, d: (everything(l, d), allocate(l, d, theirs=False)), extra=1)
    check("one miss among hundreds is one miss",
          lambda l, d: [allocate(l, d, 0x700000 + i * 4096, ours=i != 150) for i in range(300)], missed=1, matched=299)
    check("a wrong size is wrong", lambda l, d: allocate(l, d, our_size=8192), wrong=1, missed=0, extra=0)
    check("a wrong address is wrong", lambda l, d: (allocate(l, d, 0x1000, ours=False), allocate(l, d, 0x2000, theirs=False)), wrong=1)
    check("a wrong status is wrong", lambda l, d: (l.call("cuMemAlloc_v2", 0, 4096, status=2),
                                                   d.event("alloc", "cuMemAlloc_v2", 0, 4096, status=3)), wrong=1)
    check("another function is not the same call", lambda l, d: (l.call("cuMemAlloc_v2", 0x7000, 4096), l.memory(1, 3, 0x7000, 4096),
                                                                 d.event("alloc", "cuMemAllocManaged", 0x7000, 4096)), missed=1, extra=1)
    check("a wrong order is out of order", lambda l, d: (
        allocate(l, d, 0x1000, ours=False), allocate(l, d, 0x2000), allocate(l, d, 0x1000, theirs=False)), misordered=2, missed=0)
    check("another thread is not the same thread", lambda l, d: (
        allocate(l, d, ours=False), allocate(l, d, theirs=False, tid=101)), **{"other thread": 1})
    check("a thread beyond the recording's ids is found all the same",
          lambda l, d: (everything(l, d), l.call("cuMemAllocHost_v2", 0x11000, 512, tid=555), l.memory(1, 2, 0x11000, 512),
                        d.event("alloc", "cuMemAllocHost_v2", 0x11000, 512, tid=555, space="pinned")), ok=True)
    check("threads are each in their own order", lambda l, d: (
        allocate(l, d, 0x1000, ours=False), allocate(l, d, 0x2000, tid=101), allocate(l, d, 0x1000, theirs=False)), ok=True)


def bytes_and_others():
    check("a MEMORY2 record without an event is missed bytes", lambda l, d: (everything(l, d), l.memory(1, 2, 0x5000, 64)))
    check("an event without a MEMORY2 record is extra bytes", lambda l, d: (everything(l, d), allocate(l, d, 0x3000, bytes_=False)))
    check("a MEMORY2 record of another size is a difference", lambda l, d: (
        allocate(l, d, 0x3000, bytes_=False), l.memory(1, 3, 0x3000, 8192)))
    check("device-static memory stands apart", lambda l, d: (everything(l, d), l.memory(1, 6, 0x5000, 1 << 24)), ok=True)
    check("a function that nobody knows is a difference", lambda l, d: (everything(l, d), l.line("U 999 100 cuMemConjure")))
    check("what CUPTI dropped is a difference", lambda l, d: (everything(l, d), l.line("E 3 activity records dropped by CUPTI")))
    check("a captured allocation is a node", captured, ok=True)
    check("a launch allocates what outlives it", launched, ok=True)
    check("a launch whose memory is not recorded is missed", lambda l, d: launched(l, d, ours=False), missed=1)
    check("a launch that finds its memory alive allocates nothing", relaunched, ok=True)
    check("AUTO_FREE_ON_LAUNCH frees and allocates anew", lambda l, d: relaunched(l, d, flags=1), ok=True)
    check("a launch frees what another graph allocated", other_graph_frees, ok=True)
    check("the handle of a destroyed graph is another graph's", handle_of_another_graph, ok=True)
    check("what graphs reserve is the same figure", graph_memory, ok=True)
    check("what graphs reserve must be the same figure", lambda l, d: graph_memory(l, d, 32 << 20))
    check("layers and levels sum up to the array", arrays, ok=True)
    check("layers that do not sum up to the array differ", lambda l, d: arrays(l, d, layers=5))
    check("levels that do not sum up to the array differ", lambda l, d: arrays(l, d, level=512))
    check("a level that is not freed differs", lambda l, d: arrays(l, d, freed=False))
    check("registered host memory is pinned by MEMORY2", registered, ok=True)
    check("a mapping that MEMORY2 does not know differs", lambda l, d: (l.call("cuMemMap", 0x900000, 4096, 0, 9),
                                                                       d.event("map", None, 0x900000, 4096)))
    check("a context's end frees what was in it", end_of_a_context, ok=True)
    check("a context's end that frees nothing differs", lambda l, d: end_of_a_context(l, d, ours=False))
    check("a record told again may be told only while it lives", lambda l, d: (end_of_a_context(l, d), l.memory(1, 3, 0xd000, 4096)))
    check("calls refused because the driver is gone have a name", torn_down, ok=True)
    check("calls refused for another reason do not", lambda l, d: torn_down(l, d, status=1), extra=1)
    check("calls refused before the driver's last answer do not", lambda l, d: torn_down(l, d, more=True), extra=1)
    check("a call that never came back is compared as it began", killed_inside, ok=True)
    check("a call that CUPTI was not told of may be the one that a process died in", lambda l, d: killed_inside(l, d, begun=False), ok=True)
    check("but only where it died", lambda l, d: killed_inside(l, d, begun=False, ended=True), extra=1)
    check("and only its last one", lambda l, d: killed_inside(l, d, begun=False, last=False), extra=2)
    check("contexts begin and end where CUPTI saw it", contexts, ok=True)
    check("a context that no function made is missed", lambda l, d: (everything(l, d), l.line("K 0 100 + 7770")), missed=1)
    check("vramscope's own thread asks for itself", lambda l, d: (
        everything(l, d), l.line("T 777 vramscope-nvml"), l.call("cuDevicePrimaryCtxRetain", 0x88, 0, tid=777, inside=("K S 777 + 88",))), ok=True)
    check("a log cut off by a kill compares up to there", lambda l, d: (everything(l, d), l.line("C 99"), l.done(ended=False)), ok=True)
    check("nothing at all is no success", lambda l, d: None)


def repeated(log, db):
    """20,000 calls on few addresses, as a caching program makes them, with one thing gone here and there."""
    for i in range(10000):
        address = 0x700000 + i % 3 * 8192
        allocate(log, db, address, ours=i not in (17, 5000, 9999), theirs=i != 7000)
        if i not in (17, 9999):
            release(log, db, address)


def long_runs():
    began = time.process_time()
    check("a few misses among 20,000 repeated calls are those, and found soon", repeated, missed=3, extra=1, wrong=0, misordered=0)
    took = time.process_time() - began
    print(f"{'ok    ' if took < 15 else 'FAIL  '}the comparison of 20,000 calls took {took:.1f} s")
    FAILED.extend([] if took < 15 else ["too slow"])
    check("hundreds of calls in a row that only one side has", lambda l, d: (
        everything(l, d), [allocate(l, d, 0x10000000 + i * 4096, ours=False) for i in range(500)], release(l, d, 0x999000)), missed=500)


def lone_sides():
    for name, spare in (("a process without a recording", "a.db"), ("a recording without an oracle", "oracle-100.log")):
        folder = tempfile.mkdtemp()
        log, db = Logged(folder + "/oracle-100.log"), Database(folder + "/a.db")
        everything(log, db)
        log.done()
        db.done()
        os.remove(os.path.join(folder, spare))
        status = os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f"{sys.executable} {TOP}/tests/gpu/oracle/compare.py {folder} {folder} >{folder}/out 2>&1")
        print(("ok    " if status == 1 else "FAIL  ") + name + " fails")
        FAILED.extend([] if status == 1 else [open(folder + "/out").read()])
        shutil.rmtree(folder)


def residual():
    """used 1000 MiB = reserved 300 + context 500 + limits 100 + unexplained 100, of which 64 are allowed."""
    folder, mib = tempfile.mkdtemp(), 1 << 20
    db = Database(folder + "/a.db")
    db.event("context_create", "cuDevicePrimaryCtxRetain", 0x10, 500 * mib)
    db.event("limit", "cuCtxSetLimit", 0, 100 * mib)
    db.event("alloc", "cuMemAlloc_v2", 0x20, 300 * mib, reserved=300 * mib)
    db.event("alloc", "cuMemAlloc_v2", 0x30, 50 * mib, reserved=350 * mib)  # after the mark
    db.done()
    fact = {"pid": 100, "t_ns": 1035, "device": 0, "process_used": 1000 * mib, "device_used": None, "counters": {}}
    for used, ok in ((1000, False), (950, True), (830, False)):
        row = coverage.residual(folder + "/a.db", {100: dict(fact, process_used=used * mib)})
        good = row["reserved"] == 300 * mib and row["unexplained"] == (used - 900) * mib and row["ok"] == ok
        print(("ok    " if good else "FAIL  ") + f"{used} MiB used leaves {used - 900} unexplained: {'within' if ok else 'beyond'} what is allowed")
        FAILED.extend([] if good else [str(row)])
    assert Recording(folder + "/a.db").pid == 100
    shutil.rmtree(folder)


def four_runs(folder, name, spoil=None):
    """What oracle.sh leaves of one program; SPOIL(folder) makes one of its runs different."""
    for way in ("plain", "cupti", "shim", "oracle"):
        place = os.path.join(folder, name, way)
        os.makedirs(place)
        for file, text in (("stdout", "a result\n"), ("stderr", ""), ("status", "0\n"), ("ms", "1234\n")):
            with open(os.path.join(place, file), "w") as f:
                f.write(text)
        if way in ("plain", "cupti"):
            continue
        log, db = Logged(place + ("/oracle-100.log" if way == "oracle" else "/stderr")), Database(place + "/a.db")
        db.event("context_create", "cuDevicePrimaryCtxRetain", 0x5550, 500 << 20)
        log.call("cuDevicePrimaryCtxRetain", 0x5550, 0, inside=("K S 100 + 5550",))
        allocate(log, db)
        log.done()
        db.done()
    with open(os.path.join(folder, name, "shim/facts-100.json"), "w") as f:
        f.write('{"pid": 100, "t_ns": 2000, "device": 0, "process_used": %d, "device_used": 1, "counters": {}}' % (510 << 20))
    if spoil:
        spoil(os.path.join(folder, name))


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def whole_table():
    spoilers = {
        "good": None,
        "an_end_that_cupti_brings_about": lambda d: [write(d + way + "/status", "139\n") for way in ("/cupti", "/oracle")],
        "an_end_beside_cupti_alone": lambda d: write(d + "/cupti/status", "139\n"),
        "another_output": lambda d: write(d + "/shim/stdout", "another result\n"),
        "another_status": lambda d: write(d + "/oracle/status", "1\n"),
        "too_much_unexplained": lambda d: write(d + "/shim/facts-100.json", '{"pid": 100, "t_ns": 2000, "device": 0, '
                                                '"process_used": %d, "device_used": 1, "counters": {}}' % (700 << 20)),
        "no_mark": lambda d: os.remove(d + "/shim/facts-100.json"),
        "no_log": lambda d: os.remove(d + "/oracle/oracle-100.log"),
        "no_database": lambda d: os.remove(d + "/oracle/a.db"),
        "no_good_database": lambda d: write(d + "/oracle/a.db", "this is no database, and longer than a header " * 10),
    }
    for name, spoil in spoilers.items():
        folder, out = tempfile.mkdtemp(), tempfile.mkdtemp()
        four_runs(folder, name, spoil)
        status = os.spawnlp(os.P_WAIT, "sh", "sh", "-c",
                            f"{sys.executable} {TOP}/tests/gpu/oracle/coverage.py {folder} {out} {name} >{out}/said 2>&1")
        with open(out + "/said") as f:
            said = f.read()
        passes = spoil is None or name == "an_end_that_cupti_brings_about"
        good = status == (0 if passes else 1) and os.path.exists(out + "/coverage.md") and "Traceback" not in said
        print(("ok    " if good else "FAIL  ") + f"the table of a run with {name.replace('_', ' ')} {'passes' if passes else 'fails'}")
        FAILED.extend([] if good else [f"{name}: status {status}: {said}"])
        shutil.rmtree(folder)
        shutil.rmtree(out)


planted()
bytes_and_others()
long_runs()
lone_sides()
residual()
whole_table()
for line in FAILED:
    print("  ! " + line)
sys.exit(bool(FAILED))
