"""Everything that follows from the rows of `ev`, worked out again from what they mean.

It takes from a row what only the recorder can know: what was called, by whom, when, which address, how many bytes were asked for,
whether a caching allocator carves it, which range was open. A free that failed is taken back by its row; between the two the bytes
are missing, as schema.sql has it.
"""
from bisect import insort
from types import SimpleNamespace

ALLOC, FREE, FREE_FAILED, PHYS_CREATE, RETAIN, RELEASE, MAP, UNMAP, VA_RESERVE, VA_FREE = range(1, 11)
POOL_RESERVED, GRAPH_NODE, BIND, UNBIND, CONTEXT, CONTEXT_END, MODULE, MODULE_END = 12, 13, 14, 15, 16, 17, 18, 19
BLOCK, UNBLOCK, OOM, LIMIT, OVERHEAD, ARENA_RESERVED = 20, 21, 22, 23, 24, 25
PUSH, POP, MARKED, STEP, SAMPLE, AWAY = 30, 31, 32, 33, 40, 45
RECLASSIFY, PHYS_FREED, MISSED, CONTEXT_FREED = 50, 51, 52, 53
DEVICE, POOL, HOST_VMM, IMPORTED, ARRAY, GRAPH, MULTICAST, ARENA = 1, 2, 6, 7, 9, 10, 11, 12
COUNTED = (DEVICE, POOL, ARRAY, GRAPH, ARENA)
PRIMARY = 1
OUTSIDE = {3: "managed", 4: "pinned", 5: "registered", 6: "host_vmm", 7: "imported"}
MATED = {FREE, FREE_FAILED, RETAIN, RELEASE, MAP, BIND, UNBIND, CONTEXT_END, MODULE_END, UNBLOCK, RECLASSIFY, PHYS_FREED, MISSED,
         CONTEXT_FREED, AWAY}
FAILING = {ALLOC, FREE_FAILED, PHYS_CREATE, RETAIN, MAP, VA_RESERVE, 11, GRAPH_NODE, BIND, CONTEXT, MODULE, LIMIT, OVERHEAD}
STREAMED = {27, 38, 44, ALLOC, FREE, GRAPH_NODE, BIND, UNBIND, CONTEXT, CONTEXT_END, MODULE, MODULE_END, LIMIT, OVERHEAD, CONTEXT_FREED, PHYS_FREED,
            BLOCK, UNBLOCK, AWAY}
WHY_AWAY = {1: "parked", 2: "suspended", 3: "spilled"}
SPACES = ("none", "device", "pool", "managed", "pinned", "registered", "host_vmm", "imported", "address", "array", "graph", "multicast",
          "arena")
CURVES = ("allocated", "reserved", "framework", "direct", "managed_reserved", "unknown_use")
BACKWARD = 3


class Thing:
    """An allocation: a block, driver memory, physical memory."""

    def __init__(self, e, op=None):
        self.seq, self.op, self.device, self.space = e.seq, op or e.op, e.device, e.space
        self.address, self.size, self.t, self.context = e.address, e.size, e.t, e.context
        self.phase, self.range, self.stack, self.tensor = e.phase, e.range, e.stack, e.tensor
        self.managed_from = e.seq if e.managed else None
        self.refs, self.maps, self.handles = 1, 0, set()
        self.alive = []  # [from, to): seq of rows; to None while it lives

    def managed(self, seq=None):
        return self.managed_from is not None and (seq is None or self.managed_from <= seq)

    def lives_at(self, seq):
        return any(a <= seq and (b is None or seq < b) for a, b in self.alive)

    def counts(self, seq=None):
        """Whether it is part of its device's `allocated`."""
        return self.op == BLOCK or (self.space in COUNTED and not self.managed(seq))


