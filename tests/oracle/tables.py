"""tables.py - the tables that the recorder keeps beside `ev`, held against what the replay of its rows found."""
import lines
from recording import ADDRESS, LAYER, NODE, PYTHON
from replay import (ALLOC, BLOCK, CONTEXT, CURVES, FREE_FAILED, LIMIT, MARKED, MISSED, OOM, OUTSIDE, OVERHEAD, PHYS_CREATE,
                    PUSH, RECLASSIFY, SAMPLE, SPACES, STEP, UNBLOCK)

CONTEXTS = 254  # beyond these the numbers of ended ones are used again
PLACE = 1  # resume.what: where the last writer stopped
# c10::ScalarType: names, and bytes of an element
ELEMENTS = """uint8 1 int8 1 int16 2 int32 4 int64 8 float16 2 float32 4 float64 8 complex32 4 complex64 8 complex128 16 bool 1 qint8 1 quint8 1
    qint32 4 bfloat16 2 quint4x2 1 quint2x4 1 bits1x8 1 bits2x4 1 bits4x2 1 bits8 1 bits16 2 float8_e5m2 1 float8_e4m3fn 1 float8_e5m2fnuz 1
    float8_e4m3fnuz 1 uint16 2 uint32 4 uint64 8 uint1 1 uint2 1 uint3 1 uint4 1 uint5 1 uint6 1 uint7 1 int1 1 int2 1 int3 1 int4 1 int5 1
    int6 1 int7 1 float8_e8m0fnu 1 float4_e2m1fn_x2 1 bcomplex32 4""".split()


