"""cost_parts.py turns OUT.json MODEL [OPTION...] | table OUT.json... - what the parts of `vramscope run` cost a training step
(cost_parts.sh).

`turns` runs under `vramscope run`. In each round every configuration trains --turn steps, in an order that is drawn:

    off       paused, and what is put around modules' calls is taken out
    events    recorded as with VRAMSCOPE_STACKS=driver, without what is put around modules' calls
    all       all that `vramscope run` does
    access    and the access ledger, under `vramscope run --access`
    history, history-all    off, but PyTorch records its own memory history, with Python frames, or with those of C++ too

The host's time ends when the last work is enqueued. The table has medians of the rounds' ratios to `off`, with 95 % intervals; a
rare and large cost shows in the ratio of the sums. Exit status 1 on a GPU where a default recording (`all`, without --access or
STACKS) takes more than 1.03 of the host's time, or `events` more than 1.010 of wall time, or its interval reaches 1.015.
"""
import argparse
import ctypes
import json
import math
import os
import random
import statistics
import sys
import time

CONFIGS = ("off", "events", "all", "access", "history", "history-all")
OFF, EVENTS, ALL, ACCESS, HISTORY, HISTORY_ALL = CONFIGS
STACKS_OF_HISTORY = {HISTORY: "python", HISTORY_ALL: "all"}
PARTS = {EVENTS: 0, ALL: 7, ACCESS: 15}
MOST, WALL, BELOW = 1.03, 1.010, 1.015


def history_switch(torch):
    """A function that has PyTorch record its memory history with these stacks, or none."""
    now = None

    def put(stacks):
        nonlocal now
        if stacks != now:
            torch.cuda.memory._record_memory_history("all" if stacks else None, **({"context": "all", "stacks": stacks, "max_entries": 100000} if stacks else {}))
        now = stacks

    return put


def module_hooks(torch):
    """A function that puts what `vramscope run` has put around each module's call in force (True), or out of it (False).

    It exchanges that one function's code: to set nn.Module.__call__ makes the interpreter forget what it knows of all modules' attributes, which
    costs the next steps 1 to 3 % more."""
    wrapper = torch.nn.Module.__call__
    inner = getattr(wrapper, "__wrapped__", None)
    if inner is None or wrapper.__code__.co_freevars != ("call",):
        raise SystemExit("this is for `vramscope run`")
    hooked, names = wrapper.__code__, inner.__code__.co_names
    if inner.__code__.co_freevars or not set(names) <= {"_compiled_call_impl", "_call_impl"}:
        raise SystemExit("this PyTorch's nn.Module.__call__ needs more than its code")
    codes = {True: hooked, False: inner.__code__.replace(co_freevars=("call",))}

    def put(on):
        wrapper.__code__ = codes[on]

    return put


def configure(torch, library):
    """A function that puts one of CONFIGS in force."""
    import vramscope._torch as phases

    modules, history = module_hooks(torch), history_switch(torch)

    def put(config):
        phases.switch(config not in (OFF, HISTORY, HISTORY_ALL))
        history(STACKS_OF_HISTORY.get(config))
        modules(config in (ALL, ACCESS))
        library.vramscope_benchmark_pause()
        if config in PARTS:
            library.vramscope_benchmark_parts(PARTS[config])
            library.vramscope_benchmark_resume()

    return put


def calls_of_modules(torch, step):
    """How many calls of modules a step makes."""
    n = 0

    def count(*_):
        nonlocal n
        n += 1

    hook = torch.nn.modules.module.register_module_forward_pre_hook(count)
    step(0)
    hook.remove()
    return n


def turns(args):
    import torch

    from bench_models import make

    wait = torch.cuda.synchronize if args.device != "cpu" else lambda: None
    library = ctypes.CDLL(None)
    put, draw = configure(torch, library), random.Random(7)
    step, number, rounds = make(args.model, args.device, args.tiny), 0, []
    calls = calls_of_modules(torch, step)
    for number in range(args.steps):
        step(number)
    configs = [OFF, ALL, ACCESS] if args.access else args.configs.split(",")
    for turn in range(args.rounds):
        draw.shuffle(configs)
        rounds.append({})
        for config in configs:
            put(config)
            rounds[-1][config] = [sum(times) / args.turn for times in zip(*(timed(step, turn * args.turn + i, wait) for i in range(args.turn)))]
    put(ALL)
    with open(args.out, "w") as f:
        judged = args.device != "cpu" and not args.access and not os.environ.get("STACKS")
        json.dump({"model": args.model, "calls": calls, "rounds": rounds, "judged": judged}, f)


def timed(step, number, wait):
    """Microseconds of the host, and of the wall, from an empty queue on."""
    wait()
    begin = time.perf_counter_ns()
    step(number)
    enqueued = time.perf_counter_ns()
    wait()
    return (enqueued - begin) / 1e3, (time.perf_counter_ns() - begin) / 1e3


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


def told(rounds, config, which):
    """The median ratio to `off` of the host's (0) or wall (1) time, the upper end of its interval, and both in words."""
    ratios = [r[config][which] / r[OFF][which] for r in rounds]
    middle, (low, high) = statistics.median(ratios), median_interval(ratios)
    sums = sum(r[config][which] for r in rounds) / sum(r[OFF][which] for r in rounds)
    return middle, high, f"{middle:.4f} ({low:.4f} .. {high:.4f}), of sums {sums:.4f}"


def table(paths):
    bad = False
    for path in paths:
        found = json.load(open(path))
        rounds = found["rounds"]
        off, wall = (statistics.median(r[OFF][i] for r in rounds) / 1e3 for i in (0, 1))
        print(f"{found['model']}: a step takes the host {off:.3f} ms, {wall:.3f} in all; {len(rounds)} rounds, {found['calls']} calls of modules")
        before = 1.0
        for config in [c for c in CONFIGS[1:] if c in rounds[0]]:
            (middle, _, host), (of_wall, high, whole) = (told(rounds, config, i) for i in (0, 1))
            part = middle - (1.0 if config in (EVENTS, HISTORY, HISTORY_ALL) else before)
            before = middle
            missed = config == ALL and middle > MOST or config == EVENTS and (of_wall > WALL or high >= BELOW)
            bad |= missed and found["judged"]
            print(f"  {config:11} {host}; this part {1e2 * part:+.2f} % = {part * off * 1e3:+.1f} us; wall {whole}{'  MISSED' if missed else ''}")
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("command", choices=("turns", "table"))
    p.add_argument("out", nargs="+")
    p.add_argument("--rounds", type=int, default=300)
    p.add_argument("--steps", type=int, default=30, help="before the first round")
    p.add_argument("--turn", type=int, default=1)
    p.add_argument("--configs", default=",".join(CONFIGS[:CONFIGS.index(ACCESS)]), help="those to measure, off among them")
    p.add_argument("--device", default="cuda")
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--access", action="store_true")
    args = p.parse_args()
    if args.command == "table":
        return table(args.out)
    args.out, args.model = args.out
    return turns(args)


if __name__ == "__main__":
    sys.exit(main())
