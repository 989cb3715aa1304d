"""Training step time with and without vramscope, interleaved: bench_step.py TREE [--rounds N] [--steps N].

Each round starts the same program once per configuration, in a new order, as its own process; a process's figure is the median of its step
times after warm-up.  Prints per configuration the median over the rounds with minimum and maximum, and the median of the ratios to `plain` of the
same round, with a 95 % bootstrap interval.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGS = ["plain", "plain again", "driver stacks", "all stacks", "run (auto phases)", "history python", "history all"]


def command(tree, config, out, steps, extra):
    argv = [sys.executable, os.path.join(HERE, "train_transformer.py"), "--steps", str(steps), "--nondeterministic", "--facts", out + ".json"] + extra
    env = dict(os.environ, VRAMSCOPE_OUTPUT=out + ".db")
    if config in ("driver stacks", "all stacks"):
        env["LD_PRELOAD"] = os.path.join(tree, "lib/libvramscope.so")
        env["VRAMSCOPE_STACKS"] = config.split()[0]
    elif config.startswith("run"):
        argv = [os.path.join(tree, "bin/vramscope"), "run", "-o", out + ".db", "--"] + argv
    elif config.startswith("history"):
        argv += ["--history", config.split()[1]]
    return argv, env


def measure(tree, config, steps, extra):
    with tempfile.TemporaryDirectory() as tmp:
        argv, env = command(tree, config, os.path.join(tmp, "run"), steps, extra)
        subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(tmp, "run.json")) as f:
            return statistics.median(json.load(f)["step_ms"][10:])


def interval(values):
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[1949]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tree")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--only", help="configurations, comma-separated")
    args, extra = p.parse_known_args()
    configs = [c for c in CONFIGS if not args.only or c in args.only.split(",")]
    times = {c: [] for c in configs}
    for round_ in range(args.rounds):
        order = configs[:]
        random.Random(round_).shuffle(order)
        for config in order:
            times[config].append(measure(args.tree, config, args.steps, extra))
    print(f"{'configuration':20} {'median ms':>10} {'min':>8} {'max':>8} {'ratio':>8}  95 % interval")
    for config in configs:
        t = times[config]
        ratios = [a / b for a, b in zip(t, times["plain"])]
        low, high = interval(ratios)
        print(f"{config:20} {statistics.median(t):10.2f} {min(t):8.2f} {max(t):8.2f} {statistics.median(ratios):8.4f}  {low:.4f} .. {high:.4f}")


if __name__ == "__main__":
    main()
