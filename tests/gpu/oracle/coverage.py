#!/usr/bin/env python3
"""coverage.py WORK OUT PROGRAM... - the results of oracle.sh as coverage.json, .md and .log.

A program passes where output and exit status under vramscope are those without it, alone and beside CUPTI, compare.py finds nothing
unnamed, and the driver's bytes that nothing explains are within 1 % of the used bytes, or 64 MiB.
"""
import contextlib
import difflib
import glob
import io
import json
import os
import sqlite3
import sys

import compare
from recording import PARTS, Recording

ALLOWED_SHARE, ALLOWED_BYTES = 0.01, 64 << 20


def text(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return None


def first_difference(a, b):
    lines = difflib.unified_diff((a or "").splitlines(), (b or "").splitlines(), n=0, lineterm="")
    return " ; ".join(line[:200] for line in list(lines)[2:8])


def sameness(folder):
    """What of a program's behaviour vramscope changes, alone or beside CUPTI; nothing where it did not notice."""
    found = []
    for what in ("stdout", "status"):
        for without, way in (("plain", "shim"), ("cupti", "oracle")):
            a, b = (text(os.path.join(folder, w, what)) for w in (without, way))
            if a != b or a is None:
                found.append(f"{what} of the {way} run differs from the {without} run's: " + first_difference(a, b))
    if (text(os.path.join(folder, "plain", "status")) or "").strip() != "0":
        found.append("the plain run itself failed: " + (text(os.path.join(folder, "plain", "stderr")) or "")[-300:])
    return found


def changed_by_cupti(folder):
    """What CUPTI alone changes of it: shown, and no difference of vramscope's."""
    pairs = ((what, text(os.path.join(folder, "plain", what)), text(os.path.join(folder, "cupti", what))) for what in ("stdout", "status"))
    return [f"CUPTI alone changes the program's {what}: {first_difference(a, b)}" for what, a, b in pairs if a != b]


def residual(database, facts):
    """One process's driver-used bytes at its mark, taken apart; None where it has no mark."""
    recording = Recording(database)
    fact = facts.get(recording.pid)
    if fact is None:
        return None
    t, device = fact["t_ns"] - recording.start, fact["device"]
    used, source = fact["process_used"], "NVML, this process, at the mark"
    if used is None:
        sample = recording.sample_at(device, t)
        if sample is None:
            return {"pid": recording.pid, "problem": "no figure of the driver's"}
        used, source = sample[0], f"last sample before the mark: {sample[1]}"
    reserved = recording.reserved_at(device, t)
    rows, unknown = recording.overheads(device, t)
    explained = sum(rows.values())
    unexplained = used - reserved - explained
    allowed = max(ALLOWED_BYTES, int(used * ALLOWED_SHARE))
    return {"pid": recording.pid, "device": device, "used": used, "source": source, "device_used": fact["device_used"],
            "reserved": reserved, "residual": used - reserved, "rows": rows, "costs_unknown": unknown, "unexplained": unexplained,
            "allowed": allowed, "ok": abs(unexplained) <= allowed, "counters": fact["counters"],
            "framework": framework_agrees(recording.framework_at(device, t), fact["counters"]),
            "mismatches": recording.mismatches, "losses": recording.losses, "report": report_of(database, device)}


def report_of(database, device):
    """What `vramscope report` says of the residual; None where it said nothing that can be read."""
    try:
        devices = json.loads(text(database + ".report") or "")["files"][0]["devices"]
        return next((d["residual"] for d in devices if d["device"] == device), None)
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def framework_agrees(ours, counters):
    """Whether PyTorch's own counters at the mark are the recorded ones; None where it reports nothing."""
    if ours is None or "reserved" not in counters:
        return None
    return tuple(ours) == (counters["allocated"], counters["reserved"])


def residuals(folder):
    facts = {}
    for path in glob.glob(os.path.join(folder, "facts-*.json")):
        fact = json.loads(text(path))
        facts[fact["pid"]] = fact
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "*.db"))):
        try:
            found.append(residual(path, facts))
        except (TypeError, sqlite3.Error) as problem:
            found.append({"pid": 0, "problem": f"{os.path.basename(path)}: {problem!r}"})
    return [r for r in found if r is not None]


def comparison(name, folder, log):
    rows = [(p, compare.compare_calls(p), compare.compare_bytes(p)) for p in compare.processes(folder, folder)]
    rows = [row for row in rows if row[0].expected or row[0].recorded or row[0].problems]
    result = compare.summary(name, rows)
    if not rows:
        result["problems"].append("the oracle wrote no log and vramscope no database")
        result["ok"] = False
    with contextlib.redirect_stdout(log):
        compare.print_table(result)
    return result


