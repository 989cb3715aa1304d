"""Training step time with and without vramscope, interleaved.

    bench_step.py TREE [--rounds N] [--steps N] [--seconds N] [--only CONFIGURATIONS] [program's options...]

Each round starts the same program once per configuration, in a new order, as its own process; a process's figure is
the median of its step times after warm-up, printed as it comes.  Rounds stop being started once --seconds are used
up, and at the latest after --rounds.  At the end, per configuration: the median over the rounds with minimum and
maximum, and the median of the ratios to `plain` of the same round, with a 95 % bootstrap interval.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WARM_UP = 10
CONFIGS = ["plain", "plain again", "driver stacks", "all stacks", "run (auto phases)", "history python", "history all"]


def command(tree, config, out, steps, extra):
    program = os.path.join(HERE, "train_transformer.py")
    argv = [sys.executable, program, "--steps", str(steps), "--nondeterministic", "--facts", out + ".json"] + extra
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
        done = subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"bench_step: {config}: exit status {done.returncode}: {done.stderr[-2000:]}")
        with open(os.path.join(tmp, "run.json")) as f:
            return statistics.median(json.load(f)["step_ms"][WARM_UP:])


def interval(values):
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[1949]


def arguments():
    p = argparse.ArgumentParser(usage=__doc__.split("\n")[2].strip())
    p.add_argument("tree")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--seconds", type=float, default=float("inf"), help="start no new round after this time")
    p.add_argument("--only", help="configurations, comma-separated; plain is always among them")
    args, extra = p.parse_known_args()
    wanted = ["plain"] + (args.only.split(",") if args.only else CONFIGS)
    unknown = [c for c in wanted if c not in CONFIGS]
    if unknown:
        p.error(f"no configuration {', '.join(unknown)}; there are {', '.join(CONFIGS)}")
    if args.steps <= WARM_UP or args.rounds < 1:
        p.error(f"say --steps of more than {WARM_UP} and --rounds of at least 1")
    args.configs = [c for c in CONFIGS if c in wanted]
    return args, extra


def measure_round(args, extra, number, times):
    order = args.configs[:]
    random.Random(number).shuffle(order)
    for config in order:
        ms = measure(args.tree, config, args.steps, extra)
        times[config].append(ms)
        print(f"round {number + 1}  {config:20} {ms:8.2f} ms", flush=True)


def summary(times):
    print(f"\n{'configuration':20} {'median ms':>10} {'min':>8} {'max':>8} {'ratio':>8}  95 % interval")
    for config, t in times.items():
        ratios = [a / b for a, b in zip(t, times["plain"])]
        low, high = interval(ratios)
        print(f"{config:20} {statistics.median(t):10.2f} {min(t):8.2f} {max(t):8.2f} "
              f"{statistics.median(ratios):8.4f}  {low:.4f} .. {high:.4f}", flush=True)


def main():
    args, extra = arguments()
    times = {c: [] for c in args.configs}
    end = time.monotonic() + args.seconds
    done = 0
    while done < args.rounds and (done == 0 or time.monotonic() < end):
        measure_round(args, extra, done, times)
        done += 1
    if done < args.rounds:
        print(f"{args.seconds:g} s were used up after {done} of {args.rounds} rounds")
    summary(times)


if __name__ == "__main__":
    main()
