#!/bin/bash
# The figures of tests/gpu/cost_parts.py: a cost that is there is found, one that is not is not, and the intervals are those of the textbooks.
set -u
cd "$(dirname "$0")/../../gpu" || exit 1
python3 -B - <<'END'
import contextlib, io, json, random, tempfile
from cost_parts import median_interval, table

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


def judged(events=1.0, all_=1.0, of_gpu=True, noise=0.01):
    """Whether a target was missed, and the table."""
    rng = random.Random(3)
    rounds = [{c: [f * rng.gauss(1e4, 1e4 * noise)] * 2 for c, f in (("off", 1), ("events", events), ("all", all_))} for _ in range(200)]
    with tempfile.NamedTemporaryFile("w") as file, contextlib.redirect_stdout(io.StringIO()) as said:
        json.dump({"model": "small", "calls": 9, "rounds": rounds, "judged": of_gpu}, file)
        file.flush()
        return bool(table([file.name])), said.getvalue()


assert not judged(events=1.005, all_=1.02)[0]
assert judged(events=1.02)[0] and judged(all_=1.05)[0] and judged(events=1.005, noise=0.2)[0]
bad, page = judged(events=1.02, of_gpu=False)
assert not bad and page.count("MISSED") == 1, page
END
