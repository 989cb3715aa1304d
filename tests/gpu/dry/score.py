#!/usr/bin/env python3
"""Scores `vramscope fit` against what programs took on a GPU (measure.py), on a machine without one.

  score.py DATA ANSWERS [--jobs 2] [--timeout 300] [--only WORD...] -- VRAMSCOPE [PYTHON]
  score.py DATA ANSWERS                      prints the score of the answers that are there

DATA is a folder with programs.jsonl (tests/data/dry/h200) and, for --refusals, refusals.jsonl; ANSWERS a file of JSON lines that
grows: what it has is not run again. A program runs to its end (--steps=all), under each allocator that it was measured under.
A refusal, a crash, status 3 and what took too long are misses. An answer is equal where allocated and reserved are what one of the
measurements says; programs whose measurements differ from each other are named.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def key(row):
    return " ".join([row["program"], *row["args"], row["allocator"], *([str(row["share"])] if "share" in row else [])])


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measured(path):
    """Rows that were measured, by key, each with the pairs (allocated, reserved) of all its measurements."""
    rows = {}
    for row in lines(path):
        if "failed" not in row and "skipped" not in row:
            rows.setdefault(key(row), {**row, "seen": []})["seen"].append((row.get("allocated"), row.get("reserved")))
    return rows


def interval(value):
    """A figure or the ends of one, as (lowest, highest)."""
    if isinstance(value, dict):
        return value["low"], value["high"]
    return (value[0], value[-1]) if isinstance(value, list) else (value, value)


def answer(document):
    """What a fit's JSON says: does it call itself exact, and between what allocated and reserved lie."""
    return {"exact": document["exact"], "allocated": interval(document["allocated"]), "reserved": interval(document["reserved"])}


def ask(a, row):
    program = [a.tool[1] if len(a.tool) > 1 else sys.executable]
    if "share" in row:
        program += [str(HERE / "limited.py"), str(row["limit"])]
    program += [str(HERE / "programs" / row["program"]), *row["args"]]
    command = [a.tool[0], "fit", "--gpu=H200", "--json", "--steps=all", *(["--expandable"] if row["allocator"] == "expandable" else []), "--", *program]
    start = time.monotonic()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=a.timeout,
                              env={**os.environ, "OMP_NUM_THREADS": "2"}, check=False)
    except subprocess.TimeoutExpired:
        return {"miss": f"longer than {a.timeout} s"}
    found = {"status": done.returncode, "seconds": round(time.monotonic() - start, 1)}
    if "share" in row:
        refusal = [json.loads(line) for line in done.stdout.splitlines() + done.stderr.splitlines() if line.startswith('{"refused"')]
        steps = sum(line.startswith('{"step"') for line in done.stdout.splitlines() + done.stderr.splitlines())
        return {**found, "refused": refusal[-1]["refused"] if refusal else None, "steps": steps}
    try:
        document = json.loads(done.stdout[done.stdout.index("{"):])
        return {**found, **answer(document)}
    except (ValueError, KeyError, TypeError, IndexError) as e:
        last = [line for line in done.stderr.splitlines() if line.strip()][-2:]
        return {**found, "miss": f"status {done.returncode}: {e!r}; {' / '.join(last)[:300]}"}


def ask_all(a, rows, path):
    have = {row["key"] for row in lines(path)}
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool, path.open("a") as out:
        waiting = {pool.submit(ask, a, row): k for k, row in rows.items() if k not in have}
        for done in concurrent.futures.as_completed(waiting):
            found = {"key": waiting[done], **done.result()}
            out.write(json.dumps(found) + "\n")
            out.flush()
            print(found, file=sys.stderr, flush=True)


def off(said, pair):
    """How far an answer is from a measurement: the larger share of allocated and reserved."""
    return max(max(low - value, value - high, 0) / value for (low, high), value in zip(said, pair))


