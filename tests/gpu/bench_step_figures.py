"""The tables of bench_step.py, from what its workers measured.

A turn's figure is the mean of its ten steps, and beside it their median, which a rare slow step does not move.  A pair's is the
ratio of the turn with recording to the one without.  The interval is the 95 % one of the mean of the pairs' logarithms, by
Student's t.  Targets: the interval below 1.015, the median of the ratios at most 1.01, the first 20 steps within 2 % of the later.
"""
import math
import statistics

BELOW, MEDIAN, FIRST = 1.015, 1.01, 0.02
EARLY = 20


def t_975(freedom):
    """Student's t at 97.5 %, by Cornish and Fisher's expansion: to 0.1 % from 10 degrees of freedom on."""
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2) + (
        3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)


def interval(ratios):
    """Of their geometric mean."""
    logs = [math.log(r) for r in ratios]
    half = t_975(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    middle = statistics.fmean(logs)
    return math.exp(middle - half), math.exp(middle + half)


def counted(pairs, side):
    """What was counted per step, the median over the turns."""
    names = pairs[0][side]["counts"]
    steps = len(pairs[0][side]["host_ms"])
    return {n: statistics.median(p[side]["counts"][n] / steps for p in pairs) for n in names}


def turns_table(name, pairs):
    met = True
    for what in ("host_ms", "wall_ms"):
        for figure, of in (("mean", statistics.fmean), ("median", statistics.median)):
            off, on = ([of(p[side][what]) for p in pairs] for side in ("off", "on"))
            ratios = [a / b for a, b in zip(on, off)]
            low, high = interval(ratios)
            middle = statistics.median(ratios)
            good = high < BELOW and middle <= MEDIAN
            met = met and good
            print(f"{name:6} {what[:4]:5} {figure:7} {statistics.median(off):9.3f} {statistics.median(on):9.3f} {middle:8.4f}  "
                  f"{low:.4f} .. {high:.4f}  {'met' if good else 'MISSED'}")
    off, on = counted(pairs, "off"), counted(pairs, "on")
    print(f"{name:6} per step, off and on: " + "; ".join(f"{n} {off[n]:.1f} {on[n]:.1f}" for n in off))
    return met


def in_one_process(results):
    print(f"\nin one process, recording with driver stacks off and on by turns, {len(next(iter(results.values()))['turns'])} pairs")
    print(f"{'model':6} {'time':5} {'of turn':7} {'off ms':>9} {'on ms':>9} {'ratio':>8}  95 % interval")
    return all([turns_table(name, r["turns"]) for name, r in results.items()])


def whole_processes(rounds):
    print(f"\nwhole processes, steps from {EARLY} on: medians, and of {len(rounds)} rounds the median ratio to plain (least .. greatest)")
    for name in rounds[0]["plain"]:
        for what in ("host_ms", "wall_ms"):
            for config in rounds[0]:
                ms = [statistics.median(r[config][name][what][EARLY:]) for r in rounds]
                plain = [statistics.median(r["plain"][name][what][EARLY:]) for r in rounds]
                ratios = [a / b for a, b in zip(ms, plain)]
                print(f"{name:6} {what[:4]:5} {config:14} {statistics.median(ms):9.3f} ms  {statistics.median(ratios):7.4f} "
                      f"({min(ratios):.4f} .. {max(ratios):.4f})")


def first_steps(rounds):
    """Whether the ratio of the first steps, the very first apart, is that of the later ones.  In the very first the libraries load
    their code, at times that differ by more than all that is to be seen here; its own are shown."""
    print(f"\nfirst {EARLY} steps: recorded over plain, beside the same of the later steps (medians over the rounds)")
    met = True
    for name in rounds[0]["plain"]:
        for config in [c for c in rounds[0] if c != "plain"]:
            def ratio(part):
                return statistics.median(sum(r[config][name]["wall_ms"][part]) / sum(r["plain"][name]["wall_ms"][part]) for r in rounds)
            very, early, late = ratio(slice(0, 1)), ratio(slice(1, EARLY)), ratio(slice(EARLY, None))
            good = early / late - 1 <= FIRST
            met = met and good
            plain = statistics.median(r["plain"][name]["wall_ms"][0] for r in rounds)
            print(f"{name:6} {config:14} steps 1-{EARLY - 1}: {early:.4f}, later: {late:.4f}, step 0: {very:.4f} of {plain:.0f} ms  "
                  f"{'met' if good else 'MISSED'}")
    return met
