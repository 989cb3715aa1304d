"""The tables of bench_step.py, from what its workers measured.

A turn's figure is the mean of its steps, and where it has several their median beside it, which a rare slow step does not move.  A
pair's is the ratio of the turn with recording to the one without.

Judged by: the median of the pairs' ratios, at most 1.01, and its 95 % interval by order statistics, below 1.015.  That interval is
right for any distribution of pairs that do not depend on each other, and these have a heavy tail: a neighbour on the machine
makes one turn twice as long, and an interval of a mean is as much about such turns as about the recording.  What a median does not
see, a cost that is rare and large, shows in what is printed beside it: Student's interval of the mean of the pairs' logarithms,
and the ratio of all the time with recording to all the time without.  The first 20 steps: within 2 % of the later ones.
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


def median_interval(values):
    """Of the median, at 95 % at least, for any distribution: the widest pair of order statistics that is needed.  With
    fewer than six values there is none."""
    ordered, n = sorted(values), len(values)
    below, tail = 0, 0.5**n if n < 1000 else 0.0
    if n >= 1000:  # the binomial's normal approximation, half a step wider
        below = math.floor(n / 2 - 1.959964 * math.sqrt(n) / 2 - 0.5)
    else:
        while below < n // 2 and tail <= 0.025:
            below += 1
            tail += math.comb(n, below) * 0.5**n
    return (ordered[below - 1], ordered[n - below]) if below else (-math.inf, math.inf)


def turns_table(name, pairs):
    met = True
    several = len(pairs[0]["on"]["wall_ms"]) > 1
    for what in ("host_ms", "wall_ms"):
        for figure, of in (("mean", statistics.fmean), ("median", statistics.median))[:1 + several]:
            off, on = ([of(p[side][what]) for p in pairs] for side in ("off", "on"))
            ratios = [a / b for a, b in zip(on, off)]
            low, high = median_interval(ratios)
            t_low, t_high = interval(ratios)
            middle = statistics.median(ratios)
            good = high < BELOW and middle <= MEDIAN
            met = met and good
            print(f"{name:6} {what[:4]:5} {figure:7} {statistics.median(off):9.3f} {statistics.median(on):9.3f} {middle:8.4f}  "
                  f"{low:.4f} .. {high:.4f}  {'met' if good else 'MISSED':6}  {t_low:.4f} .. {t_high:.4f}  {sum(on) / sum(off):.4f}")
    return met


def in_one_process(results):
    print(f"\nin one process, recording off and on by turns, {len(next(iter(results.values()))['turns'])} pairs "
          f"of {len(next(iter(results.values()))['turns'][0]['on']['wall_ms'])} steps each")
    print(f"{'model':6} {'time':5} {'of turn':7} {'off ms':>9} {'on ms':>9} {'ratio':>8}  {'its 95 % interval':24}  "
          f"{'Student, of mean':16}  of sums")
    return all([turns_table(name, r["turns"]) for name, r in results.items()])


def whole_processes(rounds):
    print(f"\nwhole processes, steps from {EARLY} on: medians, and of {len(rounds)} rounds the median ratio to plain (least .. greatest)")
    for name in rounds[0]["plain"]:
        for what in ("host_ms", "wall_ms"):
            for config in rounds[0]:
                ms = [statistics.median(r[config][name][what][EARLY:]) for r in rounds]
                plain = [statistics.median(r["plain"][name][what][EARLY:]) for r in rounds]
                ratios = [a / b for a, b in zip(ms, plain)]
                print(f"{name:6} {what[:4]:5} {config:9} {statistics.median(ms):9.3f} ms  {statistics.median(ratios):7.4f} "
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
            print(f"{name:6} {config:9} steps 1-{EARLY - 1}: {early:.4f}, later: {late:.4f}, step 0: {very:.4f} of {plain:.0f} ms  "
                  f"{'met' if good else 'MISSED'}")
    return met
