"""What a training (arena_train.py) takes under each allocator, and how long: a cycle of steps in turn, in another order each round.

    arena_table.py TREE OUT [OPTION...] | --table OUT/table.json

    live        the greatest sum of living blocks, each rounded up to 512 bytes, as the allocator counts them
    reserved    the most that it held: PyTorch's counter (of cudaMallocAsync: its pool's high-water mark), or the arena's chunks
    process     what NVML says of the process in the end, less what it said after its first tensor
    calls       of the driver for memory (arena_recorded.py)
    step ms     the median over all steps but the first cycle's, with least and greatest of the cycles' medians
"""
import argparse
import json
import os
import random
import shutil
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from arena_recorded import read  # noqa: E402
from arena_worker import NAMES, folder, start  # noqa: E402

MIB = 1 << 20
SLOW = {"nocache": 3}  # cycles that are enough: a step takes several times as long
EACH = ("async", "nocache")  # every block is a call of the driver, by construction: not counted
ENDLESS = ("varied", "lengths")  # no cycle repeats another one
TARGETS = {"single": 1.015, "varied": 1.015, "lengths": 1.02, "light": 1.015, "multi": 1.04}


def started(a, workload, work):
    program = [os.path.join(HERE, "arena_train.py"), "--workload", workload] + a.extra
    workers = {name: start(a.tree, name, program, os.path.join(work, f"{workload}-{name}")) for name in a.configs}
    for worker in workers.values():
        worker.answer("ready", 120)
    return workers


def rounds(a, workload, workers, result, end):
    """Cycle after cycle, each configuration once in a round."""
    for number in range(a.cycles):
        order = list(workers)
        random.Random(number).shuffle(order)
        for name in order:
            if number >= SLOW.get(name, a.cycles) or workers[name].failed or time.monotonic() > end:
                continue
            if number == 0:
                result[name]["begun"] = (workers[name].ask("go", "begun", 60) or {}).get("begun")
            answer = workers[name].answer("cycle", 60) if number == 0 else workers[name].ask("go", "cycle", 60)
            if answer:
                result[name]["cycles"].append(answer)
        save(a)


def finish(a, workload, workers, result, work):
    for name, worker in workers.items():
        worker.end()
        if worker.failed:
            result[name]["failed"] = worker.failed
            print(f"FAIL  {workload}, {name}: {worker.failed}\n{worker.last_words()}", flush=True)
        database = os.path.join(work, f"{workload}-{name}.db")
        if os.path.exists(database):
            try:
                result[name]["recording"] = read(database)
            except Exception as error:  # the table is made without it
                print(f"FAIL  {workload}, {name}: the recording cannot be read: {error}")
            os.unlink(database)
    save(a)


def save(a):
    part = os.path.join(a.out, "table.json.part")
    with open(part, "w") as file:
        json.dump(a.results, file)
    os.replace(part, os.path.join(a.out, "table.json"))


# ---- what the figures are ----


def last(run, key):
    cycles = run.get("cycles") or []
    return cycles[-1].get("counters", {}).get(key) if cycles else None


def live_and_reserved(name, run):
    recording = run.get("recording") or {}
    if "arena" in name:
        live = recording.get("arena_allocated_peak") or recording.get("allocated_peak") or last(run, "allocated_peak")
        reserved = recording.get("arena_reserved_peak") or recording.get("reserved_peak") or last(run, "reserved_peak")
        return live or None, reserved or None
    return last(run, "allocated_peak") or None, last(run, "reserved_peak") or None


def process_bytes(run):
    """Of the driver's figure for the process, what came after the first tensor."""
    before, after = (run.get("begun") or {}).get("process_used"), last(run, "process_used")
    return after - before if after and before else None


def calls(name, run, runs):
    if name in EACH:
        return None
    recording = (run if "arena" in name else runs.get(name.split("+")[0] + "+recorded", {})).get("recording") or {}
    return recording.get("calls_per_1000")


def times(run):
    """All steps but the first cycle's; the medians of the cycles."""
    cycles = (run.get("cycles") or [])[1:]
    return [ms for c in cycles for ms in c["step_ms"]], [statistics.median(c["step_ms"]) for c in cycles]


def losses(run):
    return [loss for c in run.get("cycles") or [] for loss in c["losses"]]


def alike(run, reference):
    """"equal", or the greatest relative difference."""
    if run is reference or not reference:
        return "-"
    pairs = list(zip(losses(run), losses(reference)))
    if not pairs:
        return "none"
    most = max(abs(a / b - 1) for a, b in pairs)
    return "equal" if all(a == b for a, b in pairs) else f"{most:.0e}" if most < 5e-3 else "DIFFER"


# ---- the table ----


def mib(value):
    return f"{value / MIB:9.1f}" if value is not None else "  unknown"


def number(value, form):
    return format(value, form) if value is not None else "unknown".rjust(int(form.split(".")[0]))


def row(name, run, runs):
    live, reserved = live_and_reserved(name, run)
    steps, medians = times(run)
    ratio = reserved / live if live and reserved else None
    time_text = f"{statistics.median(steps):8.2f} ({min(medians):.2f} .. {max(medians):.2f})" if steps else " unknown"
    return (f"{NAMES[name]:36} {mib(live)} {mib(reserved)} {number(ratio, '7.4f')} {mib(process_bytes(run))} "
            f"{'    each' if name in EACH else number(calls(name, run, runs), '8.2f')}  {alike(run, runs.get('native', {})):6} {time_text}")


