#!/usr/bin/env python3
"""turns.py OLD NEW [TURNS [DIRECTORY]] - two commits' benchmarks in alternating turns: NEW's figure divided by OLD's. No test.

Each commit is built in a work tree under DIRECTORY, which is kept for a second call. CUDA_INCLUDE_DIR names CUDA's headers. Of the
TURNS ratios (30) the median is printed, with the two sorted ratios that hold the true median with 95 % probability. Beside it the
instructions by callgrind, which other programs do not change; where a benchmark can run for less, the difference of a long run and
a short one. About TURNS minutes.
"""
import glob
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

TARGETS = ["vramscope_shim", "hooks_driver", "bench_hooks", "bench_record", "bench_drain", "bench_arena"]
PAIR = r" +([\d.]+) "
HOOKED = r" .*on top of it +([\d.]+) ns"
# program, its arguments, and what is read of its output: a name, a pattern, whether more is better
BENCHES = [
    ("bench_hooks", [], [("hooked alloc + free", "alloc and free" + HOOKED, False), ("hooked launch", "known launch" + HOOKED, False)]),
    ("bench_record", [], [("vs_record", "vs_record, 1 thread" + PAIR, False), ("report of a block", "block, 1 thread" + PAIR, False)]),
    ("bench_drain", ["1000000", "."], [("drain, an event", r"^([\d.]+) M events/s", True)]),
    ("bench_arena", ["3"], [("arena pair, 4 KiB", "one block of +4096 bytes" + PAIR, False),
                            ("arena pair, 1 stream", r"512 blocks of random sizes, +1 \w+" + PAIR, False),
                            ("arena pair, 10 streams", r"512 blocks of random sizes, +10 \w+" + PAIR, False)]),
]
# what callgrind counts: a name, program, arguments, arguments of a shorter run (None: none), the units between them, the functions
# that are counted (empty: all)
COUNTED = [
    ("hooked alloc + free", "bench_hooks", ["0", "30"], ["0", "10"], 20 * 2000, []),
    ("drain, an event", "bench_drain", ["200000", "."], ["100000", "."], 100000, []),
    ("arena, one thread's pairs, millions", "bench_arena", ["1"], None, 1e6, ["vs_arena_malloc", "vs_arena_free"]),
]


def run(command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def build(commit, directory):
    """the folder of COMMIT's build"""
    top = os.path.join(directory, run(["git", "rev-parse", "--short", commit]).strip())
    if not os.path.exists(top):
        run(["git", "worktree", "add", "--detach", top, commit])
    include = os.environ.get("CUDA_INCLUDE_DIR", "/usr/local/cuda/include")
    out = os.path.join(top, "build/turns")
    run(["cmake", "--preset", "release", "-B", out, f"-DCUDA_INCLUDE_DIR={include}"], cwd=top, env={**os.environ, "CC": "gcc"})
    run(["cmake", "--build", out, "--target", *TARGETS], cwd=top)
    return out


def environment(folder, name):
    env = dict(os.environ)
    if name == "bench_hooks":
        driver = glob.glob(f"{folder}/tests/hooks/new/libcuda.so.1") or glob.glob(f"{folder}/tests/hooks/libcuda.so.1")
        env.update(LD_LIBRARY_PATH=os.path.dirname(driver[0]), LD_PRELOAD=f"{folder}/lib/libvramscope.so",
                   VRAMSCOPE_STACKS="off", VRAMSCOPE_OUTPUT="hooks.db")
    return env


def measure(folder, scratch):
    """name -> figure, less is better"""
    out = {}
    for name, arguments, wanted in BENCHES:
        text = run([f"{folder}/tests/{name}", *arguments], cwd=scratch, env=environment(folder, name))
        for what, pattern, more in wanted:
            found = re.search(pattern, text, re.M)
            if found:
                out[what] = 1000 / float(found[1]) if more else float(found[1])
        for left in glob.glob(f"{scratch}/*"):
            os.remove(left)
    return out


def callgrind(folder, name, arguments, functions, scratch):
    file = os.path.join(scratch, "count")
    run(["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={file}", *(f"--toggle-collect={f}" for f in functions),
         f"{folder}/tests/{name}", *arguments], cwd=scratch, env=environment(folder, name))
    with open(file + "-01") as f:  # the main thread's
        count = int(re.search(r"^(?:totals|summary): (\d+)", f.read(), re.M)[1])
    for left in glob.glob(f"{scratch}/*"):
        os.remove(left)
    return count


def instructions(folder, scratch):
    """name -> instructions a unit"""
    out = {}
    for what, name, long, short, units, functions in COUNTED:
        less = callgrind(folder, name, short, functions, scratch) if short else 0
        out[what] = (callgrind(folder, name, long, functions, scratch) - less) / units
    return out


def interval(ratios):
    """the sorted ratios between which the true median lies with 95 % probability (binomial, no assumption on the distribution)"""
    ratios, n = sorted(ratios), len(ratios)
    below, k = 0.0, 0
    while k < n // 2 and (below := below + math.comb(n, k) / 2 ** n) <= 0.025:
        k += 1
    return (ratios[k - 1], ratios[n - k]) if k > 0 else (-math.inf, math.inf)


def main():
    if not 3 <= len(sys.argv) <= 5:
        sys.exit(__doc__.splitlines()[0])
    turns = int(sys.argv[3]) if len(sys.argv) > 3 else 30
    directory = os.path.abspath(sys.argv[4]) if len(sys.argv) > 4 else tempfile.mkdtemp(prefix="turns.")
    os.makedirs(directory, exist_ok=True)
    folders = [build(commit, directory) for commit in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as scratch:
        figures = ([], [])
        for turn in range(turns):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                figures[which].append(measure(folders[which], scratch))
        has_valgrind = subprocess.run(["sh", "-c", "command -v valgrind"], capture_output=True, check=False).returncode == 0
        counts = [instructions(f, scratch) if has_valgrind else {} for f in folders]
    print(f"{turns} turns, load at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; less is better; new / old\n")
    print("| | old | new | median of the ratios | 95 % interval | instructions, old | new | ratio |\n| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |")
    for what in [w for w in figures[0][0] if w in figures[1][0]]:  # not what one of them has no benchmark for
        old, new = ([turn[what] for turn in side] for side in figures)
        ratios = [b / a for a, b in zip(old, new)]
        low, high = interval(ratios)
        count = [c.get(what) for c in counts]
        counted = f"{count[0]:.0f} | {count[1]:.0f} | {count[1] / count[0]:.3f}" if count[0] else " | | "
        print(f"| {what} | {statistics.median(old):.1f} ns | {statistics.median(new):.1f} ns | {statistics.median(ratios):.3f} "
              f"| {low:.3f} to {high:.3f} | {counted} |")
    for what in [w for w in counts[0] if w not in figures[0][0]]:
        print(f"| {what} | | | | | {counts[0][what]:.0f} | {counts[1][what]:.0f} | {counts[1][what] / counts[0][what]:.3f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
