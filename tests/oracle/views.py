"""views.py - what people query: each view of schema.sql, held against the replay and the raw rows."""
import sqlite3

from replay import ALLOC, ARRAY, BLOCK, COUNTED, GRAPH, LIMIT, OVERHEAD, PHYS_CREATE, POOL, PUSH, RECLASSIFY

NAMES = {BLOCK: "block_alloc", ALLOC: "alloc", PHYS_CREATE: "phys_create"}


def row(columns, values):
    return tuple(getattr(values, c) for c in columns.split())


class Views:
    def __init__(self, recording, replay, complain):
        self.r, self.x, self.complain = recording, replay, complain

    def same(self, what, got, expected):
        if got == expected:
            return
        if isinstance(got, (set, list)) and isinstance(expected, (set, list)):
            missing = [v for v in expected if v not in got][:3]
            extra = [v for v in got if v not in expected][:3]
            self.complain(f"view {what}: {len(got)} rows, should be {len(expected)}; missing {missing}, extra {extra}")
        else:
            self.complain(f"view {what}: {got}, should be {expected}")

    def check(self):
        for check in (self.event, self.timeline, self.away_peak, self.range, self.phase_peak, self.allocation, self.open, self.leak,
                      self.at_peak, self.at_oom, self.private_pool, self.waiting_block, self.not_written_out, self.zone_held, self.step_peak):
            check()

    def event(self):
        columns = ("seq t_ns op space api device context stream address size_bytes thread phase range stack status mate "
                   "framework_bytes direct_bytes allocated_bytes reserved_bytes")
        expected = []
        for e in self.r.events:
            size = -e.size if e.size is not None and e.op in (LIMIT, OVERHEAD) and e.mate == 1 else e.size
            expected.append((e.seq, e.t, self.r.ops[e.op], self.r.spaces[e.space] if e.space else "none",
                             self.r.apis[e.api] if e.api else None, e.device, e.context, e.stream, e.address, size, e.thread,
                             self.r.phases[e.phase], e.range, e.stack, e.status, e.mate, e.framework, e.direct,
                             None if e.framework is None else e.framework + e.direct, e.reserved))
        self.same("event", [row(columns, v) for v in self.r.rows("SELECT * FROM event ORDER BY seq")], expected)

    def timeline(self):
        expected = [(e.t, e.device, e.framework + e.direct, e.reserved, self.r.phases[e.phase]) for e in self.r.events
                    if e.device >= 0 and (e.op < PUSH or e.op >= RECLASSIFY)]
        got = [row("t_ns device allocated_bytes reserved_bytes phase", v) for v in self.r.rows("SELECT * FROM timeline")]
        self.same("timeline", sorted(got), sorted(expected))

    def away_peak(self):
        aways = self.r.table("away", "seq")
        got = {row("device kind peak_bytes t_ns away_bytes most_away_bytes", v) for v in self.r.rows("SELECT * FROM away_peak")}
        expected = set()
        for p in self.r.table("peak"):
            own = [a for a in aways if a.device == p.device]
            if own and p.kind in ("allocated", "reserved"):
                then = [a.away_bytes for a in own if a.seq <= p.seq]
                expected.add((p.device, p.kind, p.peak_bytes, p.t_ns, then[-1] if then else 0, max(a.away_bytes for a in own)))
        self.same("away_peak", got, expected)

    def range(self):
        sources = {1: "marker", 2: "nvtx", 3: "automatic"}
        expected = {(r.id, self.r.phases[r.phase], self.r.strings.get(r.name), self.r.strings.get(r.domain), sources[r.source],
                     r.parent, r.thread, r.step, r.t_push, r.t_pop) for r in self.r.ranges.values()}
        got = {row("id phase name domain source parent thread step t_push_ns t_pop_ns", v) for v in self.r.rows("SELECT * FROM range")}
        self.same("range", got, expected)

    def phase_peak(self):
        expected = {(s.device, self.r.phases[s.phase], s.ranges, None if s.ns is None else (s.ns + s.open_ns) / 1e9, s.allocated_bytes,
                     s.reserved_bytes, s.end_allocated_bytes, s.events) for s in self.r.table("phase_stat")}
        got = {row("device phase ranges seconds allocated_bytes reserved_bytes end_allocated_bytes events", v)
               for v in self.r.rows("SELECT * FROM phase_peak")}
        self.same("phase_peak", got, expected)

    def private_pool(self):
        begins, ends = ([e for e in self.r.events if e.op == op] for op in (38, 39))
        expected = {(b.device, b.address, b.seq, min((e.seq for e in ends if e.seq > b.seq and (e.device, e.address) == (b.device, b.address)), default=None),
                     b.t, b.stream & 1, b.stream >> 1 if b.stream & 1 else None, b.stack, self.r.line(b.stack)) for b in begins}
        got = {row("device pool seq end_seq t_ns captured stream stack line", v) for v in self.r.rows("SELECT * FROM private_pool")}
        self.same("private_pool", got, expected)

    def waiting_block(self):
        freed, shared, born, expected = {}, {}, {}, set()
        done = [e for e in self.r.events if e.op in (28, 29)]
        for e in self.r.events:
            key = (e.device, e.address)
            if e.op == BLOCK:
                shared.pop(key, None)
            elif e.op == 44:
                shared[key] = e
            elif e.op == 21:
                freed[key], born[key] = e, shared.get(key)
            elif e.op == 27:
                over = (d.seq for d in done if d.seq > e.seq and (d.address == e.stream if e.stream else (d.op, d.device, d.address) == (28, *key)))
                f, s = freed[key], born[key]
                expected.add((e.device, f.mate, f.seq, f.t, f.size, min(over, default=None), s and s.stream, s and s.stack, s and self.r.line(s.stack)))
        got = {row("device alloc_seq free_seq t_free_ns size_bytes done_seq stream stack line", v) for v in self.r.rows("SELECT * FROM waiting_block")}
        self.same("waiting_block", got, expected)

    def zone_held(self):
        """Of each zone's greatest allocated: whose it was, by the phase of birth."""
        for z in self.r.table("zone"):
            first = next((e for e in self.r.events if z.first_seq <= e.seq <= z.last_seq and (e.device, e.phase) == (z.device, z.phase)
                          and (e.op < PUSH or e.op >= RECLASSIFY) and e.framework + e.direct == z.max_allocated), None)
            expected = {}
            for t in self.x.things.values() if first else ():
                if t.device == z.device and t.lives_at(first.seq) and t.counts(first.seq) and t.size:
                    sums = expected.setdefault(self.r.phases[t.phase], [0, 0])
                    sums[t.op != BLOCK] += t.size
            got = {v.phase: [v.framework_bytes, v.direct_bytes] for v in self.r.rows("SELECT * FROM zone_held WHERE zone = ?", z.first_seq)}
            got = {phase: sums for phase, sums in got.items() if any(sums)}
            self.same(f"zone_held of {z.first_seq}", got, expected)

    def step_peak(self):
        expected = {}
        for p in self.r.table("range_peak"):
            step = self.r.ranges[p.range].step if p.range in self.r.ranges else 0
            old = expected.get((step, step, p.device), (0, 0))
            expected[step, step, p.device] = max(old[0], p.allocated_bytes), max(old[1], p.reserved_bytes)
        got = {(v.first_step, v.last_step, v.device): (v.allocated_bytes, v.reserved_bytes) for v in self.r.rows("SELECT * FROM step_peak")}
        self.same("step_peak", got, expected)

    # ---- allocations ----

    def ends(self, t):
        """Of the rows that ended it the one that was not taken back, None where it lives."""
        return t.alive[-1][1]

    def allocation(self):
        columns = "op alloc_seq free_seq device space address size_bytes t_alloc_ns t_free_ns phase range stack owner line layer managed made_for request_bytes element_type shape"
        expected = set()
        for t in self.x.things.values():
            end = self.ends(t)
            # an import has no create: RETAIN rows that brought one are no allocation that is written one by one
            if self.r.by_seq[t.seq].op not in NAMES:
                continue
            expected.add((NAMES[t.op], t.seq, end, t.device, self.space(t), t.address, t.size, t.t, end and self.r.by_seq[end].t,
                          self.r.phases[t.phase], t.range, t.stack, self.r.owner(t.stack), self.r.line(t.stack), self.r.layer(t.stack), int(t.op != BLOCK and t.managed()), *self.r.asked(t.tensor, t.size)))
        got = {row(columns, v) for v in self.r.rows("SELECT * FROM allocation")}
        got = {g for g in got if self.r.by_seq[g[1]].op in NAMES}
        self.same("allocation", got, expected)

    def space(self, t):
        return self.r.spaces[t.space] if t.space or t.op != BLOCK else "none"

    def living(self):
        return [t for t in self.x.things.values() if self.ends(t) is None]

    def open(self):
        got = {(v.alloc_seq, v.op, v.device, v.space, v.managed) for v in self.r.rows("SELECT * FROM open_allocation")}
        expected = {(t.seq, t.op, t.device, t.space, int(t.managed())) for t in self.living()}
        self.same("open_allocation", got, expected)

    def leak(self):
        expected = {(t.device, t.seq, self.r.ops[t.op], self.leak_category(t), t.address, t.size, t.t, self.r.phases[t.phase], t.range,
                     t.stack, self.r.owner(t.stack), self.r.line(t.stack), self.r.layer(t.stack), *self.r.asked(t.tensor, t.size)) for t in self.living() if t.op == BLOCK or not t.managed()}
        got = {row("device alloc_seq op category address size_bytes t_alloc_ns phase range stack owner line layer made_for request_bytes element_type shape", v)
               for v in self.r.rows("SELECT * FROM leak")}
        self.same("leak", got, expected)

    def leak_category(self, t):
        return self.category(t, of_no_device=t.space not in COUNTED)

    # ---- at a moment ----

    def category(self, t, of_no_device=False):
        if t.op == BLOCK:
            return "framework block"
        if of_no_device:
            return self.r.spaces[t.space]
        special = {POOL: "direct pool", ARRAY: "direct array", GRAPH: "direct graph"}
        return special.get(t.space, "direct physical" if t.op == PHYS_CREATE else "direct")

    def told(self, t, of_no_device=False):
        return (self.r.phases[t.phase], self.category(t, of_no_device), t.size, t.seq, t.stack, self.r.owner(t.stack), self.r.line(t.stack), self.r.layer(t.stack), t.address,
                t.t, t.range, *self.r.asked(t.tensor, t.size))

    def at_peak(self):
        columns = "phase category size_bytes alloc_seq stack owner line layer address t_alloc_ns range made_for request_bytes element_type shape"
        for device, t in self.x.totals.items():
            value, seq, _ = self.x.peak[device, "allocated"]
            if not value:
                continue
            rows = self.r.rows("SELECT * FROM live_at_peak WHERE device = ?", device)
            expected = {self.told(t) for t in self.x.things.values() if t.device == device and t.lives_at(seq) and t.counts(seq)}
            self.same(f"live_at_peak of device {device}", {row(columns, v) for v in rows if v.alloc_seq}, expected)
            self.same(f"live_at_peak of device {device}: sum", sum(v.size_bytes for v in rows), value)

    def not_written_out(self):
        """The same from the events alone, as while the program runs."""
        written, self.r.db = self.r.db, sqlite3.connect(":memory:")
        written.backup(self.r.db)
        self.r.db.executescript("DELETE FROM peak_live; DELETE FROM oom_live; UPDATE oom SET stored = 0")
        self.at_peak()
        self.at_oom()
        self.r.db = written

    def at_oom(self):
        columns = "phase category size_bytes alloc_seq stack owner line layer address t_alloc_ns range made_for request_bytes element_type shape"
        for o in self.r.table("oom"):
            rows = self.r.rows("SELECT * FROM live_at_oom WHERE oom_seq = ?", o.seq)
            none = o.device < 0
            expected = {self.told(t, none) for t in self.x.things.values()
                        if t.device == o.device and t.lives_at(o.seq) and (none or t.counts(o.seq))}
            self.same(f"live_at_oom {o.seq}", {row(columns, v) for v in rows if v.alloc_seq}, expected)
            if not none:
                self.same(f"live_at_oom {o.seq}: sum", sum(v.size_bytes for v in rows), o.framework_bytes + o.direct_bytes)
