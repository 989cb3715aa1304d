"""recording.py - a database as schema.sql describes it, read into plain Python: numbers in bytes, rows by their keys."""
import lines
import sqlite3

ADDRESS, PYTHON, NODE, LAYER = 1, 2, 3, 4  # frame.kind


def place(frame):
    return frame.file if frame.line is None else f"{frame.file}:{frame.line}"


class Row:
    """A row, its columns as attributes."""

    def __init__(self, names, values):
        self.__dict__.update(zip(names, values))


def units(value, unit=512):
    """The narrow tables' compact numbers: units, or -n for exactly n."""
    if value is None:
        return None
    return -value if value < 0 else value * unit


def reserved(value, direct):
    """x2m: in units of 2 MiB, or so many more than DIRECT, or exactly."""
    if value is None or value >= 0:
        return value if value is None else value * (1 << 21)
    odd, n = (-value - 1) % 2, (-value - 1) // 2
    return n if odd else n * (1 << 21) + direct


class Recording:
    def __init__(self, path):
        self.path = path
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.meta = dict(self.db.execute("SELECT key, value FROM meta"))
        self.kinds = {k.id: k for k in self.table("kind")}
        self.events = [self.event(e) for e in self.table("ev", "seq")]
        self.by_seq = {e.seq: e for e in self.events}
        self.phases = {p.id: p.name for p in self.table("phase")}
        self.phases[0] = "none"
        self.ops = {o.id: o.name for o in self.table("op")}
        self.spaces = {s.id: s.name for s in self.table("space")}
        self.apis = {a.id: a.name for a in self.table("api")}
        self.strings = {s.id: s.text for s in self.table("string")}
        self.ranges = {r.id: r for r in self.table("rng")}
        self.amends = {a.seq: a for a in self.table("amend")}
        self.threads = {t.id: t for t in self.table("thread")}
        self.contexts = {c.id: c for c in self.table("context")}
        self.stacks = {s.id: s for s in self.table("stack")}
        self.frames = {f.id: f for f in self.table("frame")}
        self.tensors = {t.id: t for t in self.table("tensor")}
        self.types = {t.id: t.name for t in self.table("element_type")}
        self.mark = self.table("mark")[0]

    def rows(self, sql, *values):
        cursor = self.db.execute(sql, values)
        names = [c[0] for c in cursor.description]
        return [Row(names, row) for row in cursor]

    def table(self, name, order="rowid"):
        try:
            return self.rows(f"SELECT * FROM {name} ORDER BY {order}")
        except sqlite3.OperationalError:  # a table without rowid
            return self.rows(f"SELECT * FROM {name}")

    def event(self, e):
        kind = self.kinds[e.kind]
        for name in ("api", "space", "context", "stream", "thread", "status", "managed", "tensor"):
            setattr(e, name, getattr(kind, name))
        for name in ("address", "size", "framework", "direct"):
            setattr(e, name, units(getattr(e, name)))
        e.reserved = reserved(e.reserved, e.direct)
        return e

    def asked(self, tensor, size):
        """made_for, request_bytes, element_type and shape of a block of SIZE."""
        t = self.tensors.get(tensor)
        if t is None:
            return None, None, None, None
        made_for = {1: "tensor", 2: "storage", 3: "raw"}.get(t.kind)
        return made_for, size if t.kind == 4 else t.request, self.types.get(t.element_type), t.shape

    def owner(self, stack):
        if not stack or stack not in self.stacks:
            return None
        return self.strings.get(self.stacks[stack].owner)

    def frames_of(self, stack):
        """The frames of a stack, innermost first."""
        while stack in self.stacks:
            yield self.frames.get(self.stacks[stack].frame)
            if self.stacks[stack].parent >= stack:
                return
            stack = self.stacks[stack].parent

    def shown(self, stack):
        """The frames of its line and of that line's caller, and whether the line is the forward's."""
        return lines.shown(list(self.frames_of(stack)))

    def first_of_kind(self, stack, kind):
        return next((f for f in self.frames_of(stack) if f and f.kind == kind), None)

    def line(self, stack):
        (f, caller, forward), node = self.shown(stack), self.first_of_kind(stack, NODE)
        if f is None:
            return node and node.function
        by = "" if caller is None else f"{place(caller)} > "
        return f"{'forward: ' if forward else ''}{by}{place(f)} {f.function}"

    def layer(self, stack):
        f = self.first_of_kind(stack, LAYER)
        return f and f.function
