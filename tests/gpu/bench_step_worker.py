"""One process of bench_step.py: trains the models one after the other, times each step, writes JSON.

    bench_step_worker.py OUT.json [--device cuda] [--models NAME,...] [--steps N] [--turns N] [--turn STEPS] [--tiny]

A step begins with nothing queued on the GPU.  Its host time is that to the last thing enqueued, its wall time that to the end of
the GPU's work.  With --turns, after --steps steps, the recording is on and off by turns of --turn steps: pairs of one turn with
and one without, over the same batches, in an order that is drawn for each pair.
"""
import argparse
import ctypes
import json
import random
import time

import torch

from bench_models import MODELS


def recording_switch():
    """(off, on); None where no library is there to be switched."""
    here = ctypes.CDLL(None)
    try:
        return here.vramscope_benchmark_pause, here.vramscope_benchmark_resume
    except AttributeError:
        return None


def timed(step, number, wait):
    wait()
    begin = time.perf_counter_ns()
    step(number)
    enqueued = time.perf_counter_ns()
    wait()
    return (enqueued - begin) / 1e6, (time.perf_counter_ns() - begin) / 1e6


def run(step, first, steps, wait):
    """Host and wall milliseconds of each step."""
    times = [timed(step, first + i, wait) for i in range(steps)]
    return {"host_ms": [h for h, _ in times], "wall_ms": [w for _, w in times]}


def take_turns(step, first, turns, turn, wait, switch):
    off, on = switch
    draw = random.Random(7)
    pairs = []
    for pair in range(turns):
        order = [True, False]
        draw.shuffle(order)
        found = {}
        for recorded in order:
            wait()
            (on if recorded else off)()
            found["on" if recorded else "off"] = run(step, first, turn, wait)
        pairs.append(found)
        first += turn
    on()
    return pairs


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--device", default="cuda")
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--turns", type=int, default=0)
    p.add_argument("--turn", type=int, default=10)
    p.add_argument("--tiny", action="store_true")
    args = p.parse_args()
    wait = torch.cuda.synchronize if args.device != "cpu" else lambda: None
    switch = recording_switch()
    results = {}
    for name in args.models.split(","):
        step = MODELS[name](args.device, args.tiny)
        results[name] = run(step, 0, args.steps, wait)
        if args.turns:
            if switch is None:
                raise SystemExit("bench_step_worker: no libvramscope.so is preloaded")
            results[name]["turns"] = take_turns(step, args.steps, args.turns, args.turn, wait, switch)
    with open(args.out, "w") as f:
        json.dump(results, f)


if __name__ == "__main__":
    main()
