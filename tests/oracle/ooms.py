"""When memory ran out: which of the refusals reached the program, and what stood then.

A refusal by the driver opens an episode of its thread, to which the same request refused again belongs. It closes

    absorbed   the same request is granted, and it or the thread's next block shows that the framework has it; of physical memory, which
               is asked for in pieces, only the block shows it
    reported   the framework says so itself (op 22), on the same device, for no more than was refused
    reached    the thread does anything else that a caching allocator would not do in between, or nothing more
"""
from replay import ALLOC, BLOCK, CONTEXT, FREE_FAILED, LIMIT, MARKED, OOM, OVERHEAD, PHYS_CREATE, POP, PUSH, SAMPLE, STEP

FIRST, LAST, LARGEST = 1, 2, 4
REFUSED = 2
SAMPLED_AT_OOM = 4


class Ooms:
    def __init__(self, recording, replay, complain):
        self.r, self.x, self.complain = recording, replay, complain
        self.open = {}     # thread: [refusals in a row]
        self.retried = {}  # thread: the same request, granted, of which nobody knows yet whose it is
        self.kept = {}     # (device, role): (row, refusals)
        self.absorbed = self.reported = 0

    def check(self):
        for e in self.r.events:
            self.row(e)
        for thread in sorted(self.open, key=lambda t: self.open[t][-1].seq):
            self.reached(self.open[thread])
        expected = {}
        for (_, role), (e, episode) in self.kept.items():
            old = expected.setdefault(e.seq, [0, e, episode])
            old[0] |= role
        rows = {o.seq: o for o in self.r.table("oom")}
        if {s: o.role for s, o in rows.items()} != {s: v[0] for s, v in expected.items()}:
            self.complain(f"oom: roles {({s: o.role for s, o in rows.items()})}, should be {({s: v[0] for s, v in expected.items()})}")
        for seq in rows.keys() & expected.keys():
            self.columns(rows[seq], *expected[seq][1:])
        for name, value in (("driver_out_of_memory_absorbed", self.absorbed), ("driver_out_of_memory_reported", self.reported)):
            got = sum(c.value for c in self.r.table("counter") if c.name == name)
            if got != value:
                self.complain(f"counter '{name}': {got}, should be {value}")

    # ---- episodes ----

    def asks(self, e):
        return (e.op < BLOCK or e.op in (LIMIT, OVERHEAD)) and e.op != FREE_FAILED

    def requested(self, e):
        return e.size if e.op < CONTEXT or e.op == OOM else 0

    def request(self, e):
        return e.op, e.api, self.requested(e), e.space, e.device

    def row(self, e):
        thread = e.thread
        if e.op == OOM:
            self.gave_up(e)
        elif e.status == REFUSED and self.asks(e):
            episode = self.open.get(thread)
            if episode and self.request(episode[-1]) == self.request(e):
                episode.append(e)
                self.retried.pop(thread, None)
                return
            self.close(thread, self.reached)
            self.open[thread] = [e]
        elif thread in self.open:
            self.watch(e)

    def watch(self, e):
        thread = e.thread
        if e.op in (ALLOC, PHYS_CREATE) and not e.status:
            if self.request(e) != self.request(self.open[thread][-1]):
                self.close(thread, self.reached)
            elif e.managed and e.op == ALLOC:
                self.close(thread, self.absorb)
            else:
                self.retried[thread] = self.x.things[e.seq]
        elif e.op == BLOCK:
            thing = self.retried.get(thread)
            self.close(thread, self.absorb if thing and thing.lives_at(e.seq) and thing.managed(e.seq) else self.reached)
        elif e.op in (PUSH, POP, MARKED, STEP):
            self.close(thread, self.reached)

    def close(self, thread, how):
        if thread in self.open:
            how(self.open.pop(thread))
            self.retried.pop(thread, None)

    def absorb(self, episode):
        self.absorbed += len(episode)

    def gave_up(self, e):
        episode = self.open.get(e.thread)
        inner = episode and episode[-1].device == e.device and (episode[-1].op == PHYS_CREATE or episode[-1].size >= e.size)
        if inner:
            self.reported += len(episode)
            del self.open[e.thread]
            self.retried.pop(e.thread, None)
        else:
            self.close(e.thread, self.reached)
        self.keep(e, e, episode if inner else [])

    def reached(self, episode):
        self.keep(episode[0], episode[-1], episode)

    def keep(self, first, last, episode):
        device = last.device
        kept = self.kept.get((device, FIRST))
        if kept is None or kept[0].seq > first.seq:
            self.kept[device, FIRST] = first, episode[:1] if first is not last else episode
        kept = self.kept.get((device, LARGEST))
        if kept is None or (self.requested(kept[0]), -kept[0].seq) < (self.requested(last), -last.seq):
            self.kept[device, LARGEST] = last, episode
        kept = self.kept.get((device, LAST))
        if kept is None or kept[0].seq < last.seq:
            self.kept[device, LAST] = last, episode

    # ---- columns ----

    def columns(self, o, e, episode):
        t = self.x.totals_all[e.seq].get(e.device)
        refused = 0 if not episode else self.requested(episode[-1]) if e.op == OOM else self.requested(e)
        expected = {"t_ns": e.t, "device": e.device, "op": e.op, "space": e.space, "context": e.context, "api": e.api or None,
                    "thread": e.thread, "phase": e.phase, "range": e.range, "requested_bytes": self.requested(e),
                    "asked_driver_bytes": refused, "refusals": len(episode)}
        if t:
            expected |= {"framework_bytes": t["framework"], "direct_bytes": t["direct"], "reserved_bytes": t["reserved"],
                         "managed_reserved_bytes": t["managed_reserved"], "base_bytes": t["base"],
                         "unknown_use_bytes": t["unknown_use"]}
        expected |= {"pinned_bytes": self.x.outside_at[e.seq].get(4, 0), "registered_bytes": self.x.outside_at[e.seq].get(5, 0),
                     "step": 1 + sum(1 for s in self.r.events if s.op == STEP and s.seq < e.seq)}
        for name, value in expected.items():
            if getattr(o, name) != value:
                self.complain(f"oom {o.seq}: {name} is {getattr(o, name)}, should be {value}")
