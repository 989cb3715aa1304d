"""One vramscope database, through its documented views, as the events that witness.py makes of the oracle's log."""
import sqlite3

from witness import Event, plain

OPS = ("alloc", "free", "phys_create", "phys_retain", "phys_release", "map", "unmap", "va_reserve", "va_free", "set_access",
       "graph_node", "bind", "unbind", "context_create", "context_destroy", "module_load", "module_unload", "limit")
PARTS = ("context", "limits", "code", "streams", "graphs", "peer access")


def part_of(op, api):
    """The row of the residual that a measured cost belongs to."""
    if op in ("context_create", "limit"):
        return {"context_create": "context", "limit": "limits"}[op]
    for part, word in (("streams", "cuStream"), ("graphs", "cuGraph"), ("peer access", "PeerAccess")):
        if op == "overhead" and word in api:
            return part
    return "code"


class Recording:
    def __init__(self, path):
        self.path = path
        self.db = sqlite3.connect(path)
        self.pid = self.one("SELECT pid FROM process")
        self.start = self.one("SELECT value FROM meta WHERE key = 'start_monotonic_ns'")
        self.events = self._events()
        self.lost = self.one("SELECT coalesce(sum(events), 0) FROM loss WHERE code <> 'thinned'") or 0
        self.losses = [why for (why,) in self.db.execute("SELECT DISTINCT why FROM loss")]
        self.mismatches = self.one("SELECT count(*) FROM mismatch")

    def one(self, sql, *args):
        row = self.db.execute(sql, args).fetchone()
        return row[0] if row else None

    def _events(self):
        """In the order of the ring.  What a failed free gave back is folded into the free's own status."""
        failed = dict(self.db.execute("SELECT mate, status FROM event WHERE op = 'free_failed'"))
        tids = dict(self.db.execute("SELECT id, tid FROM thread"))
        marks = ",".join("?" * len(OPS))
        sql = ("SELECT seq, op, api, address, size_bytes, status, space, thread FROM event WHERE op IN (%s) ORDER BY seq" % marks)
        return [Event(tids.get(thread), op, plain(api), address, size, failed.get(seq, status or 0), space)
                for seq, op, api, address, size, status, space, thread in self.db.execute(sql, OPS)]

    def memory_events(self):
        """What compare_bytes holds against MEMORY2, in the order of the ring: (op, address, size, status, space)."""
        failed = dict(self.db.execute("SELECT mate, status FROM event WHERE op = 'free_failed'"))
        sql = ("SELECT seq, op, address, size_bytes, status, space FROM event WHERE op IN "
               "('alloc', 'free', 'map', 'unmap', 'context_freed', 'pool_reserved') ORDER BY seq")
        return [(op, address, size or 0, failed.get(seq, status or 0), space) for seq, op, address, size, status, space in self.db.execute(sql)]

    # ---- the residual ----
    def reserved_at(self, device, t_ns):
        return self.one("SELECT reserved_bytes FROM event WHERE device = ? AND t_ns <= ? AND reserved_bytes IS NOT NULL "
                        "ORDER BY seq DESC LIMIT 1", device, t_ns) or 0

    def overheads(self, device, t_ns):
        """What was measured of living contexts, limits, code, streams ... at a moment: {row: bytes}, and how many events
        could not say how much.  A context takes its own with it."""
        sql = ("SELECT e.op, e.api, e.address, e.size_bytes, c.handle FROM event e LEFT JOIN context c ON c.id = e.context "
               "WHERE e.op IN ('context_create', 'context_destroy', 'limit', 'module_load', 'module_unload', 'overhead') "
               "AND e.device IN (?, -1) AND e.t_ns <= ? AND e.status = 0 ORDER BY e.seq")
        costs = []
        for op, api, address, size, context in self.db.execute(sql, (device, t_ns)):
            if op == "context_destroy":
                costs = [c for c in costs if address not in c[:2]]
            elif op == "module_unload":
                costs = [c for c in costs if c[0] != address or c[2] != "code"]
            else:
                costs.append((address, context if op != "context_create" else address, part_of(op, api or ""), size))
        rows = {}
        for _, _, part, size in costs:
            rows[part] = rows.get(part, 0) + (size or 0)
        return rows, sum(size is None for _, _, _, size in costs)

    def framework_at(self, device, t_ns):
        """(allocated, reserved) of the framework's caching allocator as recorded; None where it reports nothing."""
        if not self.one("SELECT 1 FROM event WHERE op = 'block_alloc' LIMIT 1"):
            return None
        return self.db.execute("SELECT framework_bytes, reserved_bytes - direct_bytes FROM event WHERE device = ? AND t_ns <= ? "
                               "ORDER BY seq DESC LIMIT 1", (device, t_ns)).fetchone()

    def sample_at(self, device, t_ns):
        """The last one at or before a moment: one from after it may have seen what the mark did not."""
        return self.db.execute("SELECT driver_used_bytes, source, reserved_bytes FROM sample WHERE device = ? AND t_ns <= ? "
                               "ORDER BY t_ns DESC LIMIT 1", (device, t_ns)).fetchone()
