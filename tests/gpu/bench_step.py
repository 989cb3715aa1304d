"""What recording costs a training step: host-bound, GPU-bound, and a model whose shapes change (bench_models.py).

    bench_step.py TREE OUT [--models NAME,...] [--turns N] [--turn STEPS] [--steps N] [--rounds N] [--seconds N] [--stacks MODE]

Two ways, each with what the other lacks:

  in one process   recording (--stacks, VRAMSCOPE_STACKS, "driver" if not given) is switched off and on by turns of --turn steps (vramscope_benchmark_pause): the
                   same addresses, the same clocks.  The library stays loaded.  A process for each model
  whole processes  without the library, with it preloaded, and under `vramscope run` (automatic phases), in shuffled order: all
                   that there is, and how the first 20 steps are, but processes differ by percents

Turns of one step make neighbours of what is compared, so that a machine's slow moments fall on both: on an H200 whose pairs of ten
steps differ by 8 % (one standard deviation) two steps that follow each other differ by 8 % as well, and there are ten times as many
of them.  --rounds 0 leaves all the time to them.

What the drain's thread still has to write when the recording is switched off it writes beside the steps without; only the whole
processes show its part.

TREE is an installed tree.  Everything measured goes to OUT/bench_step.json.  Whole rounds are not begun any more after --seconds.
Exit status 77 where there is no GPU; `--device cpu --tiny` tries the script itself.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time

from bench_step_figures import first_steps, in_one_process, whole_processes

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = ["gpt", "small", "cnn"]  # bench_models.py
CONFIGS = ["plain", "preloaded", "run"]


def command(args, config, name, *options):
    out = os.path.join(args.out, name)
    argv = [sys.executable, os.path.join(HERE, "bench_step_worker.py"), out + ".json", "--device", args.device, *options]
    argv += ["--tiny"] if args.tiny else []
    env = dict(os.environ, VRAMSCOPE_OUTPUT=out + ".db")
    env.pop("LD_PRELOAD", None)
    if args.device == "cpu":
        env["OMP_NUM_THREADS"] = "1"
    if config == "preloaded":
        env.update(LD_PRELOAD=os.path.join(args.tree, "lib/libvramscope.so"), VRAMSCOPE_STACKS=args.stacks)
    elif config == "run":
        argv = [os.path.join(args.tree, "bin/vramscope"), "run", "-o", out + ".db", "--", *argv]
    return argv, env, out


def measure(args, config, name, *options, models=None):
    argv, env, out = command(args, config, name, "--models", models or args.models, *options)
    done = subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"bench_step: {config}: exit status {done.returncode}: {done.stderr[-2000:]}")
    with open(out + ".json") as f:
        return json.load(f)


def one_process(args):
    """Of each model its pairs."""
    found = {}
    for name in args.models.split(","):
        found |= measure(args, "preloaded", f"turns-{name}", "--steps", "40", "--turns", str(args.turns), "--turn", str(args.turn), models=name)
    return found


def rounds(args, end):
    found = []
    while len(found) < args.rounds and (not found or time.monotonic() < end):
        order = CONFIGS[:]
        random.Random(len(found)).shuffle(order)
        found.append({c: measure(args, c, f"round{len(found)}-{c.replace(' ', '-')}", "--steps", str(args.steps)) for c in order})
        print(f"round {len(found)}: " + ", ".join(order), flush=True)
    return found


def arguments():
    p = argparse.ArgumentParser(usage=__doc__.split("\n")[2].strip())
    p.add_argument("tree")
    p.add_argument("out")
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--seconds", type=float, default=150)
    p.add_argument("--turns", type=int, default=40)
    p.add_argument("--turn", type=int, default=10)
    p.add_argument("--stacks", default="driver")
    p.add_argument("--steps", type=int, default=80)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--device", default="cuda")
    p.add_argument("--tiny", action="store_true")
    args = p.parse_args()
    if args.steps < 40:
        p.error("say --steps of at least 40: the first 20 are compared with the later ones")
    if args.turn < 1 or not set(args.models.split(",")) <= set(MODELS):
        p.error(f"--turn is 1 at least, --models are of {', '.join(MODELS)}")
    args.tree, args.out = os.path.abspath(args.tree), os.path.abspath(args.out)
    return args


def main():
    args = arguments()
    if args.device == "cuda" and subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode:
        print("skipped: there is no GPU")
        sys.exit(77)
    os.makedirs(args.out, exist_ok=True)
    end = time.monotonic() + args.seconds
    one = one_process(args)
    good = in_one_process(one)
    whole = rounds(args, end)
    if whole:
        whole_processes(whole)
        good = first_steps(whole) and good
    with open(os.path.join(args.out, "bench_step.json"), "w") as f:
        json.dump({"one": one, "whole": whole}, f)
    print("all targets met" if good else "not all targets met")


if __name__ == "__main__":
    main()
