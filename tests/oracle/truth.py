"""The recording against what the program itself wrote down (random.h: the log).

Each thread's rows must be its calls, in order. With one thread the sums must be what the program holds after each call; with
several they lie between what it certainly held and what it may have held.
"""
from replay import (ALLOC, BIND, BLOCK, CONTEXT, CONTEXT_END, FREE, FREE_FAILED, MAP, MARKED, MODULE, MODULE_END, OOM, PHYS_CREATE,
                    POP, PUSH, RELEASE, RETAIN, STEP, UNBIND, UNBLOCK, UNMAP, VA_FREE, VA_RESERVE)

from tables import CONTEXTS

CALLED = {ALLOC, FREE, FREE_FAILED, PHYS_CREATE, RETAIN, RELEASE, MAP, UNMAP, VA_RESERVE, VA_FREE, BIND, UNBIND, CONTEXT,
          CONTEXT_END, MODULE, MODULE_END, BLOCK, UNBLOCK, OOM, PUSH, POP, MARKED, STEP}
PHASES = ("forward", "logits", "backward", "optimizer")
APIS = {"alloc device": ("cuMemAlloc_v2", "cuMemAllocPitch_v2"), "alloc managed": ("cuMemAllocManaged",),
        "alloc pinned": ("cuMemHostAlloc", "cuMemAllocHost_v2"), "alloc registered": ("cuMemHostRegister_v2",),
        "alloc pool": ("cuMemAllocAsync", "cuMemAllocFromPoolAsync"), "alloc graph": ("cuGraphLaunch",),
        "alloc array": ("cuArrayCreate_v2", "cuArray3DCreate_v2", "cuMipmappedArrayCreate"),
        "alloc imported": ("cuImportExternalMemory",), "segment": ("cuMemAlloc_v2",), "open": ("cuIpcOpenMemHandle_v2",),
        "create": ("cuMemCreate",), "release": ("cuMemRelease",), "unmap": ("cuMemUnmap",), "reserve": ("cuMemAddressReserve",),
        "vafree": ("cuMemAddressFree",), "multicast": ("cuMulticastCreate",), "retain": ("cuMemRetainAllocationHandle",),
        "close": ("cuIpcCloseMemHandle",), "destroy": ("cuCtxDestroy_v2",), "reset": ("cuDevicePrimaryCtxReset_v2",),
        "module": ("cuModuleLoadData", "cuLibraryLoadData"), "unload": ("cuModuleUnload", "cuLibraryUnload"),
        "free": ("cuMemFree_v2", "cuMemFreeAsync", "cuMemFreeHost", "cuMemHostUnregister", "cuArrayDestroy",
                 "cuMipmappedArrayDestroy", "cuDestroyExternalMemory")}


class Held:
    """What the program holds, from its log alone."""

    def __init__(self):
        self.memory = {}  # address: [space, device, context, size, references]
        self.physical = {}  # handle: [size, device, references, mappings, identity]
        self.mapped, self.bound = {}, {}
        self.blocks, self.framework = {}, {}

    def driver(self, device):
        known = {id(p): p for p in [*self.physical.values(), *self.mapped.values(), *self.bound.values()]}
        return (sum(m[3] for m in self.memory.values() if m[1] == device and m[0] in ("device", "array", "pool", "graph"))
                + sum(p[0] for p in known.values() if p[1] == device))