class Tables:
    def __init__(self, recording, replay, complain):
        self.r, self.x, self.complain = recording, replay, complain

    def same(self, what, got, expected):
        if got != expected:
            self.complain(f"{what}: {got}, should be {expected}")

    def check(self):
        for check in (self.amends, self.live, self.peaks, self.ranges, self.range_peaks, self.phases, self.zones, self.steps,
                      self.moments, self.samples, self.counters, self.names, self.mismatches, self.peak_live, self.oom_live,
                      self.resume, self.facts, self.tensors):
            check()

    def amends(self):
        got = {a.seq: (a.op, a.by_seq) for a in self.r.amends.values()}
        self.same("amend", got, self.x.amends)

    def tensors(self):
        """Each stands once, is a framework's, and asked for no more than its blocks have."""
        types = [(t.id, t.name, t.bytes) for t in self.r.table("element_type")]
        self.same("element_type", types, [(i // 2, name, int(ELEMENTS[i + 1])) for i, name in enumerate(ELEMENTS) if i % 2 == 0])
        said = [(t.kind, t.element_type, t.request, t.shape) for t in self.r.table("tensor")]
        self.same("tensor: rows", len(said), len(set(said)))
        for e in self.r.events:
            if e.tensor is None:
                continue
            t = self.r.tensors.get(e.tensor)
            if t is None or e.op not in (BLOCK, OOM):
                self.complain(f"row {e.seq} of op {e.op} has tensor {e.tensor}")
            elif t.request is not None and not 0 < t.request <= e.size:
                self.complain(f"row {e.seq} has {e.size} bytes and was asked for as {t.request}")

    def resume(self):
        """Only a writer that goes on needs it; it says where the last one stopped."""
        rows = self.r.table("resume")
        if self.r.meta.get("journal_merged"):
            self.same("resume: rows after the end", len(rows), 0)
        elif self.r.events and "thinned_from_seq" not in self.r.meta:
            last = self.r.events[-1].t, max((s.step for s in self.r.table("step")), default=0)
            self.same("resume: time and steps", [(r.a, r.b) for r in rows if r.what == PLACE], [last])

    # ---- what lives ----

    def living(self, seq=None):
        """At SEQ, or at the end."""
        if seq is None:
            return {t.seq: t for t in self.x.things.values() if t.alive[-1][1] is None}
        return {t.seq: t for t in self.x.things.values() if t.lives_at(seq)}

    def live(self):
        mark = self.r.mark
        self.same("mark.upto_seq", mark.upto_seq, self.x.last)
        if mark.live_seq > mark.upto_seq:
            self.complain(f"mark.live_seq {mark.live_seq} is beyond the last row")
        living = self.living(mark.live_seq)
        rows = {l.alloc_seq: l for l in self.r.table("live")}
        self.same("live: allocations", sorted(rows), sorted(living))
        for seq in rows.keys() & living.keys():
            l, t = rows[seq], living[seq]
            got = (l.op, l.device, l.space, abs_units(l.address), abs_units(l.size), l.t, l.phase, l.range, l.stack, l.managed, l.tensor)
            self.same(f"live {seq}", got, (t.op, t.device, t.space, t.address, t.size, t.t, t.phase, t.range, t.stack,
                                           int(t.managed(mark.live_seq)), t.tensor))

    def facts(self):
        """Those about the file are of process 0, the others of a process that was recorded."""
        processes = {p.id for p in self.r.table("process")}
        for m in self.r.table("meta"):
            if m.process not in ({0} if m.key in ("schema_version", "version", "named_frames") else processes):
                self.complain(f"meta {m.key}: of process {m.process}")
            if m.key == "named_frames" and not 0 <= m.value <= len(self.r.table("frame")):
                self.complain(f"meta named_frames: {m.value} of {len(self.r.table('frame'))}")
        for p in self.r.table("process"):
            for what, least in (("pid", 1), ("rank", 0), ("local_rank", 0), ("world_size", 1)):
                value = getattr(p, what)
                if value is not None and value < least:
                    self.complain(f"process {p.id}: {what} is {value}")

    def peak_live(self):
        peaks = {p.device: p.seq for p in self.r.table("peak") if p.kind == "allocated"}
        rows = {}
        for l in self.r.table("peak_live"):
            if l.peak_seq == peaks.get(l.device):
                rows.setdefault(l.device, []).append(l)
            elif l.peak_seq in peaks.values():
                self.complain(f"peak_live {l.alloc_seq}: the peak at {l.peak_seq} is not that of device {l.device}")
        # those of all devices are written at once
        for device, found in [(d, rows.get(d, [])) for d in (peaks if rows else [])]:
            expected = {t.seq: t.size for t in self.living(peaks[device]).values()
                        if t.device == device and t.counts(peaks[device])}
            got = {l.alloc_seq: l.size_bytes for l in found if l.op}
            self.same(f"peak_live of device {device}", got, expected)
            for l in found:
                t = self.x.things.get(l.alloc_seq)
                if t:
                    self.same(f"peak_live {l.alloc_seq}", (l.t_ns, l.op, l.space, l.address, l.phase, l.range, l.stack, l.tensor),
                              (t.t, t.op, t.space, t.address, t.phase, t.range, t.stack, t.tensor))

    def oom_live(self):
        for l in self.r.table("oom_live"):
            t = self.x.things.get(l.alloc_seq)
            if t:
                self.same(f"oom_live {l.alloc_seq}", (l.t_ns, l.op, l.space, l.address, l.size_bytes, l.phase, l.range, l.stack, l.tensor),
                          (t.t, t.op, t.space, t.address, t.size, t.phase, t.range, t.stack, t.tensor))

    # ---- peaks ----

    def peaks(self):
        rows = {(p.device, p.kind): p for p in self.r.table("peak")}
        for (device, name), (value, seq, t) in self.x.peak.items():
            end = self.x.totals[device].curve(name)
            p = rows.pop((device, name), None)
            if p:
                self.same(f"peak {name} of device {device}", (p.peak_bytes, p.seq, p.t_ns, p.end_bytes, p.known_bytes), (value, seq, t, end, None))
            elif value:
                self.complain(f"peak {name} of device {device} is missing: {value}")
        for space, (value, seq, t) in self.x.outside_peak.items():
            p = rows.pop((-1, OUTSIDE[space]), None)
            if p:
                self.same(f"peak {p.kind}", (p.peak_bytes, p.seq, p.t_ns, p.end_bytes), (value, seq, t, self.x.outside[space]))
            elif value:
                self.complain(f"peak {OUTSIDE[space]} is missing: {value}")
        kinds = {}
        for p in self.r.table("peak"):
            kinds.setdefault(p.device, set()).add(p.kind)
        for device, found in kinds.items():
            if device >= 0 and found != set(CURVES):
                self.complain(f"peak: device {device} has {sorted(found)}")
        for (device, name), p in rows.items():
            if name not in CURVES and name not in OUTSIDE.values():
                self.complain(f"peak: '{name}' is no kind")
            self.same(f"peak {name} of device {device}", (p.peak_bytes, p.end_bytes), (0, 0))

    # ---- ranges ----

    def ranges(self):
        self.same("rng: ids", sorted(self.r.ranges), sorted(self.x.ranges))
        for r in self.x.ranges.values():
            row = r.row
            expected = (r.parent if not r.cross else row.parent, r.thread, r.step, r.first_seq, r.t_push, r.t_pop, int(r.outermost) | 2 * r.cross)
            self.same(f"rng {r.id}", (row.parent, row.thread, row.step, row.first_seq, row.t_push, row.t_pop, row.flags), expected)

    def range_peaks(self):
        rows = {(p.range, p.device): p for p in self.r.table("range_peak")}
        for r in self.x.ranges.values():
            for device, (allocated, reserved, t) in r.peak.items():
                p = rows.pop((r.id, device), None)
                if p:
                    self.same(f"range_peak {r.id} of device {device}", (p.allocated_bytes, p.reserved_bytes, p.t_ns),
                              (allocated, reserved, t))
                elif allocated or reserved:
                    self.complain(f"range_peak {r.id} of device {device} is missing: {allocated} {reserved}")
        for (range_id, device), p in rows.items():
            self.same(f"range_peak {range_id} of device {device}", (p.allocated_bytes, p.reserved_bytes), (0, 0))

    # ---- phases and zones ----

    def counted_rows(self):
        return [e for e in self.r.events if e.op < PUSH or e.op >= RECLASSIFY]

    def phase_expected(self):
        """By device and phase: events, peaks, when, the last value; from rows, then from ranges."""
        found = {}
        for e in self.counted_rows():
            s = found.setdefault((e.device, e.phase), {"events": 0, "peaks": [], "last": 0})
            allocated, reserved = self.x.after[e.seq].get(e.device, (0, 0))
            s["events"] += 1
            s["peaks"].append((allocated, reserved, e.t))
            s["last"] = allocated
        for r in self.x.ranges.values():
            for device, (allocated, reserved, t) in r.peak.items():
                if r.phase:
                    s = found.setdefault((device, r.phase), {"events": 0, "peaks": [], "last": 0})
                    s["peaks"].append((allocated, reserved, t))
        return found

    @staticmethod
    def reached(found, allocated, threads):
        """The times at which a phase's peak was reached first: the earliest of its first row that has it and of ranges.  Where threads
        are several, rows can be out of order in time, and a row after the end of such a range changes nothing: then the earliest of ranges."""
        rows, ranges = found["peaks"][:found["events"]], found["peaks"][found["events"]:]
        first = [t for bytes_, _, t in rows if bytes_ == allocated][:1]
        within = [t for bytes_, _, t in ranges if bytes_ == allocated]
        if not allocated:
            return [0]
        return [min(first + within)] + ([min(within)] if within and threads > 1 else [])

    def phases(self):
        rows = {(s.device, s.phase): s for s in self.r.table("phase_stat")}
        known = {-1} | {d.id for d in self.r.table("device")}  # -1: the host
        for device, phase in rows:
            if device not in known:
                self.complain(f"phase_stat {device, phase}: there is no such device")
        expected = self.phase_expected()
        threads = len({e.thread for e in self.counted_rows()})
        for key, s in rows.items():
            found = expected.pop(key, {"events": 0, "peaks": [], "last": 0})
            ranges = [r for r in self.x.ranges.values() if r.phase == key[1] and key[1]]
            ns = sum(r.t_pop - r.t_push for r in ranges if r.outermost and r.t_pop is not None) if ranges else None
            allocated = max([p[0] for p in found["peaks"]], default=0)
            reserved = max([p[1] for p in found["peaks"]], default=0)
            reached = self.reached(found, allocated, threads)
            last = self.r.events[-1].t if self.r.events else 0
            still = sum(max(0, last - r.t_push) for r in ranges if r.outermost and r.t_pop is None and not r.row.flags & 4)
            self.same(f"phase_stat {key} open_ns", s.open_ns, still)
            self.same(f"phase_stat {key}", (s.ranges, s.ns, s.events, s.allocated_bytes, s.reserved_bytes),
                      (len(ranges), ns, found["events"], allocated, reserved))
            if s.t_allocated_ns not in reached:
                self.complain(f"phase_stat {key} t_allocated_ns: {s.t_allocated_ns}, should be {reached[0]}")
            self.same(f"phase_stat {key} end_allocated_bytes", s.end_allocated_bytes, self.phase_end(key, ranges, found))
        for key, found in expected.items():
            if found["events"] or any(p[0] or p[1] for p in found["peaks"]):
                self.complain(f"phase_stat {key} is missing")

    def phase_end(self, key, ranges, found):
        if not ranges:
            return found["last"]
        if any(r.t_pop is None for r in ranges):
            return self.x.totals[key[0]].allocated() if key[0] in self.x.totals else 0
        return max(ranges, key=lambda r: r.pop_seq).end.get(key[0], 0)

    def zones(self):
        covered = {}
        rows = self.counted_rows()
        for z in self.r.table("zone"):
            inside = [e for e in rows if z.first_seq <= e.seq <= z.last_seq and (e.device, e.phase) == (z.device, z.phase)]
            for e in inside:
                covered[e.seq] = covered.get(e.seq, 0) + 1
            values = [(*self.x.after[e.seq].get(e.device, (0, 0)), e.t) for e in inside]
            if not inside:
                self.complain(f"zone {z.first_seq} has no events")
                continue
            expected = {"first_seq": inside[0].seq, "t_first": inside[0].t, "t_last": inside[-1].t, "last_framework": inside[-1].framework,
                        "last_direct": inside[-1].direct, "last_reserved": inside[-1].reserved, "last_seq": inside[-1].seq,
                        "events": len(inside), "stretch": None}
            for name, which, best in (("max_allocated", 0, max), ("min_allocated", 0, min), ("max_reserved", 1, max), ("min_reserved", 1, min)):
                value = best(v[which] for v in values)
                first = next(v for v in values if v[which] == value)
                expected |= {name: value, name + "_t": first[2]}
                if which == 0:
                    expected["reserved_at_" + name[:3]] = first[1]
            for name, value in expected.items():
                self.same(f"zone {z.first_seq} {name}", getattr(z, name), value)
        for e in rows:
            if covered.get(e.seq) != 1:
                self.complain(f"row {e.seq} lies in {covered.get(e.seq, 0)} zones")

    # ---- the rest ----

    def steps(self):
        ends = [e for e in self.r.events if e.op == STEP]
        self.same("step", [(s.seq, s.t_ns) for s in self.r.table("step", "seq")], [(e.seq, e.t) for e in ends])
        self.same("step numbers", [s.step for s in self.r.table("step", "seq")], list(range(1, len(ends) + 1)))

    def moments(self):
        marks = [(e.seq, e.t, e.thread) for e in self.r.events if e.op == MARKED]
        self.same("moment", [(m.seq, m.t_ns, m.thread) for m in self.r.table("moment", "seq")], marks)

    def samples(self):
        for s in self.r.table("sample"):
            e = self.r.by_seq.get(s.seq)
            if e is None or e.op != SAMPLE:
                self.complain(f"sample {s.seq} has no row")
                continue
            self.same(f"sample {s.seq}", (s.t_ns, s.device, s.driver_used_bytes, s.reserved_bytes), (e.t, e.device, e.size, e.reserved))

    def count(self, name, device=None):
        return sum(c.value for c in self.r.table("counter") if c.name == name and device in (None, c.device))

    def counters(self):
        events = self.r.events
        devices = {e.device for e in events}
        for name, ops, ok in (("framework_reports", (BLOCK, UNBLOCK, OOM), None), ("framework_allocations", (BLOCK,), None),
                              ("framework_frees", (UNBLOCK,), None), ("out_of_memory", (OOM,), None),
                              ("missed_frees", (MISSED,), None), ("failed_allocations", (ALLOC, PHYS_CREATE), False),
                              ("reclassified", (RECLASSIFY,), None)):
            for device in devices:
                n = sum(1 for e in events if e.op in ops and e.device == device and (ok is None or bool(e.status) != ok))
                self.same(f"counter '{name}' of device {device}", self.count(name, device), n)
        self.same("counter 'failed_frees'", self.count("failed_frees"), sum(1 for e in events if e.op == FREE_FAILED))
        self.same("counter 'unknown_frees'", self.count("unknown_frees"), self.x.unknown)
        asks = [e for e in events if e.status == 2 and (e.op < BLOCK or e.op in (LIMIT, OVERHEAD)) and e.op != FREE_FAILED]
        self.same("counter 'driver_out_of_memory'", self.count("driver_out_of_memory"), len(asks))
        self.same("counter 'lost_range_pops'", self.count("lost_range_pops"), 0)
        self.same("stretch", [(s.first_seq, s.folded) for s in self.r.table("stretch", "first_seq") if s.folded], [])
        self.same("away", [(a.seq, a.t_ns, a.device, a.away_bytes) for a in self.r.table("away", "seq")], self.x.aways)
        self.same("away_block", [tuple(vars(a).values())[:-1] for a in self.r.table("away_block", "seq")], self.x.away_blocks)
        for name in ("upper_bound", "range_fold", "pool_use"):
            self.same(name, self.r.rows(f"SELECT count(*) AS n FROM {name}")[0].n, 0)
        self.same("loss", [(l.events, l.code) for l in self.r.table("loss")], [])

    def names(self):
        """What rows refer to is there."""
        for e in self.r.events:
            for value, table, name in ((e.thread, self.r.threads, "thread"), (e.stack, self.r.stacks, "stack"),
                                       (e.phase, self.r.phases, "phase"), (e.op, self.r.ops, "op"), (e.space, self.r.spaces, "space")):
                if value and value not in table:
                    self.complain(f"row {e.seq}: {name} {value} has no row")
            if e.managed not in (0, 1):
                self.complain(f"row {e.seq}: managed is {e.managed}")
            if e.context not in (0, 255) and e.context not in self.r.contexts:
                self.complain(f"row {e.seq}: context {e.context} has no row")
            if e.range and e.op not in (PUSH,) and self.r.ranges.get(e.range) and self.r.ranges[e.range].first_seq > e.seq:
                self.complain(f"row {e.seq}: range {e.range} begins later")
            if e.op == CONTEXT and not e.status and e.stream != 3 and len(self.r.contexts) < CONTEXTS and self.r.contexts[e.context].handle != e.address:
                self.complain(f"context {e.context}: its handle is not that of row {e.seq}")
        self.same("space", {s: n for s, n in self.r.spaces.items()}, dict(enumerate(SPACES)))
        for s in self.r.stacks.values():
            if s.parent and (s.parent not in self.r.stacks or s.parent >= s.id):
                self.complain(f"stack {s.id}: its parent {s.parent} has no row, or a later one")
            if s.owner and s.owner not in self.r.strings:
                self.complain(f"stack {s.id}: its owner {s.owner} has no row")
            line, caller, forward = self.r.shown(s.id)
            self.same(f"stack {s.id} line", (s.line, s.caller, s.forward, s.again),
                      (line and line.id, caller and caller.id, int(forward), int(lines.again(list(self.r.frames_of(s.id))))))
            for name, kind in (("node", NODE), ("layer", LAYER)):
                frame = self.r.first_of_kind(s.id, kind)
                self.same(f"stack {s.id} {name}", getattr(s, name), frame and frame.id)
            if s.frame not in self.r.frames:
                self.complain(f"stack {s.id}: its frame {s.frame} has no row")
        for f in self.r.frames.values():
            address = f.kind == ADDRESS and f.module is not None and f.offset is not None
            named = f.kind == PYTHON and f.module is None and f.offset is None and f.function and f.file and (f.line is None or f.line > 0)
            native = f.kind == ADDRESS and f.module == 0 and f.offset is None and f.function and (f.line is None or f.line > 0)
            marking = f.kind in (NODE, LAYER) and f.module is None and f.offset is None and f.function and f.line is None
            if not address and not named and not native and not marking:
                self.complain(f"frame {f.id}: is neither a code address nor a named place")
        for o in self.r.table("oom"):
            self.same(f"oom {o.seq} stored", o.stored, 1)

    def mismatches(self):
        """Those between the totals are truth.py's: only the program knows what it reported."""
        for m in self.r.table("mismatch"):
            e = self.r.by_seq.get(m.seq)
            if e is None or (m.t_ns, m.device) != (e.t, e.device):
                self.complain(f"mismatch of row {m.seq}: there is no such row")
            if m.what == "free_missed":
                self.same(f"mismatch {m.seq}", (e.op, m.ours_bytes), (MISSED, e.size))


def abs_units(value):
    return -value if value < 0 else value * 512