def verdicts(workload, runs):
    """The lines that say what was to be reached, and whether it was."""
    ours, found = runs.get("arena", {}), []
    live, reserved = live_and_reserved("arena", ours)
    if live and reserved:
        target = TARGETS[workload]
        found.append((reserved / live <= target, f"the arena's ratio {reserved / live:.4f}, to be at most {target}"))
        others = {n: live_and_reserved(n, r)[1] for n, r in runs.items() if n in ("native", "expandable", "async")}
        others = {n: v for n, v in others.items() if v}
        if others:
            best = min(others, key=others.get)
            found.append((reserved <= others[best], f"reserved by the arena {reserved / MIB:.1f} MiB, to be lowest: {NAMES[best]} {others[best] / MIB:.1f} MiB"))
    rate = calls("arena", ours, runs)
    if rate is not None and workload not in ENDLESS:
        found.append((rate == 0, f"driver calls of the arena per 1000 blocks in the last third: {rate:.2f}, to be 0"))
    return found + (sum_verdicts(runs) if workload == "lengths" else time_verdicts(runs))


def sum_verdicts(runs):
    """Where no step is like another one, the steps that map memory anew are few and long, so sums are compared: of the same steps under
    both.  The interval is that of the mean over the cycles, drawn again 2000 times."""
    found = []
    for ours, theirs in (("arena+quiet", "native"), ("arena", "native+recorded"), ("arena+quiet", "expandable"), ("expandable", "native")):
        pairs = [(sum(x["step_ms"]), sum(y["step_ms"]))
                 for x, y in zip(*(runs.get(n, {}).get("cycles") or [] for n in (ours, theirs)))]
        if len(pairs) < 3:
            continue
        draw = random.Random(1)
        ratios = sorted(sum(x for x, _ in p) / sum(y for _, y in p) for p in (draw.choices(pairs[1:], k=len(pairs) - 1) for _ in range(2000)))
        ratio = sum(x for x, _ in pairs[1:]) / sum(y for _, y in pairs[1:])
        found.append((ratio <= 1.10, f"all steps but the first cycle's, {NAMES[ours]} over {NAMES[theirs]}: {ratio:.4f} "
                      f"[{ratios[50]:.4f}, {ratios[-51]:.4f}], to be at most 1.10; by cycle, the first one included: "
                      + " ".join(f"{x / y:.3f}" for x, y in pairs)))
    return found


def time_verdicts(runs):
    medians = {name: statistics.median(times(run)[0]) for name, run in runs.items() if times(run)[0]}
    pairs = [("arena", "native", 1.0), ("arena", "native+recorded", 1.0), ("arena+quiet", "native", 1.0),
             ("nocache-arena", "nocache", 0.25), ("nocache-arena+quiet", "nocache", 0.25)]
    return [(medians[a] / medians[b] <= most, f"step time of {NAMES[a]} over {NAMES[b]}: {medians[a] / medians[b]:.4f}, to be at most {most}")
            for a, b, most in pairs if a in medians and b in medians]


def table(results):
    lines = []
    for workload, runs in results.items():
        cycles = max((len(r.get("cycles") or []) for r in runs.values()), default=0)
        lines += [f"{workload}: {cycles} cycles",
                  f"{'allocator':36} {'live MiB':>9} {'reserved':>9} {'ratio':>7} {'process':>9} {'calls':>8}  {'losses':6} {'step ms':>8}"]
        lines += [row(name, run, runs) for name, run in runs.items()]
        told = losses(runs.get("native", {}))
        lines += [f"losses of torch native: {len(told)}, the first {told[0]!r}, the last {told[-1]!r}"] if told else []
        lines += [f"{'ok   ' if good else 'MISS '} {text}" for good, text in verdicts(workload, runs)]
        for name, run in runs.items():
            lost = (run.get("recording") or {}).get("losses")
            lines += [f"LOSS  {NAMES[name]}: {'; '.join(lost)}"] if lost else []
            lines += [f"FAIL  {NAMES[name]}: {run['failed']}"] if run.get("failed") else []
        lines.append("")
    return "\n".join(lines)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("tree", nargs="?")
    p.add_argument("out", nargs="?")
    p.add_argument("--workloads", default="single,multi,varied,light")
    p.add_argument("--only", help="configurations, comma-separated")
    p.add_argument("--cycles", type=int, default=7)
    p.add_argument("--seconds", type=float, default=190, help="start nothing new after this time")
    p.add_argument("--cpu", action="store_true", help="a tiny model without a GPU: for a test of this script")
    p.add_argument("--table", metavar="JSON", help="only print the table of an earlier run")
    a = p.parse_args()
    if not a.table and not (a.tree and a.out):
        p.error("say TREE and OUT, or --table FILE")
    a.configs = a.only.split(",") if a.only else list(NAMES)
    unknown = [c for c in a.configs if c not in NAMES]
    if unknown:
        p.error(f"no configuration {', '.join(unknown)}; there are {', '.join(NAMES)}")
    a.extra = ["--device", "cpu", "--small"] if a.cpu else []
    return a


def main():
    a = parse()
    if a.table:
        print(table(json.load(open(a.table))))
        return
    begin, a.results = time.monotonic(), {}
    work = folder(a.out, "table.work")
    workloads = a.workloads.split(",")
    for n, workload in enumerate(workloads):
        left = begin + a.seconds - time.monotonic()
        if left < 10:
            print(f"no time is left for {workload}")
            continue
        result = a.results[workload] = {name: {"cycles": []} for name in a.configs}
        workers = started(a, workload, work)
        rounds(a, workload, workers, result, time.monotonic() + left / (len(workloads) - n))
        finish(a, workload, workers, result, work)
        text = table({workload: result})
        print(text, f"({time.monotonic() - begin:.0f} s)", flush=True)
        with open(os.path.join(a.out, "table.txt"), "w") as file:
            file.write(table(a.results))
    shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
