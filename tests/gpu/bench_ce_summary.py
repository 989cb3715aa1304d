#!/usr/bin/env python3
"""bench_ce_summary.py OUT.tsv... - the rows of bench_ce.py, a shape and kind to a line: times and memory, ours beside each peer, the errors,
and where a peer that is exact was faster than ours with as much memory or more.

The files are those that bench_ce.sh leaves; several are of several runs, whose shapes differ.  ms after a rest, and in brackets the MiB beyond inputs
and gradients that the recording has (`?`: not recorded).  Nothing here needs PyTorch.
"""
import sys

import bench_ce_table as T

OURS = "ours", "ours, through PyTorch", "ours, 16 MiB", "ours, 2 MiB or 32 bytes a token", "ours fast, fp32 logits"
EXACT = ("PyTorch eager", "PyTorch compile", "Liger", "Liger, chunk_mem_const 16", "Liger, accum fp32", "Liger CuTe", "QuACK", "QuACK, chunk 2048",
         "CCE, no filter")
INEXACT = ("CCE",)  # leaves out what is small
ERRORS = "ours", "ours fast, fp32 logits", "PyTorch eager", "Liger CuTe", "QuACK, chunk 2048", "CCE, no filter", "CCE"


def name_of(shape):
    n, h, v, *ignored = shape.split("x")
    return f"{n}, {h}, {v}" + (f", {ignored[0]} %" if ignored else "")


def line(cells):
    return "| " + " | ".join(cells) + " |"


def cell(row, ahead):
    if row is None or row["burst_ms"] is None:
        return "–"
    memory = "?" if row["allocated_bytes"] is None else f"{row['allocated_bytes'] / T.MIB:,.{0 if row['allocated_bytes'] >= 10 * T.MIB else 1}f}"
    text = f"{row['burst_ms']:.2f} ({memory})"
    return f"**{text}**" if ahead else text


def faster(row, ours):
    """An exact peer that is faster than ours by default; with less memory than it, only what ours with as little memory does would tell."""
    return row is not None and row["burst_ms"] is not None and row["method"] in EXACT and row["burst_ms"] < ours["burst_ms"]


def times(found):
    columns = [m for m in OURS + EXACT + INEXACT if any(m in group and group[m]["burst_ms"] is not None for group in found.values())]
    yield line(["N, H, V, ignored", "softmax", "products alone", "ours of products", *columns])
    yield line(["---"] * 2 + ["---:"] * (2 + len(columns)))
    for (shape, kind), group in found.items():
        ours = group.get("ours")
        if ours is None or ours["burst_ms"] is None:
            yield line([name_of(shape), kind, "not measured"])
            continue
        gemm = ours["burst_of_gemm"]
        yield line([name_of(shape), kind, T.number(gemm and gemm * ours["burst_ms"], "{:.2f}"), T.share(gemm),
                    *(cell(group.get(m), faster(group.get(m), ours)) for m in columns)])


def sustained(found):
    columns = [m for m in OURS + EXACT + INEXACT if any(m in group and group[m]["sustained_ms"] is not None for group in found.values())]
    yield line(["N, H, V, ignored", "softmax", *columns])
    yield line(["---"] * 2 + ["---:"] * len(columns))
    for (shape, kind), group in found.items():
        yield line([name_of(shape), kind, *(T.number(group[m]["sustained_ms"], "{:.2f}", "–") if m in group else "–" for m in columns)])


def errors(found):
    columns = [m for m in ERRORS if any(m in group and group[m]["error_dx"] is not None for group in found.values())]
    yield line(["N, H, V, ignored", "softmax", *columns])
    yield line(["---"] * (2 + len(columns)))
    for (shape, kind), group in found.items():
        yield line([name_of(shape), kind, *(" ".join(T.number(group[m][f"error_{what}"], "{:.1e}", "–") for what in ("loss", "dx", "dw")) if m in group else "–"
                                            for m in columns)])


def behind(found):
    """Each shape and kind at which an exact peer was faster, and by how much."""
    for (shape, kind), group in found.items():
        ours = group.get("ours")
        for method in EXACT:
            row = group.get(method)
            if ours and ours["burst_ms"] and faster(row, ours):
                yield (f"- {name_of(shape)}, {kind}: {method} takes {row['burst_ms']:.2f} ms in {T.mib(row['allocated_bytes'])} MiB, "
                       f"ours {ours['burst_ms']:.2f} ({100 * (ours['burst_ms'] / row['burst_ms'] - 1):.1f} % more) in {T.mib(ours['allocated_bytes'])}")


def failed(found):
    seen = {}
    for (shape, kind), group in found.items():
        for row in group.values():
            if row["failure"]:
                seen.setdefault((row["method"], row["failure"]), []).append(f"{shape} {kind}")
    for (method, why), where in seen.items():
        yield f"- not measured: {method} at {', '.join(where)}: {why}"


def main():
    comments, found = [], {}
    for path in sys.argv[1:]:
        said, rows = T.read(path)
        comments += [f"- {line}" for line in said if not line.startswith(("before ", "after "))]
        for row in rows:
            found.setdefault((row["shape"], row["kind"]), {})[row["method"]] = row
    parts = [comments, times(found), sustained(found), errors(found), list(behind(found)) or ["No exact peer was faster."], failed(found)]
    print("\n\n".join("\n".join(part) for part in parts))


if __name__ == "__main__":
    sys.exit(main())