def program(name, work, log):
    folder = os.path.join(work, name)
    try:
        result = comparison(name, os.path.join(folder, "oracle"), log)
    except (OSError, ValueError, sqlite3.Error) as problem:  # one bad file must not hide the other programs
        result = compare.summary(name, [])
        result["problems"].append(f"comparison failed: {problem!r}")
        log.write(f"== {name}: comparison failed: {problem!r}\n")
    result["noticed"] = sameness(folder)
    result["cupti"] = changed_by_cupti(folder)
    result["residuals"] = residuals(os.path.join(folder, "shim"))
    result["seconds"] = {way: int((text(os.path.join(folder, way, "ms")) or "0").strip() or 0) / 1000 for way in ("plain", "shim", "oracle")}
    for line in result["cupti"]:
        log.write(f"  {line}\n")
    for line in result["noticed"]:
        log.write(f"  ! {line}\n")
    for r in result["residuals"]:
        log.write(f"  residual: {json.dumps(r)}\n")
    result["residual_ok"] = bool(result["residuals"]) and all(
        r.get("ok") and r["framework"] is not False for r in result["residuals"])
    return result


# ---- the tables ----

def mib(n):
    return "unknown" if n is None else f"{n / 2**20:.1f}"


def calls_table(results):
    yield "| program | calls matched | missed | extra | wrong | order | unexamined | named | MEMORY2 matched | missed | extra | same output | s |"
    yield "| --- " * 13 + "|"
    for r in results:
        c = r["calls"]
        b = [sum(k["allocs"][i] + k["frees"][i] for k in r["bytes"].values()) for i in range(3)]
        yield (f"| {r['program']} | {c['matched']} | {c['missed']} | {c['extra']} | {c['wrong']} | {c['misordered'] + c['other thread']} | "
               f"{sum(r['unexamined'].values())} | {sum(r['named'].values())} | {b[0]} | {b[1]} | {b[2]} | "
               f"{'no' if r['noticed'] else 'yes'} | {r['seconds']['plain']:.1f} / {r['seconds']['shim']:.1f} / {r['seconds']['oracle']:.1f} |")


def residual_table(results):
    yield "| program | process | used MiB | reserved | " + " | ".join(PARTS) + " | costs unknown | unexplained | allowed | | framework's counters |"
    yield "| --- " * (len(PARTS) + 9) + "|"
    for r in results:
        for row in r["residuals"]:
            if "problem" in row:
                yield f"| {r['program']} | {row['pid']} | {row['problem']} |" + " |" * (len(PARTS) + 6)
                continue
            parts = " | ".join(mib(row["rows"].get(part, 0)) for part in PARTS)
            yield (f"| {r['program']} | device {row['device']} | {mib(row['used'])} | {mib(row['reserved'])} | {parts} | "
                   f"{row['costs_unknown']} | {mib(row['unexplained'])} | {mib(row['allowed'])} | {'ok' if row['ok'] else 'TOO MUCH'} | "
                   f"{ {None: '-', True: 'equal', False: 'DIFFER'}[row['framework']]} |")


def kinds_table(results):
    yield "| program | kind | MEMORY2 MiB matched | missed | extra |"
    yield "| --- " * 5 + "|"
    for r in results:
        for kind, row in sorted(r["bytes"].items()):
            yield f"| {r['program']} | {kind} | " + " | ".join(mib(n) for n in row["bytes"]) + " |"


def main():
    work, out, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    log = io.StringIO()
    results = [program(name, work, log) for name in names]
    with open(os.path.join(out, "coverage.json"), "w") as f:
        json.dump(results, f, indent=1)
    with open(os.path.join(out, "coverage.log"), "w") as f:
        f.write(log.getvalue())
    lines = list(calls_table(results)) + [""] + list(kinds_table(results)) + [""] + list(residual_table(results)) + [""]
    for r in results:
        lines += [f"- {r['program']}: {n} x {what}" for what, n in r["named"].items()]
        lines += [f"- {r['program']}: {line}" for line in r["cupti"]]
    with open(os.path.join(out, "coverage.md"), "w") as f:
        f.write("\n".join(lines) + "\n")
    bad = [r["program"] for r in results if not r["ok"] or r["noticed"] or not r["residual_ok"]]
    print(f"{len(results) - len(bad)} of {len(results)} programs without a difference" + (f"; with: {' '.join(bad)}" if bad else ""))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