class Totals:
    """The sums of one device."""

    def __init__(self):
        self.framework = self.base = self.driver = self.managed = 0
        self.pool = self.graph = self.arena = self.arena_managed = self.arena_told = self.away = 0
        self.pool_told = self.graph_told = 0
        self.managed_base = self.base_seq = 0  # held from before the recording: of the framework's reserved

    def direct(self):
        return self.driver + self.pool + self.graph + self.arena

    def allocated(self):
        return self.framework + self.base + self.direct()

    def reserved(self):
        return (self.driver + self.managed + self.managed_base + max(self.pool, self.pool_told) + max(self.graph, self.graph_told)
                + max(self.arena + self.arena_managed, self.arena_told + self.away) - self.away)

    def held(self):
        """What the driver has given for addresses, pools' reserves left out."""
        return self.driver + self.managed + self.pool + self.graph

    def curve(self, name):
        return {"allocated": self.allocated, "reserved": self.reserved, "direct": self.direct,
                "framework": lambda: self.framework + self.base,
                "managed_reserved": lambda: self.managed + self.managed_base + self.arena_managed,
                "unknown_use": lambda: 0}[name]()


class Replay:
    def __init__(self, recording, complain):
        self.r = recording
        self.complain = complain
        self.things = {}                 # by seq, all ever
        self.memory, self.blocks, self.handles = {}, {}, {}  # what lives, by address or handle
        self.spans = []                  # [start, end, Thing] of mappings
        self.bound = {}                  # (object, place) -> Thing
        self.objects = {}                # ('context' or 'module', handle) -> row
        self.pools, self.doubt = {}, set()
        self.totals, self.outside = {}, {}
        self.shown = {}                  # by device: allocated, reserved after its last row
        self.untold = {}                 # devices whose totals changed by a row of another one: that row
        self.stash = {}                  # seq of a free -> what to do where it failed
        self.due = set()                 # things whose end must be the next rows
        self.peak, self.outside_peak = {}, {}
        self.open, self.stacks = {}, {}  # ranges: by id; by thread, outermost first
        self.ranges = {}
        self.aways = []                  # rows of table away
        self.away_blocks = []            # rows of table away_block
        self.away_of, self.moved = {}, {}  # (device, thing's seq or 0) -> bytes, why; (device, why) -> out, back, times
        self.after = {}                  # seq -> {device: (allocated, reserved)}
        self.amends = {}
        self.unknown = 0
        self.step = 0
        self.all_late = {(m.seq, m.device, m.what): m for m in recording.table("mismatch") if m.what.startswith("late_")}
        self.totals_at = {}              # seq of a framework's report -> its device's framework, managed_reserved
        self.totals_all, self.outside_at = {}, {}  # of rows where memory ran out
        self.held_at = {}                # seq -> {device: (blocks, driver memory)}
        self.run()

    # ---- sums ----

    def total(self, device):
        return self.totals.setdefault(device, Totals())

    def account(self, thing, sign):
        t, size = self.total(thing.device), sign * thing.size
        if thing.op == BLOCK:
            t.framework += size
        elif thing.space == POOL:
            t.pool += size
        elif thing.space == GRAPH:
            t.graph += size
        elif thing.space == ARENA:
            if thing.managed():
                t.arena_managed += size
            else:
                t.arena += size
        elif thing.space in (DEVICE, ARRAY):
            if thing.managed():
                t.managed += size
            else:
                t.driver += size
        elif thing.space in OUTSIDE:
            self.outside[thing.space] = self.outside.get(thing.space, 0) + size

    def begin(self, thing, e):
        thing.alive.append((e.seq, None))
        self.things[thing.seq] = thing
        self.account(thing, +1)

    def end(self, thing, e):
        if not thing.alive or thing.alive[-1][1] is not None:
            self.wrong(e, f"ends {thing.seq}, which does not live")
            return
        thing.alive[-1] = (thing.alive[-1][0], e.seq)
        self.account(thing, -1)
        there = self.away_of.pop((thing.device, thing.seq), None)
        if there and there[0]:
            self.put_away(e, thing.device, thing.seq, there[0], 0, there[1])

    # ---- rows ----

    def wrong(self, e, what):
        self.complain(f"row {e.seq} ({self.r.ops.get(e.op, e.op)}): {what}")

    def expect(self, e, name, value):
        if getattr(e, name) != value:
            self.wrong(e, f"{name} is {getattr(e, name)}, should be {value}")

    def run(self):
        steps = {ALLOC: self.alloc, FREE: self.free, FREE_FAILED: self.failed, PHYS_CREATE: self.create,
                 RETAIN: self.retain, RELEASE: self.release, MAP: self.map, UNMAP: self.unmap, VA_FREE: self.va_free,
                 POOL_RESERVED: self.pool, BIND: self.bind, UNBIND: self.unbind, CONTEXT: self.object_made,
                 MODULE: self.object_made, CONTEXT_END: self.object_end, MODULE_END: self.object_end,
                 BLOCK: self.block, UNBLOCK: self.unblock, ARENA_RESERVED: self.arena, PUSH: self.push, POP: self.pop,
                 RECLASSIFY: self.reclassify, PHYS_FREED: self.freed, MISSED: self.missed, CONTEXT_FREED: self.freed,
                 STEP: self.stepped, AWAY: self.away_block}
        before = 0
        for e in self.r.events:
            if e.seq != before + 1 and "thinned_from_seq" not in self.r.meta:
                self.wrong(e, f"follows row {before}")
            before = e.seq
            for device, cause in self.untold.items():
                if (e.op, e.mate) != (FREE_FAILED, cause.mate):
                    self.wrong(cause, f"changes the totals of device {device}, and no row of that device says so")
            if self.due and e.op not in (PHYS_FREED, CONTEXT_FREED):
                self.wrong(e, f"comes before the end of {sorted(t.seq for t in self.due)}")
                self.due.clear()
            self.phase(e)
            self.only_where_it_means_something(e)
            steps.get(e.op, lambda e: None)(e)
            self.finish(e)
        self.last = before

    def finish(self, e):
        """The totals after the row: those that it says, and all devices' peaks."""
        t = self.total(e.device)
        late = self.all_late.get((e.seq, e.device, "late_allocated"))
        if late:
            self.compare_late(late, t.framework + t.base)
            t.base += late.theirs_bytes - (t.framework + t.base)
        late = self.all_late.get((e.seq, e.device, "late_reserved"))
        if late:
            self.compare_late(late, t.curve("managed_reserved"))
            t.managed_base, t.base_seq = late.theirs_bytes - t.curve("managed_reserved"), e.seq
        if e.op in (BLOCK, UNBLOCK, OOM):
            self.totals_at[e.seq] = t.curve("framework"), t.curve("managed_reserved")
        for name, value in (("framework", t.framework + t.base), ("direct", t.direct()), ("reserved", t.reserved())):
            if getattr(e, name) is not None:
                self.expect(e, name, value)
        for device, total in self.totals.items():
            now = total.allocated(), total.reserved()
            if device != e.device:
                if now != self.shown.get(device, (0, 0)):
                    self.untold.setdefault(device, e)
                continue
            self.shown[device] = now
            self.untold.pop(device, None)
            for name in CURVES:
                value, peak = total.curve(name), self.peak.setdefault((device, name), [0, 0, 0])
                if value > peak[0]:
                    peak[:] = [value, e.seq, e.t]
        for space, value in self.outside.items():
            peak = self.outside_peak.setdefault(space, [0, 0, 0])
            if value > peak[0]:
                peak[:] = [value, e.seq, e.t]
        self.held_at[e.seq] = {d: (t.framework, t.held()) for d, t in self.totals.items()}
        if e.status == 2 or e.op == OOM:
            self.totals_all[e.seq] = {d: {n: t.curve(n) for n in CURVES} | {"base": t.base} for d, t in self.totals.items()}
            self.outside_at[e.seq] = dict(self.outside)
        self.after[e.seq] = now = dict(self.shown)
        for r in self.open.values():
            self.grow(r, now, e.t)

    def compare_late(self, m, ours):
        if m.ours_bytes != ours:
            self.complain(f"mismatch {m.seq} '{m.what}': ours is {m.ours_bytes}, should be {ours}")

    def only_where_it_means_something(self, e):
        """Columns that few kinds of rows use are 0 in the others."""
        if e.op not in MATED and (e.mate > 1 or e.mate and e.op not in (LIMIT, OVERHEAD)):
            self.wrong(e, f"mate is {e.mate}, which means nothing there")
        if e.status and e.op not in FAILING:
            self.wrong(e, f"status is {e.status}: such a row has none")
        if e.stream and (e.op not in STREAMED or e.op == ALLOC and e.space not in (POOL, GRAPH, ARENA)
                         or e.op in (CONTEXT, CONTEXT_END) and e.stream > 3):
            self.wrong(e, f"stream is {e.stream}, which means nothing there")

    def phase(self, e):
        if e.op in (PUSH, POP):
            return  # theirs is the range's own
        row = self.r.ranges.get(e.range)
        expected = row.phase if row else 0
        thread = self.r.threads.get(e.thread)
        if not expected and thread and thread.autograd and (e.op < PUSH or e.op >= RECLASSIFY):
            expected = BACKWARD
        self.expect(e, "phase", expected)

    # ---- driver memory ----

    def alloc(self, e):
        if e.status:
            return
        if e.address in self.memory:
            self.wrong(e, f"its address is that of {self.memory[e.address].seq}, which lives")
        thing = Thing(e)
        self.memory[e.address] = thing
        self.begin(thing, e)

    def free(self, e):
        thing = self.memory.pop(e.address, None)
        self.expect(e, "mate", thing.seq if thing else 0)
        self.expect(e, "size", thing.size if thing else 0)
        if thing is None:
            self.unknown += 1
            self.stash[e.seq] = lambda again: self.count_unknown(-1)
            return
        self.expect(e, "device", thing.device)
        self.expect(e, "space", thing.space)
        self.end(thing, e)
        undo = []
        if thing.space == ARRAY:
            undo += self.object_gone(e.address)
        self.stash[e.seq] = lambda again: (self.back(thing, again), [u(again) for u in undo])

    def count_unknown(self, n):
        self.unknown += n

    def back(self, thing, e):
        """It lives on, unless its address was given to another."""
        table = self.blocks if thing.op == BLOCK else self.memory
        if thing.op != PHYS_CREATE:
            if thing.address in table:
                return
            table[thing.address] = thing
        thing.alive.append((e.seq, None))
        self.account(thing, +1)

    def failed(self, e):
        if self.untold.get(e.device) and self.untold[e.device].mate == e.mate:
            return  # the same failure, on another device
        undo = self.stash.pop(e.mate, None)
        if not e.mate:
            self.wrong(e, "no free is named")
            return
        if undo is None:
            self.wrong(e, f"row {e.mate} is no free that could have failed")
            return
        freed = self.r.by_seq[e.mate]
        if freed.address != e.address:
            self.wrong(e, f"row {e.mate} was of another address")
        self.amends[e.mate] = (FREE_FAILED, e.seq)
        undo(e)

    def missed(self, e):
        for table in (self.memory, self.blocks):
            thing = table.get(e.address)
            if thing and thing.seq == e.mate:
                del table[e.address]
                self.end(thing, e)
                return
        thing = self.handles.pop(e.address, None)
        if not thing or thing.seq != e.mate:
            self.wrong(e, f"{e.mate} does not live there")
            return
        self.end(thing, e)

    # ---- physical memory ----

    def create(self, e):
        if e.status:
            return
        thing = Thing(e)
        old = self.handles.get(e.address)
        if old:
            if not old.maps:
                self.wrong(e, f"its handle is that of {old.seq}, which lives")
            old.refs = 0
            self.forget_handles(old)
        self.handles[e.address] = thing
        thing.handles.add(e.address)
        self.begin(thing, e)

    def forget_handles(self, thing):
        for handle in thing.handles:
            if self.handles.get(handle) is thing:
                del self.handles[handle]

    def retain(self, e):
        if e.status:
            return
        thing = self.memory.get(e.address)
        if thing and thing.space == IMPORTED:  # opened again
            self.expect(e, "mate", thing.seq)
            thing.refs += 1
            return
        if e.mate == e.seq or e.space == IMPORTED and e.address not in self.handles:
            thing = Thing(e, PHYS_CREATE)
            thing.size = 0
            self.begin(thing, e)
        else:
            thing = self.handles.get(e.address) or self.things.get(e.mate)
            if thing is None:
                self.wrong(e, "nothing is retained")
                return
            thing.refs += 1
        self.expect(e, "mate", thing.seq)
        thing.handles.add(e.address)
        self.handles[e.address] = thing

    def release(self, e):
        thing = self.memory.get(e.address)
        if thing and thing.space == IMPORTED:
            self.expect(e, "mate", thing.seq)
            self.expect(e, "size", 0)
            if thing.refs < 2:
                self.wrong(e, "this is its last reference: a free")
            thing.refs -= 1
            self.stash[e.seq] = lambda again: setattr(thing, "refs", thing.refs + 1)
            return
        thing = self.handles.get(e.address)
        self.expect(e, "mate", thing.seq if thing else 0)
        if thing is None:
            self.unknown += 1
            self.stash[e.seq] = lambda again: self.count_unknown(-1)
            return
        thing.refs -= 1
        last = thing.refs == 0 and thing.maps == 0
        self.expect(e, "size", thing.size if last else 0)
        if thing.refs == 0:
            self.forget_handles(thing)
        undo = []
        if last:
            self.end(thing, e)
            if thing.space == MULTICAST:
                undo = self.object_gone(e.address)

        def again(row):
            thing.refs += 1
            self.handles[e.address] = thing
            if last:
                self.back(thing, row)
            for u in undo:
                u(row)
        self.stash[e.seq] = again

    def refused(self, e):
        """What a call that failed was given is physical memory, or not known."""
        thing = self.things.get(e.mate)
        if e.mate and (thing is None or thing.op != PHYS_CREATE):
            self.wrong(e, f"{e.mate} is no physical memory")

    def map(self, e):
        if e.status:
            return self.refused(e)
        thing = self.things.get(e.mate)
        if e.mate == 0:
            return
        if thing is None or thing.op != PHYS_CREATE or thing.alive[-1][1] is not None:
            self.wrong(e, f"maps {e.mate}, which is no living physical memory")
            return
        for start, end, other in self.spans:
            if start < e.address + e.size and e.address < end:
                self.wrong(e, f"lies over the mapping of {other.seq}")
        insort(self.spans, (e.address, e.address + e.size, thing), key=lambda s: s[0])
        thing.maps += 1

    def unheld(self, thing):
        """A mapping or binding of it is gone; what can take that back."""
        thing.maps -= 1
        ended = thing.refs == 0 and thing.maps == 0
        if ended:
            self.due.add(thing)

        def again(row):
            thing.maps += 1
            if ended and thing.alive[-1][1] is not None:
                self.amends[thing.alive[-1][1]] = (FREE_FAILED, row.seq)
                self.back(thing, row)
        return again

    def unmap(self, e):
        gone = [s for s in self.spans if e.address <= s[0] < e.address + e.size]
        self.spans = [s for s in self.spans if s not in gone]
        undo = [self.unheld(s[2]) for s in gone]

        def again(row):
            for s, u in zip(gone, undo):
                insort(self.spans, s, key=lambda x: x[0])
                u(row)
        self.stash[e.seq] = again

    def va_free(self, e):
        self.stash[e.seq] = lambda again: None

    def bind(self, e):
        thing = self.things.get(e.mate)
        if e.status:
            return self.refused(e)
        if not e.mate:
            return
        if thing is None or thing.op != PHYS_CREATE or thing.alive[-1][1] is not None:
            self.wrong(e, f"binds {e.mate}, which is no living physical memory")
            return
        old = self.bound.get((e.address, e.stream))
        self.bound[e.address, e.stream] = thing
        thing.maps += 1
        if old:
            self.unheld(old)

    def unbind(self, e):
        size = max(e.size, 1) if e.space == MULTICAST else 1
        gone = [k for k in self.bound if k[0] == e.address and 0 <= k[1] - e.stream < size]
        mates = [self.bound[k].seq for k in gone]
        if e.mate not in (mates or [0]):
            self.wrong(e, f"ends none of the bindings of {mates}")
        undo = self.unbound(gone)

        def again(row):
            for u in undo:
                u(row)
        self.stash[e.seq] = again

    def unbound(self, keys):
        """Bindings end; what takes each back."""
        undo = []
        for key in keys:
            thing = self.bound.pop(key)
            u = self.unheld(thing)
            undo.append(lambda row, key=key, thing=thing, u=u: (self.bound.__setitem__(key, thing), u(row)))
        return undo

    def object_gone(self, address):
        """What was bound into an object goes with it."""
        return self.unbound([k for k in self.bound if k[0] == address])

    def freed(self, e):
        """A row of the ledger's own: it ends what the row before it left without anything that holds it."""
        thing = self.things.get(e.mate)
        if e.op == CONTEXT_FREED and thing is None:
            made = self.objects.get(("module", e.address))
            if made is None or made.seq != e.mate:
                self.wrong(e, f"{e.mate} is no module that lives")
                return
            del self.objects["module", e.address]
            self.due.discard(made)
            return
        if thing not in self.due:
            self.wrong(e, f"nothing says that {e.mate} ended")
            return
        self.due.discard(thing)
        self.expect(e, "size", thing.size)
        self.expect(e, "device", thing.device)
        if e.op == CONTEXT_FREED:
            self.memory.pop(thing.address, None)
            if thing.space == ARRAY:
                self.pending_undo += self.object_gone(thing.address)
        else:
            self.forget_handles(thing)
        self.end(thing, e)

    # ---- contexts, modules, pools ----

    def object_made(self, e):
        if not e.status:
            self.objects["context" if e.op == CONTEXT else "module", e.address] = e

    def object_end(self, e):
        kind = "context" if e.op == CONTEXT_END else "module"
        made = self.objects.pop((kind, e.address), None)
        self.expect(e, "mate", made.seq if made else 0)
        ended, modules, undo = [], [], []
        self.pending_undo = undo
        if kind == "context" and e.context not in (0, 255):
            ended = [m for m in self.memory.values() if m.context == e.context and m.space not in (POOL, GRAPH)]
            modules = [o for (k, _), o in self.objects.items() if k == "module" and o.context == e.context]
            self.due |= set(ended) | set(modules)
        if kind == "context" and e.stream == PRIMARY:
            self.doubt |= {(e.device, POOL), (e.device, GRAPH)}

        def again(row):
            if made:
                self.objects[kind, e.address] = made
            for m in modules:
                self.objects["module", m.address] = m
            for thing in ended:
                if thing.alive[-1][1] is not None:
                    self.back(thing, row)
            for u in undo:
                u(row)
            ends = [x for x in self.r.events if e.seq < x.seq < row.seq and x.op == CONTEXT_FREED
                    and x.mate in {m.seq for m in ended + modules}]
            for x in ends:
                self.amends[x.seq] = (FREE_FAILED, row.seq)
            self.doubt -= {(e.device, POOL), (e.device, GRAPH)}
        self.stash[e.seq] = again

    def pool(self, e):
        before = self.pools.get(e.address, 0)
        self.pools[e.address] = e.size
        t, graph = self.total(e.device), e.space == GRAPH
        if graph:
            t.graph_told += e.size - before
        else:
            t.pool_told += e.size - before
        key = (e.device, GRAPH if graph else POOL)
        if key in self.doubt and before and not e.size:
            self.pending_undo = []
            self.due |= {m for m in self.memory.values() if m.space == key[1] and m.device == e.device}
        self.doubt.discard(key)

    def arena(self, e):
        t = self.total(e.device)
        if t.away != e.address:
            self.aways.append((e.seq, e.t, e.device, e.address))
        t.arena_told, t.away = e.size, e.address

    def put_away(self, e, device, seq, before, now, why):
        why = WHY_AWAY.get(why, "unknown")
        out, back, times = self.moved.get((device, why), (0, 0, 0))
        times += now > before and out == back
        self.moved[device, why] = out, back, times = out + max(now - before, 0), back + max(before - now, 0), times
        self.away_blocks.append((e.seq, e.t, device, seq, now, why, out, back, times))

    def away_block(self, e):
        things = [t for t in (self.blocks.get(e.address), self.memory.get(e.address)) if t and t.space == ARENA]
        seq, device = (things[0].seq, things[0].device) if things else (0, e.device)
        self.expect(e, "mate", seq)
        before = self.away_of.get((device, seq), (0, 0))[0]
        if e.size != before and (things or not e.address):
            self.put_away(e, device, seq, before, e.size, e.stream)
            self.away_of[device, seq] = e.size, e.stream

    # ---- a framework's blocks ----

    def block(self, e):
        if e.address in self.blocks:
            self.wrong(e, f"its address is that of block {self.blocks[e.address].seq}, which lives")
        for thing in self.memory.values():
            if (thing.space in (DEVICE, ARENA) and not thing.managed() and thing.device == e.device
                    and thing.address < e.address + e.size and e.address < thing.address + thing.size):
                self.wrong(e, f"lies in {thing.seq}, which is called direct")
        thing = Thing(e)
        self.blocks[e.address] = thing
        self.begin(thing, e)

    def unblock(self, e):
        thing = self.blocks.pop(e.address, None)
        self.expect(e, "mate", thing.seq if thing else 0)
        if thing:
            self.expect(e, "size", thing.size)
            self.end(thing, e)
            return
        t = self.total(e.device)
        if t.base >= e.size:
            t.base -= e.size

    def reclassify(self, e):
        thing = self.things.get(e.mate)
        if thing is None or not thing.alive or thing.alive[-1][1] is not None or thing.managed():
            self.wrong(e, f"{e.mate} is no direct allocation that lives")
            return
        self.expect(e, "size", thing.size)
        self.account(thing, -1)
        thing.managed_from = e.seq
        self.account(thing, +1)
        t = self.total(thing.device)  # what was taken for older than the recording was this
        if thing.seq < t.base_seq:
            t.managed_base -= min(t.managed_base, thing.size)
        self.amends[thing.seq] = (RECLASSIFY, e.seq)

    # ---- ranges ----

    def stepped(self, e):
        self.step += 1

    def grow(self, r, now, t):
        for device, (allocated, reserved) in now.items():
            peak = r.peak.setdefault(device, [0, 0, r.t_push])
            if allocated > peak[0]:
                peak[0], peak[2] = allocated, t
            peak[1] = max(peak[1], reserved)

    def push(self, e):
        row = self.r.ranges.get(e.range)
        if row is None:
            self.wrong(e, f"table rng has no range {e.range}")
            return
        stack = self.stacks.setdefault(e.thread, [])
        r = SimpleNamespace(id=e.range, row=row, phase=row.phase, thread=e.thread, t_push=e.t, t_pop=None, first_seq=e.seq,
                            cross=bool(row.flags & 2), peak={}, end={}, parent=0, outermost=True, step=self.step + 1)
        if not r.cross:
            r.parent = stack[-1].id if stack else 0
            r.outermost = all(s.phase != r.phase for s in stack)
            stack.append(r)
        self.grow(r, self.shown, e.t)
        self.open[e.range] = self.ranges[e.range] = r
        self.expect(e, "phase", r.phase)

    def pop(self, e):
        r = self.open.pop(e.range, None)
        if r is None:
            self.wrong(e, f"range {e.range} is not open")
            return
        self.expect(e, "phase", r.phase)
        r.t_pop, r.pop_seq = e.t, e.seq
        r.end = {d: t.allocated() for d, t in self.totals.items()}
        if not r.cross:
            self.stacks[r.thread].remove(r)
