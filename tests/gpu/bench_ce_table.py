"""Rows of bench_ce: the tab-separated file, what is printed, the Markdown of docs/measurements/cross_entropy.md. Bytes are bytes,
times milliseconds, an empty field is unknown.
"""
import re
import statistics

COLUMNS = """shape kind method
    burst_ms burst_min_ms burst_max_ms burst_calls burst_of_gemm
    allocated_bytes reserved_bytes torch_allocated_bytes torch_reserved_bytes outside_bytes kept_bytes outside_owners counters
    error_loss error_dx error_dw note failure""".split()
NUMBERS = [name for name in COLUMNS if re.search("_ms$|_calls$|_gemm$|_bytes$|^error_", name)]
MIB = 2**20
GEMM = "GEMM alone"  # the method that all others' rates are held against


class Row(dict):
    """The columns of one method at one shape and kind; what is unknown is None."""

    def __init__(self, shape, kind, method, **values):
        super().__init__(dict.fromkeys(COLUMNS), shape=shape, kind=kind, method=method, **values)

    @property
    def key(self):
        return self["shape"], self["kind"], self["method"]

    def line(self):
        clean = lambda value: "" if value is None else re.sub(r"[\t\n\r]+", " ", repr(value) if isinstance(value, float) else str(value))
        return "\t".join(clean(self[name]) for name in COLUMNS)

    def times(self, values, shares):
        """VALUES: ms of each call; SHARES: of the GEMM rate measured in the same round."""
        if values:
            self["burst_ms"] = statistics.median(values)
            self["burst_min_ms"], self["burst_max_ms"] = min(values), max(values)
            self["burst_calls"] = len(values)
        if shares:
            self["burst_of_gemm"] = statistics.median(shares)


def header():
    return "\t".join(COLUMNS)


def read(path):
    """(comments, rows) of a file that may have been cut off anywhere in its last line."""
    comments, rows = [], []
    with open(path) as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if line.startswith("#"):
                comments.append(line[1:].strip())
            elif fields == COLUMNS or not line.strip():
                continue
            elif len(fields) == len(COLUMNS) and line.endswith("\n"):
                rows.append(parse(fields))
            elif line.endswith("\n"):
                raise ValueError(f"{path}: {len(fields)} fields, not {len(COLUMNS)}: {line[:60]!r}")
    return comments, rows


def parse(fields):
    values = dict(zip(COLUMNS, fields))
    row = Row(values["shape"], values["kind"], values["method"])
    for name in COLUMNS[3:]:
        if values[name]:
            row[name] = float(values[name]) if name in NUMBERS else values[name]
    return row


def number(value, form="{:.1f}", unknown="unknown"):
    return unknown if value is None else form.format(value)


def mib(value):
    return number(None if value is None else value / MIB, "{:,.1f}")


def spread(row):
    if row["burst_ms"] is None:
        return "unknown"
    return "{:.2f} ({:.2f}–{:.2f})".format(row["burst_ms"], row["burst_min_ms"], row["burst_max_ms"])


def share(value):
    return number(None if value is None else 100 * value, "{:.1f} %")


def text(row):
    """One printed line."""
    head = f"{row['shape']:18s} {row['kind']:6s} {row['method']:28s} "
    if row["failure"]:
        return head + "FAILED: " + row["failure"]
    errors = " ".join(number(row[f"error_{what}"], "{:.1e}", "-") for what in ("loss", "dx", "dw"))
    return head + (
        f"{spread(row):22s} {share(row['burst_of_gemm']):>7s} of GEMM x{number(row['burst_calls'], '{:.0f}', '0'):2s} "
        f"{mib(row['allocated_bytes']):>9s} MiB ({mib(row['reserved_bytes'])} reserved; torch {mib(row['torch_allocated_bytes'])}, "
        f"outside it {mib(row['outside_bytes'])}, {row['counters'] or 'counters unknown'})  errors {errors}  {row['note'] or ''}").rstrip()


# ---- Markdown ----

HEAD = ("method", "ms after a rest", "of GEMM", "MiB allocated", "MiB reserved", "MiB, torch's counter",
        "MiB outside torch", "error of the loss", "of dX", "of dW")


def groups(rows):
    """Rows by (shape, kind), in the order of their first row."""
    found = {}
    for row in rows:
        found.setdefault((row["shape"], row["kind"]), []).append(row)
    return found


def cells(row):
    error = lambda what: number(row[f"error_{what}"], "{:.1e}", "")
    times = [spread(row), share(row["burst_of_gemm"])]
    if row["method"] == GEMM:
        return [row["method"], *times, *[""] * 7]
    memory = [mib(row[name]) for name in ("allocated_bytes", "reserved_bytes", "torch_allocated_bytes", "outside_bytes")]
    return [row["method"], *times, *memory, error("loss"), error("dx"), error("dw")]


def table(rows):
    lines = ["| " + " | ".join(HEAD) + " |", "| " + " | ".join(["---"] + ["---:"] * (len(HEAD) - 1)) + " |"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows if not row["failure"]]
    lines += outside(rows)
    lines += [f"\nNot measured: {row['method']}: {row['failure']}" for row in rows if row["failure"]]
    return "\n".join(lines)


def outside(rows):
    """What the table's columns do not hold of the memory."""
    seen = [row for row in rows if row["counters"]]
    off = [f"{row['method']}: {row['counters']}" for row in seen if row["counters"] != "equal"]
    lines = ["\nMiB reserved: by how much PyTorch's segments grew from an emptied cache, beyond the gradients' bytes; unknown where "
             "the call took room that segments had left."] if any(row["allocated_bytes"] is not None for row in rows) else []
    lines += [f"\nPyTorch's counters and the recording agree to the byte for {len(seen) - len(off)} of {len(seen)} methods."] if seen else []
    lines += [f"\n{line}" for line in off]
    kept = [f"{row['method']} {mib(row['kept_bytes'])} MiB" + (f" ({row['outside_owners']})" if row["outside_owners"] else "")
            for row in seen if row["kept_bytes"]]
    return lines + ([f"\nKept outside PyTorch by the first call: {'; '.join(kept)}."] if kept else [])


def markdown(comments, rows):
    parts = [f"- {comment}" for comment in comments]
    for (shape, kind), group in groups(rows).items():
        n, h, v, *rest = shape.split("x")
        ignored = f", {rest[0]} % ignored" if rest else ""
        parts += [f"\n### N={n} H={h} V={v}{ignored}, {kind}\n", table(group)]
    return "\n".join(parts)
