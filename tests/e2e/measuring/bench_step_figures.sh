#!/bin/bash
# The figures of tests/gpu/bench_step.py: a cost that is there is found, one that is not is not, and the intervals are those of the textbooks.
set -u
cd "$(dirname "$0")/../../gpu" || exit 1
python3 -B - <<'END'
import contextlib, io, random
from bench_step_figures import first_steps, in_one_process, interval, median_interval, t_975

for freedom, wanted in ((10, 2.2281), (29, 2.0452), (39, 2.0227), (120, 1.9799)):
    assert abs(t_975(freedom) / wanted - 1) < 1e-3, (freedom, t_975(freedom))
low, high = interval([1.0, 1.02] * 20)
assert 1.006 < low < 1.0100 < high < 1.0135, (low, high)

# Order statistics 2 and 9 of 10, 10 and 21 of 30, 40 and 61 of 100 (tables of the sign test); of 5 there is none.
for n, k in ((6, 1), (10, 2), (30, 10), (100, 40)):
    assert median_interval(list(range(1, n + 1))) == (k, n + 1 - k), (n, median_interval(list(range(1, n + 1))))
assert median_interval([1.0] * 5) == (-float("inf"), float("inf"))
low, high = median_interval(list(range(1, 10001)))
assert 4901 <= low <= 4903 and low + high == 10001, (low, high)
rng, missed = random.Random(5), 0
for _ in range(2000):  # a heavy tail: 95 % at least hold the median
    low, high = median_interval([1 + rng.gauss(0, 1) / max(rng.random(), 0.01) for _ in range(40)])
    missed += not low <= 1 <= high
assert missed / 2000 < 0.06, missed

def quietly(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        return function(*arguments), said.getvalue()

def turns(cost, spike=0.0):
    rng = random.Random(3)
    def turn(factor, slow):
        ms = [factor * rng.gauss(10, 0.1) for _ in range(10)]
        ms[4] += slow
        return {"host_ms": ms, "wall_ms": ms}
    return {"small": {"turns": [{"off": turn(1, 0), "on": turn(cost, spike)} for _ in range(40)]}}

assert quietly(in_one_process, turns(1.005))[0]
assert not quietly(in_one_process, turns(1.02))[0]
met, page = quietly(in_one_process, turns(1.0, spike=3.0)) # one step of ten, which a median does not see
assert not met and "met" in page and "MISSED" in page, page

def rounds(early):
    plain = [400.0] + [10.0] * 79
    slow = [450.0] + [10.0 * early] * 19 + [10.05] * 60
    of = lambda ms: {"small": {"host_ms": ms, "wall_ms": ms}}
    return [{"plain": of(plain), "run": of(slow)}] * 3

assert quietly(first_steps, rounds(1.01))[0] and not quietly(first_steps, rounds(1.04))[0]
END