def judge(row, found):
    """One answer: its kind (exact, within, miss), how far off, how wide."""
    if "miss" in found or found.get("status") not in (0, 1):
        return {"kind": "miss", "why": found.get("miss", f"status {found.get('status')}")}
    said = [tuple(found["allocated"]), tuple(found["reserved"])]
    error = min(off(said, pair) for pair in row["seen"])
    width = max((high - low) / value for (low, high), value in zip(said, row["seen"][0]))
    return {"kind": "exact" if found["exact"] else "within", "error": error, "width": width, "said": said}


def percent(part, whole):
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "none"


def summary(title, verdicts):
    exact = [v for v in verdicts if v["kind"] == "exact"]
    within = [v for v in verdicts if v["kind"] == "within"]
    equal = sum(v["error"] == 0 for v in exact)
    held = sum(v["error"] == 0 for v in within)
    print(f"{title}: {percent(len(exact), len(verdicts))} exact; of those {percent(equal, len(exact))} equal to the byte", end="")
    print(f", worst {100 * max((v['error'] for v in exact), default=0):.3f} % off", end="")
    print(f"; {percent(held, len(within))} intervals contain", end="")
    if within:
        widths = [v["width"] for v in within]
        print(f", median width {100 * statistics.median(widths):.2f} %, worst {100 * max(widths):.2f} %", end="")
    print(f"; {sum(v['kind'] == 'miss' for v in verdicts)} without an answer")


def score(rows, answers):
    verdicts = {k: judge(row, answers[k]) for k, row in rows.items() if k in answers}
    if not verdicts:
        return
    summary("all", list(verdicts.values()))
    for allocator in ("native", "expandable"):
        summary(f"  {allocator}", [v for k, v in verdicts.items() if rows[k]["allocator"] == allocator])
    summary("  sizes that only a GPU computes", [v for k, v in verdicts.items() if rows[k]["values"]])
    summary("  the others", [v for k, v in verdicts.items() if not rows[k]["values"]])
    for family in dict.fromkeys(row["family"] for row in rows.values()):
        summary(f"    {family}", [v for k, v in verdicts.items() if rows[k]["family"] == family])
    print("\nnot asked:", len(rows) - len(verdicts))
    print("measurements differ from each other:", *[f"\n  {k}: {row['seen']}" for k, row in rows.items() if len(set(row["seen"])) > 1] or ["none"])
    print("\nmisses:")
    for k, v in verdicts.items():
        if v["kind"] == "miss":
            print(f"  {k}: {v['why']}")
        elif v["error"]:
            said = " ".join(f"{low}" if low == high else f"{low}..{high}" for low, high in v["said"])
            print(f"  {k}: {v['kind']}, {100 * v['error']:.3f} % off: said {said}, measured {rows[k]['seen'][0][0]} {rows[k]['seen'][0][1]}")


def score_refusals(rows, answers):
    right = 0
    for k, row in rows.items():
        if k not in answers:
            continue
        found = answers[k]
        truth, said = (row.get("refused"), len(row["by_step"])), (found.get("refused"), found.get("steps"))
        right += truth == said
        if truth != said:
            print(f"  {k}: measured {truth}, said {said}")
    print(f"refusals: {percent(right, sum(k in answers for k in rows))} the same request at the same step")


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", type=pathlib.Path)
    p.add_argument("answers", type=pathlib.Path)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--timeout", type=int, default=300)
    p.add_argument("--only", nargs="*", default=[])
    p.add_argument("--refusals", action="store_true")
    a = p.parse_args(sys.argv[1:split])
    a.tool = sys.argv[split + 1:]
    rows = measured(a.data / ("refusals.jsonl" if a.refusals else "programs.jsonl"))
    rows = {k: row for k, row in rows.items() if not a.only or any(word in k or word in row.get("family", "") for word in a.only)}
    if a.tool:
        ask_all(a, rows, a.answers)
    (score_refusals if a.refusals else score)(rows, {row["key"]: row for row in lines(a.answers)})


if __name__ == "__main__":
    main()
