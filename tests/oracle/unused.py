"""What was reserved and not allocated at the peak, as `vramscope report` takes it apart, held against the raw rows."""
import json
import subprocess

FREES = (2, 6, 21, 51, 52, 53)
POOL, GRAPH = 2, 10


class Unused:
    def __init__(self, recording, complain):
        self.r, self.complain = recording, complain
        self.missed = {a.seq for a in recording.table("amend") if a.op == 3}
        self.managed = {a.seq: a.by_seq for a in recording.table("amend") if a.op == 50}

    def living(self, device, upto):
        """The allocations of a device that live at event UPTO."""
        alive = {}
        for e in self.r.events:
            if e.seq > upto:
                break
            if e.op in (1, 4, 20) and e.status == 0 and e.device == device:
                alive[e.seq] = e
            elif e.op in FREES and e.mate and e.seq not in self.missed and (e.op != 6 or e.size):
                alive.pop(e.mate, None)
        return alive.values()

    def beyond(self, device, upto, space):
        """What the driver held for pools, or for graphs, beyond what was allocated out of it."""
        figures = {e.address: e.size for e in self.r.events if e.seq <= upto and e.op == 12 and e.space == space and e.device == device}
        return max(0, sum(figures.values()) - sum(e.size for e in self.living(device, upto) if e.space == space))

    def check(self, command, path):
        done = subprocess.run([command, "report", "--json", path], capture_output=True, text=True)
        if done.returncode not in (0, 3):
            return self.complain(f"report: {done.stderr.strip()[-300:]}")
        for d in json.loads(done.stdout)["files"][0]["devices"]:
            for name in ("not_allocated_at_peak", "not_allocated_at_most_reserved"):
                u = d[name]
                if u["reserved_bytes"] is None:
                    continue
                told = sum(r["size_bytes"] for r in u["rows"])
                if told != u["not_allocated_bytes"] or told != u["reserved_bytes"] + u.get("away_bytes", 0) - u["allocated_bytes"]:
                    self.complain(f"{name} of device {d['device']}: {told} in rows, {u['not_allocated_bytes']} of {u['reserved_bytes']}")
            self.peak(d["device"], d["not_allocated_at_peak"])

    def peak(self, device, u):
        seq = next((p.seq for p in self.r.table("peak") if p.kind == "allocated" and p.device == device), 0)
        sizes = {}
        for r in u["rows"]:
            sizes[r["kind"]] = sizes.get(r["kind"], 0) + r["size_bytes"]
        for kind, space in (("stream-ordered pool", POOL), ("CUDA graphs", GRAPH)):
            if u["rows"] and sizes.get(kind, 0) != (expected := self.beyond(device, seq, space)):
                self.complain(f"device {device} at its peak: {kind} {sizes.get(kind, 0)}, should be {expected}")
        framework = sum(sizes.get(k, 0) for k in ("cached", "waiting", "private pool"))
        if "unknown" not in sizes and u["rows"]:
            living = list(self.living(device, seq))
            held = sum((1 if e.op != 20 else -1) * e.size for e in living if e.op == 20 or e.managed == 1 or self.managed.get(e.seq, seq + 1) <= seq)
            # A segment without a block at the framework's first report counts twice until it has one (docs/status.md): that and no more.
            first = next((e.seq for e in self.r.events if e.op == 20 and e.device == device), 0)
            held += sum(e.size for e in living if self.managed.get(e.seq, 0) > seq and e.seq < first)
            if framework != held:
                self.complain(f"device {device} at its peak: {framework} of the framework's, should be {held}")
