#!/usr/bin/env python3
"""Scores `vramscope fit` against what programs took on a GPU (measure.py), on a machine without one.

    score.py DATA ANSWERS [OPTION...] -- VRAMSCOPE [PYTHON]
    score.py DATA ANSWERS                      prints the score of the answers that are there

DATA: a folder of measure.py's files (tests/data/dry/h200). ANSWERS: JSON lines; what it has is not run again. A refusal, a crash,
status 3 and what took too long are misses. An answer is equal where allocated and reserved are what one of the measurements says.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
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


def answer(said):
    """What fit's JSON says: whether it calls itself exact, and from what to what allocated and reserved are."""
    found = next(o for o in reversed(said) if "answers" in o)["answers"][0]
    if found["verdict"] not in ("fits", "does not fit") or not found["framework"]:
        raise ValueError(f"{found['verdict']}: {found['why']}")
    return {"exact": found["exact"], **{name: [found[name]["least_bytes"], found[name]["most_bytes"]] for name in ("allocated", "reserved")}}


def objects(text):
    """The JSON objects that begin on lines of a text; what programs print lies among them."""
    found, decoder, at = [], json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        if at == 0 or text[at - 1] == "\n":
            try:
                document, at = decoder.raw_decode(text, at)
                found.append(document)
                continue
            except ValueError:
                pass
        at += 1
    return found


def ask(a, row):
    program = [a.tool[1] if len(a.tool) > 1 else sys.executable]
    if "share" in row:
        program += [str(HERE / "limited.py"), str(row["limit"])]
    program += [str(HERE / a.set / row["program"]), *row["args"]]
    options = ["--expandable"] * (row["allocator"] == "expandable") + ["--json"] * ("share" not in row)
    command = [a.tool[0], "fit", "--gpu=H200", "--steps=all", *options, "--", *program]
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=a.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the program, too
            return {"miss": f"longer than {a.timeout} s"}
    found = {"status": process.returncode, "seconds": round(time.monotonic() - start, 1)}
    said = objects(output + "\n" + errors)
    if "share" in row:
        end = next((i for i, o in enumerate(said) if "refused" in o), len(said))  # of the first run; a second one prints the same
        return {**found, "refused": said[end]["refused"] if end < len(said) else None, "steps": sum("step" in o for o in said[:end])}
    try:
        return {**found, **answer(said)}
    except (ValueError, KeyError, TypeError, IndexError, StopIteration) as e:
        last = [line for line in errors.splitlines() if line.strip()][-2:]
        return {**found, "miss": f"status {process.returncode}: {e!r}; {' / '.join(last)[:300]}"}


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


HEAD = ("answers", "exact", "equal", "worst off", "within", "contain", "median", "widest", "none")


def percent(part, whole):
    return f"{part} {100 * part / whole:.0f}%" if whole else "-"


def summary(title, verdicts):
    """A line of the table: how many answers call themselves exact, how many of those are, and how the intervals do."""
    exact, within = ([v for v in verdicts if v["kind"] == kind] for kind in ("exact", "within"))
    widths = [v["width"] for v in within]
    cells = (len(verdicts), percent(len(exact), len(verdicts)), percent(sum(v["error"] == 0 for v in exact), len(exact)),
             f"{100 * max(v['error'] for v in exact):.4f}%" if exact else "-",
             len(within), percent(sum(v["error"] == 0 for v in within), len(within)),
             *(f"{100 * f(widths):.2f}%" if widths else "-" for f in (statistics.median, max)), sum(v["kind"] == "miss" for v in verdicts))
    print(f"{title:34}", *(f"{cell!s:>10}" for cell in cells))


def groups(rows):
    """Names of groups of rows, with what tells their members."""
    yield "all", lambda row: True
    for name in ("native", "expandable"):
        yield name, lambda row, name=name: row["allocator"] == name
    yield "sizes that only a GPU computes", lambda row: row["values"]
    yield "all other sizes", lambda row: not row["values"]
    for family in dict.fromkeys(row["family"] for row in rows.values()):
        yield "  " + family, lambda row, family=family: row["family"] == family


def score(rows, answers):
    verdicts = {k: judge(row, answers[k]) for k, row in rows.items() if k in answers}
    print(f"{'':34}", *(f"{name:>10}" for name in HEAD))
    for name, member in groups(rows):
        summary(name, [v for k, v in verdicts.items() if member(rows[k])])
    print(f"\n{len(rows) - len(verdicts)} not asked. Measurements that differ from each other:")
    for k, row in rows.items():
        if len(set(row["seen"])) > 1:
            print(f"  {k}:", *(f"{allocated}/{reserved}" for allocated, reserved in row["seen"]))
    print("\nMisses:")
    for k, v in verdicts.items():
        if v["kind"] == "miss":
            print(f"  {k}: {v['why']}")
        elif v["error"]:
            said = " ".join(f"{low}" if low == high else f"{low}..{high}" for low, high in v["said"])
            print(f"  {k}: {v['kind']}, {100 * v['error']:.4f}% off: said {said}, measured {rows[k]['seen'][0][0]} {rows[k]['seen'][0][1]}")


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
    p.add_argument("--set", choices=("third", "programs"), default="third", help="which programs")
    a = p.parse_args(sys.argv[1:split])
    a.tool = sys.argv[split + 1:]
    rows = measured(a.data / ("refusals.jsonl" if a.refusals else f"{a.set}.jsonl"))
    rows = {k: row for k, row in rows.items() if not a.only or any(word in k or word in row.get("family", "") for word in a.only)}
    if a.tool:
        ask_all(a, rows, a.answers)
    (score_refusals if a.refusals else score)(rows, {row["key"]: row for row in lines(a.answers)})


if __name__ == "__main__":
    main()