class Truth:
    def __init__(self, recording, replay, log, complain):
        self.r, self.x, self.complain = recording, replay, complain
        self.facts, self.lines = {}, {}
        for line in open(log):
            words = line.split()
            if words[0] == "#":
                self.facts.setdefault(words[1], []).append(words[2:])
            else:
                self.lines.setdefault(int(words[0]), []).append(words[1:])
        self.single = int(self.facts["threads"][0][0]) == 1
        self.held = Held()
        self.differences = {}

    def check(self):
        rows = {}
        for e in self.r.events:
            # a graph's failed launch, and ranges that ended with their thread, are in no log
            if e.op in CALLED and not (e.op == ALLOC and e.space == 10 and e.status):
                rows.setdefault(e.thread, []).append(e)
        for number, lines in self.lines.items():
            lines = list(self.one_row_each(self.without_empty_pops(lines)))
            self.compare(number, lines, rows.pop(self.thread_of(number), []))
        for thread, left in rows.items():
            if any(e.op != POP for e in left):
                self.complain(f"thread {thread} is no thread of the program's")
        self.sums()

    def thread_of(self, number):
        """The program's threads have their number in their names."""
        return next((t.id for t in self.r.threads.values() if t.name == f"random {number}"), None)

    # ---- one thread's calls ----

    def one_row_each(self, lines):
        """A call that gives back and fails has a second row, which takes it back."""
        for line in lines:
            yield line
            if line[0] in ("free", "release", "unmap", "vafree", "unload", "destroy", "reset", "unbind", "close") and int(line[-1]):
                yield ["failed", *line]

    def fits(self, line, e):
        verb, words = line[0], [int(w) if w.lstrip("-").isdigit() else w for w in line[1:]]
        if verb == "alloc":
            space, device, context, address, size, status = words
            return (e.op == ALLOC and self.r.spaces[e.space] == space and (e.status, e.address) == (status, address)
                    and (e.size == size or status) and e.device == (-1 if space in ("pinned", "registered") and not status else device if not status else e.device))
        if verb == "segment":
            device, context, address, size, status = words
            return e.op == ALLOC and (e.space, e.device, e.address, e.size, e.status) == (1, device, address, size, status)
        if verb == "open":
            context, address, size, status = words
            return e.op in (ALLOC, RETAIN) and e.space == 7 and (e.address, e.status) == (address, status) and (e.op == RETAIN or e.size == size)
        if verb in ("free", "close"):
            return e.op in (FREE, RELEASE) and e.address == words[0]
        if verb == "failed":
            return e.op == FREE_FAILED and e.status == words[-1] and (words[0] == "reset" or e.address == words[1])
        if verb in ("create", "multicast"):
            handle, size, status = words[0], words[1], words[3] if verb == "create" else words[2]
            device = -1 if verb == "multicast" or words[2] < 0 else words[2]
            return e.op == PHYS_CREATE and (e.address, e.size, e.status, e.device) == (handle, size, status, device)
        if verb in ("retain", "release"):
            return e.op == (RETAIN if verb == "retain" else RELEASE) and e.address == words[0]
        if verb in ("reserve", "vafree", "map", "unmap"):
            op = {"reserve": VA_RESERVE, "vafree": VA_FREE, "map": MAP, "unmap": UNMAP}[verb]
            return e.op == op and (e.address, e.size) == (words[0], words[1]) and e.status == (words[-1] if verb in ("reserve", "map") else 0)
        if verb in ("bind", "unbind"):
            return e.op == (BIND if verb == "bind" else UNBIND) and e.address == words[0] and e.status == (words[-1] if verb == "bind" else 0)
        if verb == "context":
            return e.op == CONTEXT and (e.address, e.device, e.status) == (words[0], words[1] if not words[2] else e.device, words[2])
        if verb == "destroy":
            return e.op == CONTEXT_END and e.address == words[0]
        if verb == "reset":
            return e.op == CONTEXT_END and e.device == words[0]
        if verb in ("module", "unload"):
            return e.op == (MODULE if verb == "module" else MODULE_END) and e.address == words[0]
        if verb in ("block", "unblock", "oom"):
            op = {"block": BLOCK, "unblock": UNBLOCK, "oom": OOM}[verb]
            return e.op == op and (e.device, e.address, e.size) == tuple(words[:3])
        if verb in ("push", "start"):
            row = self.r.ranges.get(e.range)
            domain = words[1] if verb == "push" and words[1] != "-" else None
            return (e.op == PUSH and row is not None and self.r.strings.get(row.name) == words[-1]
                    and (self.r.strings.get(row.domain) or None) == domain and row.source == (words[0] if verb == "push" else 2)
                    and row.flags & 2 == (0 if verb == "push" else 2))
        if verb in ("pop", "end"):
            return e.op == POP
        return e.op == {"mark": MARKED, "step": STEP}[verb]

    def compare(self, number, expected, events):
        stack = []
        for line, e in zip(expected, events):
            if not self.fits(line, e):
                self.complain(f"log: thread {number} did '{' '.join(map(str, line))}', row {e.seq} is {self.r.ops[e.op]} of "
                              f"{e.address} {e.size} status {e.status} device {e.device}")
                return
            self.called(line, e)
            self.follow(line, e)
            self.expected_phase(number, line, e, stack)
            if line[0] in ("block", "unblock", "oom"):
                self.report(line, e)
        rest = events[len(expected):]
        if len(expected) > len(events) or any(e.op != POP for e in rest):
            self.complain(f"log: thread {number} made {len(expected)} calls, recorded are {len(events)}")

    def called(self, line, e):
        """The driver's function that the row names is one that the program uses for this."""
        key = line[0] if line[0] != "alloc" else f"alloc {line[1]}"
        api = self.r.apis.get(e.api)
        context = {"alloc": 3, "segment": 2, "open": 1}.get(line[0])
        if context and len(self.r.contexts) < CONTEXTS and line[1] not in ("pool", "graph") and not int(line[-1]):
            got = self.r.contexts[e.context].handle if e.context in self.r.contexts else 0
            if got != int(line[context]):
                self.complain(f"row {e.seq}: its context is {got}, the program's was {line[context]}")
        if key in APIS and api not in APIS[key]:
            self.complain(f"row {e.seq}: '{' '.join(line)}' is said to have called {api}")

    def without_empty_pops(self, lines):
        """A pop that finds nothing of its kind is none."""
        open_ranges = {}
        for line in lines:
            if line[0] == "push":
                open_ranges[tuple(line[1:3])] = open_ranges.get(tuple(line[1:3]), 0) + 1
            if line[0] == "pop":
                if not open_ranges.get(tuple(line[1:3])):
                    continue
                open_ranges[tuple(line[1:3])] -= 1
            yield line

    def expected_phase(self, number, line, e, stack):
        """The innermost range that names a phase: markers before NVTX before automatic ones."""
        if line[0] == "push":
            phase = line[3] if line[1] != "2" or line[3] in PHASES else None
            stack.append((line[1], line[2], phase))
        elif line[0] == "pop":
            at = max(i for i, s in enumerate(stack) if s[:2] == tuple(line[1:3]))
            del stack[at]
        elif e.op not in (PUSH, POP):
            naming = [s for s in reversed(stack) if s[2]]
            best = min(naming, key=lambda s: s[0], default=None)
            if best and self.r.phases[e.phase] != best[2]:
                self.complain(f"row {e.seq}: its phase is {self.r.phases[e.phase]}, the program was in {best[2]}")
            if not best and self.single and e.phase:
                self.complain(f"row {e.seq}: its phase is {self.r.phases[e.phase]}, the program was in none")

    def report(self, line, e):
        """The allocator's own totals, against ours: differences are in table mismatch, each change once."""
        ours = self.x.totals_at[e.seq]
        for what, own, said in (("allocated", ours[0], int(line[4])), ("reserved", ours[1], int(line[5]))):
            late = (e.seq, e.device, f"late_{what}") in self.x.all_late
            difference = 0 if late else own - said
            if what == "allocated" and difference:
                self.complain(f"row {e.seq}: framework_bytes {own}, its allocator says {said}")
            self.differences.setdefault((e.device, what), []).append((e.seq, difference, own, said))

    # ---- what is held ----

    def follow(self, line, e):
        if not self.single:
            return
        h, verb = self.held, line[0]
        words = [int(w) if w.lstrip("-").isdigit() else w for w in line[1:]]
        if verb in ("free", "release", "unmap", "destroy", "reset", "unbind", "close") and words[-1]:
            return  # it failed: the row that says so is the one to look at
        if verb == "alloc" and not words[5]:
            h.memory[words[3]] = [words[0], words[1], words[2], words[4], 1]
        elif verb == "segment" and not words[4]:
            h.memory[words[2]] = ["device", words[0], words[1], words[3], 1]
        elif verb == "open" and not words[3]:
            if words[1] in h.memory:
                h.memory[words[1]][4] += 1
            else:
                h.memory[words[1]] = ["imported", -1, words[0], words[2], 1]
        elif verb in ("free", "close"):
            h.memory[words[0]][4] -= 1
            if not h.memory[words[0]][4]:
                del h.memory[words[0]]
            self.drop_bound(words[0])
        elif verb == "create" and not words[3] or verb == "multicast" and not words[2]:
            h.physical[words[0]] = [words[1], words[2] if verb == "create" else -1, 1]
        elif verb == "retain" and not words[2]:
            thing = h.mapped[words[1]]
            thing[2] += 1
            h.physical[words[0]] = thing
        elif verb == "release":
            h.physical[words[0]][2] -= 1
            if not h.physical[words[0]][2]:
                gone = h.physical[words[0]]
                for handle in [k for k, v in h.physical.items() if v is gone]:
                    del h.physical[handle]
                self.drop_bound(words[0])
        elif verb == "map" and not words[3]:
            h.mapped[words[0]] = h.physical[words[2]]
        elif verb == "unmap":
            for start in [a for a in h.mapped if words[0] <= a < words[0] + words[1]]:
                del h.mapped[start]
        elif verb == "bind" and not words[2]:
            h.bound[words[0]] = h.physical[words[1]]
        elif verb == "unbind":
            self.drop_bound(words[0])
        elif verb == "destroy" or verb == "reset":
            self.context_gone(verb, words)
        elif verb == "block":
            h.blocks[words[1]] = words[2]
            h.framework[words[0]] = h.framework.get(words[0], 0) + words[2]
        elif verb == "unblock":
            h.framework[words[0]] -= h.blocks.pop(words[1])
        if verb == "context":
            h.memory_context = getattr(h, "memory_context", {})
            h.memory_context[words[0]] = words[1]
        self.totals_agree(e, verb)

    def drop_bound(self, key):
        self.held.bound.pop(key, None)

    def context_gone(self, verb, words):
        h = self.held
        for address, m in list(h.memory.items()):
            device = words[0] if verb == "reset" else None
            of_device = m[0] in ("pool", "graph")
            if (of_device and m[1] == device) or (not of_device and m[2] in
                                                  ([words[0]] if verb == "destroy" else [c for c, d in h.memory_context.items() if d == device and c in self.primaries()])):
                del h.memory[address]

    def primaries(self):
        return {int(line[1]) for line in self.lines[0][:2] if line[0] == "context"}

    def totals_agree(self, e, verb):
        if verb in ("unmap", "release", "destroy", "reset", "unbind", "free"):
            return  # rows of the recorder's own may follow: looked at with the next call
        for device, (framework, driver) in self.x.held_at[e.seq].items():
            if device < 0:
                continue
            if (framework, driver) != (self.held.framework.get(device, 0), self.held.driver(device)):
                self.complain(f"row {e.seq}: device {device} has {framework} of blocks and {driver} of the driver's, the program holds "
                              f"{self.held.framework.get(device, 0)} and {self.held.driver(device)}")

    # ---- sums ----

    def reports_that_differ(self):
        """How many of the framework's reports did not agree, by device: as its allocated or its reserved."""
        seqs = {}
        for (device, _), reports in self.differences.items():
            seqs.setdefault(device, set()).update(seq for seq, difference, _, _ in reports if difference)
        for device, differ in seqs.items():
            got = sum(c.value for c in self.r.table("counter") if c.device == device and c.name == "framework_reports_in_mismatch")
            if got != len(differ):
                self.complain(f"counter 'framework_reports_in_mismatch' of device {device}: {got}, should be {len(differ)}")

    def sums(self):
        self.reports_that_differ()
        expected = set()
        for (device, what), reports in self.differences.items():
            before = 0
            for seq, difference, own, said in sorted(reports):
                if difference != before:
                    expected.add((seq, device, what, own, said))
                before = difference
        got = {(m.seq, m.device, m.what, m.ours_bytes, m.theirs_bytes) for m in self.r.table("mismatch") if m.what in ("allocated", "reserved")}
        if got != expected:
            self.complain(f"mismatch: {sorted(got)}, should be {sorted(expected)}")
        for device, now, peak in ((int(f[0]), int(f[1]), int(f[2])) for f in self.facts["framework"]):
            total = self.x.totals.get(device)
            got = (total.framework, self.x.peak[device, "framework"][0]) if total else (0, 0)
            if got != (now, peak):
                self.complain(f"blocks of device {device}: {got} at the end and at most, the allocator counted {(now, peak)}")
        for words in self.facts["held"]:
            device, low, high, max_low, max_high = map(int, words)
            total = self.x.totals.get(device)
            now = total.held() if total else 0
            most = max((h[device][1] for h in self.x.held_at.values() if device in h), default=0)
            if not low <= now <= high:
                self.complain(f"device {device} has {now} at the end, the program holds {low}")
            if not max_low <= most <= max_high:
                self.complain(f"device {device} had {most} at most, the program held between {max_low} and {max_high}")
            if self.single and max_low == max_high and self.x.peak.get((device, "allocated"), [0])[0] > max_high:
                self.complain(f"device {device}: the peak is above what was held, {max_high}")
