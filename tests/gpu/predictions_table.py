"""The steps of predictions.sh and predictions_zero.sh that are about figures.

    gather WORK PREDICTIONS.json | measure WORK PEAKS.jsonl
    table PREDICTIONS.json PEAKS.jsonl    1 where a figure lies outside: one by 2 % of allocated or 3 % of reserved, or of its interval
    zero PREDICTIONS.json RANKS.jsonl BASE.json    stages of ZeRO beside each rank's peaks; likewise
"""
import glob
import json
import os
import sqlite3
import statistics
import sys

POLICIES = {"native": "torch-native", "expandable": "torch-expandable", "arena": "arena"}
LIMITS = {"allocated": 0.02, "reserved": 0.03}


def gather(work, path):
    said = {}
    for file in sorted(glob.glob(work + "/*.predicted")):
        model, edit = os.path.basename(file)[: -len(".predicted")].split(".", 1)
        try:
            edits = json.load(open(file))["devices"][0]["edits"]
        except (ValueError, IndexError, KeyError):
            said[f"{model} {edit}"] = {"refused": open(file[: -len("predicted")] + "err").read().strip()}
            continue
        said.setdefault(f"{model} base", edits[0])
        said[f"{model} {edit}"] = edits[1]
    json.dump(said, open(path, "w"), indent=1)
    print(len(said), "predictions")


def peaks(db):
    c = sqlite3.connect(db)
    of = dict(c.execute("SELECT kind, peak_bytes FROM peak WHERE device = 0"))
    arena = c.execute("SELECT peak_reserved_bytes FROM arena").fetchall()
    return {"peaks": of, "arena": arena[0][0] if arena else None,
            "phases": {p: a for p, a in c.execute("SELECT phase, allocated_bytes FROM phase_peak WHERE device = 0")}}


def measure(work, path):
    with open(path, "w") as out:
        for db in sorted(glob.glob(work + "/*.db")):
            model, rest = os.path.basename(db)[:-3].split(".", 1)
            edit, policy = rest.rsplit(".", 1)
            try:
                row = json.load(open(db[:-3] + ".json"))
                row.update(peaks(db))
            except (ValueError, OSError, sqlite3.Error) as error:
                row = {"error": str(error)}
            row.update(name=f"{model}.{edit.replace('=', '-', 1)}.{policy}", model=model, edit=edit, policy=policy)
            print(json.dumps(row), file=out)


def deviation(low, high, measured):
    """Of the nearer end; 0: between them."""
    return 0 if low <= measured <= high else (low - measured if measured < low else high - measured) / measured


def table(predictions, path):
    said = json.load(open(predictions))
    rows = [json.loads(line) for line in open(path)]
    found, outside, within, wide = {}, [], 0, 0
    print("| model | edit | allocator | allocated: predicted | measured | | reserved: predicted | measured | |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for r in sorted(rows, key=lambda r: (r["model"], r["edit"], r["policy"])):
        prediction = said.get(f"{r['model']} {r['edit']}")
        if "allocated" not in r or r["refused"] or not prediction:
            print(f"| {r['model']} | {r['edit']} | {r['policy']} | no figures: {r.get('error') or r.get('refused')} |||||||")
            continue
        if prediction["refused"]:
            print(f"| {r['model']} | {r['edit']} | {r['policy']} | refused: {prediction['refused']} |||||||")
            continue
        p = next(p for p in prediction["policies"] if p["policy"] == POLICIES[r["policy"]])
        # the arena serves the driver's own requests too: what no framework's allocator gave out
        reserved = r["arena"] - r["peaks"].get("direct", 0) if r["policy"] == "arena" else r["reserved"]
        line = f"| {r['model']} | {r['edit']} | {r['policy']} "
        for what, measured in (("allocated", r["allocated"]), ("reserved", reserved)):
            low, high = p[what + "_low_bytes"], p[what + "_high_bytes"]
            off = deviation(low, high, measured)
            interval = high != low
            good = off == 0 if interval else abs(off) <= LIMITS[what]
            within += good
            wide += interval and high - low > 0.1 * measured
            if not good:
                outside.append(f"{r['model']} {r['edit']} {r['policy']} {what} {100 * off:+.2f} %")
            found.setdefault((r["policy"], what, "interval" if interval else "figure"), []).append(abs(off))
            text = f"{low / 2**20:.1f} to {high / 2**20:.1f}" if interval else f"{high / 2**20:.1f}"
            line += f"| {text} | {measured / 2**20:.1f} | {'in it' if interval and not off else f'{100 * off:+.2f} %'} "
        print(line + "|")
    print()
    for (policy, what, kind), values in sorted(found.items()):
        print(f"{policy}, {what}, edits with a{'n' if kind == 'interval' else ''} {kind}: median {100 * statistics.median(values):.2f} %, "
              f"worst {100 * max(values):.2f} % of {len(values)}")
    print(f"{wide} intervals wider than 10 %")
    for line in outside:
        print("outside:", line)
    print(f"{within} within, {len(outside)} outside")
    return bool(outside)


def zero(predictions, ranks, base):
    """Stage 0 is no edit: DDP stands beside the one GPU, and neither within nor outside."""
    said, alone = json.load(open(predictions)), json.load(open(base))
    within, outside = 0, []
    print("| stage | rank | allocated: predicted | measured | | reserved: predicted | measured | | the GPU's |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for r in sorted((json.loads(line) for line in open(ranks)), key=lambda r: (r["stage"], r["rank"])):
        edit = next((e for name, e in said.items() if name.endswith(f" zero={r['stage']}:{r['ranks']}")), None)
        line = f"| {r['stage']} | {r['rank']} "
        for what in ("allocated", "reserved"):
            measured = r[what]
            if not r["stage"]:
                line += f"| {alone[what] / 2**20:.1f} on one GPU | {measured / 2**20:.1f} | {100 * (measured / alone[what] - 1):+.1f} % "
                continue
            p = next(p for p in edit["policies"] if p["policy"] == POLICIES["native"])
            low, high = p[what + "_low_bytes"], p[what + "_high_bytes"]
            off = deviation(low, high, measured)
            within += not off
            if off:
                outside.append(f"stage {r['stage']} rank {r['rank']} {what} {100 * off:+.2f} %")
            line += f"| {low / 2**20:.1f} to {high / 2**20:.1f} | {measured / 2**20:.1f} | {f'{100 * off:+.2f} %' if off else 'in it'} "
        print(line + f"| {r['device_used'] / 2**20:.1f} |")
    print()
    for line in outside:
        print("outside:", line)
    print(f"{within} within, {len(outside)} outside")
    return bool(outside) or not within


if __name__ == "__main__":
    sys.exit({"gather": gather, "measure": measure, "table": table, "zero": zero}[sys.argv[1]](*sys.argv[2:]))
