#!/usr/bin/env python3
"""make_db.py SCHEMA.sql OUT.db [--kind train|oom|empty|killed|thinned] [OPTION...] - a small, exact, deterministic database for the analyzer's
tests.

A toy training goes through a ledger of its own, independent of shim/trace/ledger, into the tables of schema.sql.
"""
import argparse
import re
import sqlite3
import sys

MiB = 1 << 20
OPS = {1: "alloc", 2: "free", 20: "block_alloc", 21: "block_free", 22: "oom", 16: "context_create", 23: "limit",
       24: "overhead", 30: "range_push", 31: "range_pop",
       33: "step", 40: "sample", 50: "reclassify"}
SPACES = {0: "none", 1: "device", 2: "pool", 3: "managed", 4: "pinned", 5: "registered", 6: "host_vmm"}
def x(n, unit=512):
    """The schema's compact bytes: units, or -n where n is no multiple."""
    return n // unit if n % unit == 0 else -n


def x2m(n, direct):
    """Reserved: units of 2 MiB, or so many more than DIRECT, or exactly."""
    if n % (2 * MiB) == 0:
        return n // (2 * MiB)
    return -2 * ((n - direct) // (2 * MiB)) - 1 if n >= direct and (n - direct) % (2 * MiB) == 0 else -2 * n - 2


class Run:
    def __init__(self, schema, out, device_count, kind):
        self.kind_of_run = kind
        self.db = sqlite3.connect(out)
        self.db.executescript(open(schema).read())
        self.db.execute("PRAGMA application_id = 0x76736370")  # VS_APPLICATION_ID
        self.seq = 0
        self.t = 0
        self.rows = []
        self.phases = {"none": 0}
        self.strings = {}
        self.kinds = {}
        self.ranges = []          # open: [id, phase, {device: [alloc, t, reserved]}]
        self.range_rows = {}
        self.range_peaks = []
        self.tot = {d: dict(framework=0, direct=0, reserved=0) for d in range(device_count)}
        self.live = {d: {} for d in range(device_count)}      # handle -> (seq, size, kind, phase, range, stack, t, address)
        self.peaks = {}
        self.at_peak = {}
        self.stats = {}
        self.zones = {}
        self.handle = 0
        self.next_address = 0x7F0000000000
        self.next_range = 0
        self.stack_ids = {}
        self.frame_ids = {}
        self.module_ids = {}
        self.steps = 0
        self.sampled = []
        self.ooms = []
        self.oom_live = []

    def phase_id(self, name):
        return self.phases.setdefault(name, len(self.phases))

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
        return self.strings[text]

    def kind(self, space, status=0, thread=1, managed=0):
        key = (space, status, thread, managed, "cuMemAlloc_v2", 0)
        return self.kinds.setdefault(key, len(self.kinds) + 1)

    def phase(self):
        return self.ranges[-1][1] if self.ranges else 0

    def rid(self):
        return self.ranges[-1][0] if self.ranges else 0

    def stack(self, frames, owner):
        """frames: innermost first, (module path, offset, function) or (Python file, line, function)."""
        parent, line = 0, None
        for file, place, function in reversed(frames):
            if file.endswith(".py"):
                frame = (2, None, None, function, file, place)
            else:
                frame = (1, self.module_ids.setdefault(file, len(self.module_ids) + 1), place, function, None, None)
            f = self.frame_ids.setdefault(frame, len(self.frame_ids) + 1)
            if file.endswith(".py") and "-packages/torch/" not in file:
                line = f
            key = (parent, f)
            if key not in self.stack_ids:
                self.stack_ids[key] = [len(self.stack_ids) + 1, owner, line]
            parent = self.stack_ids[key][0]
        return parent

    def account(self, dev, d):
        """Ranges, phases, device: everything that has a peak."""
        t = self.tot[dev]
        values = dict(allocated=t["framework"] + t["direct"], reserved=t["reserved"], framework=t["framework"],
                      direct=t["direct"], managed_reserved=t["reserved"] - t["direct"])
        for kind, value in values.items():
            p = self.peaks.setdefault((dev, kind), [0, 0, 0, 0])
            if value > p[0]:
                self.peaks[(dev, kind)] = [value, self.seq, self.t, value]
                if kind == "allocated":
                    self.at_peak[dev] = dict(self.live[dev])
            else:
                p[3] = value
        for r in self.ranges:
            rp = r[2].setdefault(dev, [0, 0, 0])
            if values["allocated"] > rp[0]:
                rp[0], rp[2] = values["allocated"], self.t
            rp[1] = max(rp[1], values["reserved"])
        s = self.stats.setdefault((dev, self.phase()), dict(ranges=0, ns=0, events=0, a=0, r=0, end=0, t=0))
        s["events"] += 1
        if values["allocated"] > s["a"]:
            s["a"], s["t"] = values["allocated"], self.t
        s["r"] = max(s["r"], values["reserved"])
        s["end"] = values["allocated"]
        z = self.zones.get((dev, self.phase()))
        if z and z["n"] >= 1000:
            self.close_zone(dev, self.phase())
            z = None
        if z is None:
            z = self.zones[(dev, self.phase())] = dict(n=0, first=self.seq, t0=self.t, amin=1 << 62, amax=-1, tmax=0,
                                                       rmin=1 << 62, rmax=-1)
        a, rs = values["allocated"], values["reserved"]
        z["n"] += 1
        z["last"], z["t1"] = self.seq, self.t
        z["amin"] = min(z["amin"], a)
        if a > z["amax"]:
            z["amax"], z["tmax"] = a, self.t
        z["rmin"], z["rmax"] = min(z["rmin"], rs), max(z["rmax"], rs)
        z["lf"], z["ld"], z["lr"] = t["framework"], t["direct"], t["reserved"]

    def close_zone(self, dev, phase):
        z = self.zones.pop((dev, phase))
        self.db.execute("INSERT INTO zone VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,'[]',?)",
                        (z["first"], z["last"], dev, phase, z["t0"], z["t1"], z["amin"], z["amax"], z["tmax"],
                         z["rmin"], z["rmax"], z["lf"], z["ld"], z["lr"], z["n"], z["t0"], z["t0"], z["t0"], z["rmax"], z["rmin"],
                         1 if self.kind_of_run == "thinned" else None))

    def event(self, op, dev=-1, size=0, address=0, stack=0, mate=0, space=1, status=0, dt=1000, managed=0):
        self.t += dt
        self.seq += 1
        t = self.tot.get(dev, dict(framework=0, direct=0, reserved=0))
        return [self.seq, self.t, op, dev, self.phase(), self.kind(space, status, managed=managed), x(address), x(size), self.rid(), stack,
                mate, x(t["framework"]), x(t["direct"]), x2m(t["reserved"], t["direct"])]

    def finish(self, row, dev):
        t = self.tot[dev]
        row[11:] = [x(t["framework"]), x(t["direct"]), x2m(t["reserved"], t["direct"])]
        self.rows.append(row)
        self.account(dev, None)

    def driver_alloc(self, dev, size, managed, stack=0, dt=30000):
        address, self.next_address = self.next_address, self.next_address + size + (-size) % 512
        row = self.event(1, dev, size, address, stack, dt=dt, managed=int(managed))
        self.tot[dev]["reserved"] += size
        if not managed:
            self.tot[dev]["direct"] += size
        self.handle += 1
        self.live[dev][self.handle] = (self.seq, size, "managed" if managed else "direct", self.phase(), self.rid(), stack,
                                       self.t, address)
        self.finish(row, dev)
        return self.handle

    def driver_free(self, dev, handle, dt=30000):
        seq, size, kind, _, _, _, _, address = self.live[dev].pop(handle)
        row = self.event(2, dev, size, address, mate=seq, dt=dt)
        self.tot[dev]["reserved"] -= size
        if kind == "direct":
            self.tot[dev]["direct"] -= size
        self.finish(row, dev)

    def block(self, dev, size, stack=0, dt=2000):
        address, self.next_address = self.next_address, self.next_address + size + (-size) % 512
        row = self.event(20, dev, size, address, stack, dt=dt)
        self.tot[dev]["framework"] += size
        self.handle += 1
        self.live[dev][self.handle] = (self.seq, size, "block", self.phase(), self.rid(), stack, self.t, address)
        self.finish(row, dev)
        return self.handle

    def block_free(self, dev, handle, dt=2000):
        seq, size, _, _, _, _, _, address = self.live[dev].pop(handle)
        row = self.event(21, dev, size, address, mate=seq, dt=dt)
        self.tot[dev]["framework"] -= size
        self.finish(row, dev)

    def oom(self, dev, size, stack=0):
        """A framework gives up, after the driver refused the same bytes twice."""
        self.finish(self.event(22, dev, size, stack=stack), dev)
        t = self.tot[dev]
        free = 150000 * MiB - t["reserved"] - 640 * MiB - 2048 * MiB  # the context, and 2 GiB of another process
        self.ooms.append((1, self.seq, 7, self.t, dev, 22, 1, 1, None, 1, self.phase(), self.rid(), stack, self.steps + 1, size,
                          size, 2, t["framework"], t["direct"], t["reserved"] - t["direct"], 0, t["reserved"], 0, 64 * MiB, 0,
                          free, self.t - 1000, t["reserved"], t["reserved"] + 640 * MiB, self.t - 900, 150000 * MiB - free,
                          self.t - 1000, 1))
        for seq, bytes_, kind, phase, rid, stack, when, address in self.live[dev].values():
            if kind != "managed":
                self.oom_live.append((1, self.seq, seq, when, 20 if kind == "block" else 1, 1, address, bytes_, phase, rid, stack))

    def push(self, name, dt=500):
        self.next_range += 1
        phase = self.phase_id(name)
        parent = self.rid()
        self.t += dt
        self.seq += 1
        self.ranges.append([self.next_range, phase, {}])
        self.rows.append([self.seq, self.t, 30, -1, phase, self.kind(0), 0, 0, self.next_range, 0, 0, 0, 0, 0])
        self.range_rows[self.next_range] = [self.next_range, 1, phase, self.string(name), None, 3, 1, parent, 1,
                                            self.steps + 1, self.seq, self.t, None]
        for dev, t in self.tot.items():
            self.ranges[-1][2][dev] = [t["framework"] + t["direct"], t["reserved"], self.t]

    def pop(self, dt=500):
        rid, phase, peaks = self.ranges.pop()
        self.t += dt
        self.seq += 1
        self.rows.append([self.seq, self.t, 31, -1, phase, self.kind(0), 0, 0, rid, 0, 0, 0, 0, 0])
        self.range_rows[rid][12] = self.t
        ns = self.t - self.range_rows[rid][11]
        for dev, (a, r, t) in peaks.items():
            self.range_peaks.append((rid, dev, a, r, t))
            s = self.stats.setdefault((dev, phase), dict(ranges=0, ns=0, events=0, a=0, r=0, end=0, t=0))
            s["ranges"] += 1
            s["ns"] += ns
            if a > s["a"]:
                s["a"], s["t"] = a, t
            s["r"] = max(s["r"], r)
            s["end"] = self.tot[dev]["framework"] + self.tot[dev]["direct"]

    def step(self):
        self.steps += 1
        self.t += 500
        self.seq += 1
        self.rows.append([self.seq, self.t, 33, -1, self.phase(), self.kind(0), 0, 0, 0, 0, 0, 0, 0, 0])
        self.db.execute("INSERT INTO step VALUES(1,?,?,?)", (self.steps, self.t, self.seq))

    def cost(self, op, api, dev, size, address=0x5000):
        """What a call took that allocates nothing; SIZE None: nobody could tell."""
        row = self.event(op, dev, 0, address, space=0, mate=int(op in (23, 24) and (size or 0) < 0))
        row[7] = None if size is None else x(abs(size))
        what = op == 24 and (2 if "Stream" in api else 1)   # enum vs_overhead
        row[5] = self.kinds.setdefault((0, 0, 1, 0, api, int(what)), len(self.kinds) + 1)
        self.rows.append(row)

    def sample(self, dev, context):
        r = self.tot[dev]["reserved"]
        self.sampled.append((1, self.t, dev, r + context, self.source, 3200 * MiB + self.steps * MiB, 64 * MiB, r, len(self.sampled) + 1))

    def write(self, args):
        db = self.db
        for dev, phase in list(self.zones):
            self.close_zone(dev, phase)
        db.executemany("INSERT OR IGNORE INTO op VALUES(?,?)", OPS.items())
        db.executemany("INSERT OR IGNORE INTO space VALUES(?,?)", SPACES.items())
        apis = ["cuMemAlloc_v2"] + sorted({key[4] for key in self.kinds} - {"cuMemAlloc_v2"})
        db.executemany("INSERT OR IGNORE INTO api VALUES(?,?)", [(apis.index(name) + 1, name) for name in apis])
        db.executemany("INSERT OR IGNORE INTO phase VALUES(?,?)", [(i, n) for n, i in self.phases.items()])
        db.executemany("INSERT INTO kind VALUES(?,1,?,?,1,?,?,?,?,NULL)",
                       [(i, apis.index(api) + 1, space, stream, thread, status, managed)
                        for (space, status, thread, managed, api, stream), i in self.kinds.items()])
        db.executemany("INSERT INTO context VALUES(?,1,?,?)", [(d + 1, 0x5000 + d, d) for d in self.tot])
        for (parent, frame), (sid, owner, line) in self.stack_ids.items():
            db.execute("INSERT INTO stack VALUES(?,?,?,?,?,0,NULL,NULL,0,NULL)", (sid, parent, frame, self.string(owner) if owner else None, line))
        db.executemany("INSERT INTO string VALUES(?,?)", [(i, s) for s, i in self.strings.items()])
        db.executemany("INSERT INTO frame VALUES(?,?,?,?,?,?,?)", [(i, *frame) for frame, i in self.frame_ids.items()])
        db.executemany("INSERT INTO module VALUES(?,?,'00',0,0)", [(i, p) for p, i in self.module_ids.items()])
        if args.kind != "thinned":
            db.executemany("INSERT INTO ev VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)", self.rows)
        db.executemany("INSERT INTO rng VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)", self.range_rows.values())
        db.executemany("INSERT INTO range_peak VALUES(?,?,?,?,?)", self.range_peaks)
        for (dev, phase), s in self.stats.items():
            db.execute("INSERT INTO phase_stat VALUES(1,?,?,?,?,0,?,?,?,?,?)",
                       (dev, phase, s["ranges"], s["ns"] if s["ranges"] else None, s["events"], s["a"], s["r"], s["end"],
                        s["t"]))
        for (dev, kind), p in self.peaks.items():
            db.execute("INSERT INTO peak VALUES(1,?,?,?,?,?,?,NULL)", (dev, kind, p[0], p[1], p[2], p[3]))
        db.execute("INSERT INTO peak VALUES(1,-1,'pinned',?,1,0,?,NULL)", (64 * MiB, 64 * MiB))
        for dev, live in self.at_peak.items():
            for seq, size, kind, phase, rid, stack, t, address in live.values():
                if kind != "managed" and args.kind != "killed": # what lived is then found among the events
                    db.execute("INSERT INTO peak_live VALUES(1,?,?,?,?,?,1,?,?,?,?,?,NULL)",
                               (dev, seq, self.peaks[(dev, "allocated")][1], t, 20 if kind == "block" else 1, address, size, phase,
                                rid, stack))
        for dev in self.live:
            for seq, size, kind, phase, rid, stack, t, address in self.live[dev].values():
                db.execute("INSERT INTO live VALUES(?,?,?,1,?,?,?,?,?,?,?,NULL)",
                           (seq, 20 if kind == "block" else 1, dev, x(address), x(size), t, phase, rid, stack, int(kind == "managed")))
        db.executemany("INSERT INTO counter VALUES(1,?,?,?)",
                       [(d, n, v) for d in self.tot for n, v in (("framework_reports", sum(r[2] in (20, 21, 22) and r[3] == d for r in self.rows)),
                                                                 ("framework_reports_in_mismatch", int(args.kind == "killed")),
                                                                 ("out_of_memory", int(args.kind == "oom")))])
        db.executemany("INSERT INTO oom VALUES(%s,NULL)" % ",".join("?" * 33), self.ooms)
        db.executemany("INSERT INTO oom_live VALUES(?,?,?,?,?,?,?,?,?,?,?,NULL)", self.oom_live)
        db.executemany("INSERT INTO sample VALUES(?,?,?,?,?,?,?,?,?)", self.sampled)
        db.execute("INSERT INTO mark VALUES(1,?,?,?)", (self.seq, self.seq, self.seq))
        start = 1795000000000000000 + args.start * 10**9
        meta = dict(schema_version=args.schema_version, version="0.1.0", start_realtime_ns=start, max_bytes=4 << 30)
        if args.kind == "thinned":
            db.execute("INSERT INTO stretch VALUES(1,?,0,?,1,?,?,?,?,64,0,0)",
                       (self.seq, self.t, self.steps, self.steps, len(self.range_rows), len(self.sampled)))
        if args.kind != "killed":
            meta["clean_end"] = 1
        else:
            meta["journal_merged"] = 1
            db.execute("INSERT INTO loss VALUES(1,?,12,'ring_full','the ring was full')", (self.t // 2,))
            db.execute("INSERT INTO loss VALUES(1,?,3,'ring_full','the ring was full')", (self.t // 2 + 5,))
            db.execute("INSERT INTO mismatch VALUES(1,7,9000,0,'allocated',1048576,1049088)")
            db.execute("INSERT INTO upper_bound VALUES(1,0,'reserved',5,8000,9,9000)")
        db.executemany("INSERT INTO meta VALUES(?,?,?)", [(k, v, k not in ("schema_version", "version")) for k, v in meta.items()])
        rank, world = (args.rank, args.world) if args.rank is not None else (None, None)
        db.execute("INSERT INTO process VALUES(1,?,'b00t',?,?,?,?,?,?,?,?)",
                   (args.host, 4211 + (args.rank or 0), rank, rank, world, "python train.py --layers 8", start, None if args.kind == "killed" else self.t,
                    1 if args.kind == "empty" else 0))
        for dev in self.tot:
            db.execute("INSERT INTO device VALUES(?,1,?,'NVIDIA H200',?)", (dev, "GPU-%08x-0000-0000-0000-00000000000%x" % (0x51ab0000 + 7 * (dev + args.gpu), dev + args.gpu), 150000 * MiB))
        db.commit()
        db.close()


TORCH = "/usr/lib/python3/dist-packages/torch/lib/libtorch_cuda.so"
C10 = "/usr/lib/python3/dist-packages/torch/lib/libc10_cuda.so"
CUBLAS = "/usr/local/cuda/lib64/libcublasLt.so.13"
PYTHON = "/usr/bin/python3.12"
LINEAR = "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py"


def train(run, args):
    layers, activation, logits = 8, 96 * MiB + 512, 1002 * MiB
    slow = 1 if args.fast else 40
    for d in run.tot:
        if args.kind != "oom":      # (as if NVML had not been ready)
            run.cost(16, "cuDevicePrimaryCtxRetain", d, 500 * MiB, 0x5000 + d)
            run.cost(24, "cuLaunchKernel", d, 20 * MiB)
        for i in range(layers):
            s = run.stack([(C10, 0x2A10, "c10::cuda::CUDACachingAllocator::malloc"), (TORCH, 0x91000 + 16 * i, "at::empty"),
                           ("/home/ada/model.py", 17, "Model.__init__"), ("/home/ada/train.py", 9, "<module>")], "libtorch_cuda.so")
            run.driver_alloc(d, 256 * MiB, True, s)
            run.block(d, 180 * MiB, s, dt=100000 * slow)
        cublas = run.stack([(CUBLAS, 0x77123, None), (CUBLAS, 0x5200, "cublasLtMatmul"), (TORCH, 0xA0010, "at::mm")],
                           "libcublasLt.so.13")
        run.driver_alloc(d, 33 * MiB + 77, False, cublas)
        run.sample(d, 527 * MiB)
    states = {d: [] for d in run.tot}
    for n in range(args.steps):
        for d in run.tot:
            acts = []
            run.push("forward")
            for i in range(layers):
                s = run.stack([(C10, 0x2A10, "c10::cuda::CUDACachingAllocator::malloc"), (TORCH, 0x92000, "at::linear"),
                               (LINEAR, 125, "Linear.forward"), ("/home/ada/model.py", 41, "Model.forward"),
                               ("/home/ada/train.py", 23, "<module>")], "libtorch_cuda.so")
                if n == 0:
                    run.driver_alloc(d, 128 * MiB, True, s)
                acts.append(run.block(d, activation, s, dt=150000 * slow))
                tmp = run.block(d, 48 * MiB, s, dt=50000 * slow)
                run.block_free(d, tmp, dt=20000 * slow)
            if args.leak:
                run.block(d, args.leak * MiB, s)
            run.push("logits")
            s = run.stack([(C10, 0x2A10, "c10::cuda::CUDACachingAllocator::malloc"), (TORCH, 0x93000, "at::log_softmax"),
                           (PYTHON, 0x1000, "_PyEval_EvalFrameDefault")], "libtorch_cuda.so")
            if n == 0:
                run.driver_alloc(d, 2048 * MiB, True, s)
            l1 = run.block(d, logits, s, dt=500000 * slow)
            l2 = run.block(d, logits + args.extra * MiB, s, dt=500000 * slow)
            run.pop(dt=100000)
            run.pop()
            if n == 0:
                run.cost(24, "cuLaunchKernel", d, 76 * MiB)
                run.cost(24, "cuLaunchKernel", d, -4 * MiB)
                run.cost(24, "cuStreamCreateWithPriority", d, 36 * MiB)
                run.cost(24, "cuLaunchKernel", d, None)
            run.sample(d, 640 * MiB)
            run.push("backward")
            run.block_free(d, l2, dt=400000 * slow)
            grads = []
            for i in range(layers):
                grads.append(run.block(d, 180 * MiB, 0, dt=250000 * slow))
                run.block_free(d, acts.pop(), dt=100000 * slow)
                if i == 1:
                    run.block_free(d, l1, dt=2000)
                if n == 0:
                    run.driver_alloc(d, 256 * MiB, True, 0)
            run.pop(dt=100000)
            run.push("optimizer")
            if n == 0:
                for i in range(layers):
                    run.driver_alloc(d, 384 * MiB, True, 0)
                    states[d].append(run.block(d, 360 * MiB, 0, dt=80000 * slow))
            tmp = run.block(d, 300 * MiB, 0, dt=600000 * slow)
            run.block_free(d, tmp, dt=600000 * slow)
            run.pop()
            for g in grads:
                run.block_free(d, g)
        run.step()
    if args.kind == "oom":
        run.push("forward")
        run.oom(0, 140 << 30, run.stack([(C10, 0x2A10, "c10::cuda::CUDACachingAllocator::malloc"), (TORCH, 0x91000, "at::empty"),
                                         (PYTHON, 0x1000, "_PyEval_EvalFrameDefault")], "libtorch_cuda.so"))
        run.pop()


def add_pool(db):
    """What the pool of a library said of itself; that it took memory is another matter."""
    db.execute("INSERT INTO string VALUES(1800000000, 'JAX')")
    db.execute("INSERT INTO pool_use VALUES(1, 1000, 0, 1800000000, ?, ?, NULL)", (100 * MiB, 123 * MiB))
    db.commit()


def add_arenas(db):
    """An arena that came to its steady state after 3000 requests, and another one, of whose end little is known."""
    columns = [row[1] for row in db.execute("PRAGMA table_info(arena_sample)")][1:]

    def sample(**figures):
        db.execute(f"INSERT INTO arena_sample VALUES(1{',?' * len(columns)})", [figures.get(c, 0) for c in columns])

    for n, calls in (16, 40), (1000, 700), (2000, 900), (3000, 1000), (4000, 1000), (5000, 1000):
        sample(number=1, t_ns=n * 100000, mallocs=n // 2, frees=n // 2, hits=n // 2 - calls // 4, view_hits=n // 50, driver_calls=calls,
               created=120, aliased=80, follows=3, settles=1, granule_bytes=2 * MiB, peak_allocated_bytes=235 * MiB,
               peak_reserved_bytes=242 * MiB, at_peak_reserved_bytes=240 * MiB, at_peak_idle_bytes=2 * MiB, at_peak_deferred_bytes=MiB)
    sample(number=2, t_ns=600000000, mallocs=1, driver_calls=4, created=1, free_waits=1, lost=1, lost_blocks=2, evicted=3,
           granule_bytes=2 * MiB, peak_allocated_bytes=MiB + 512, peak_reserved_bytes=2 * MiB, at_peak_reserved_bytes=2 * MiB)
    db.commit()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("schema")
    p.add_argument("out")
    p.add_argument("--kind", default="train", choices=["train", "oom", "empty", "killed", "thinned"])
    p.add_argument("--devices", type=int, default=1)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--rank", type=int)
    p.add_argument("--world", type=int, default=8)
    p.add_argument("--host", default="gpu-7")
    p.add_argument("--gpu", type=int, default=0, help="which of the host's it is, by its UUID")
    p.add_argument("--extra", type=int, default=0, help="MiB more in logits")
    p.add_argument("--start", type=int, default=0, help="seconds after the others")
    p.add_argument("--source", default="nvml_process", help="of the samples")
    p.add_argument("--schema-version", type=int, help="default: the one that the schema says")
    p.add_argument("--arena", action="store_true", help="our own allocator served device 0")
    p.add_argument("--leak", type=int, default=0, help="MiB that each step leaves in forward")
    p.add_argument("--fast", action="store_true", help="a run of milliseconds")
    args = p.parse_args()
    args.schema_version = args.schema_version or int(re.search(r"schema_version \((\d+)\)", open(args.schema).read()).group(1))
    run = Run(args.schema, args.out, args.devices if args.kind != "empty" else 0, args.kind)
    run.source = args.source
    if args.kind != "empty":
        train(run, args)
    run.write(args)
    if args.arena:
        add_arenas(sqlite3.connect(args.out))
        add_pool(sqlite3.connect(args.out))


if __name__ == "__main__":
    sys.exit(main())
