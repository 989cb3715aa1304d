"""What the parts of `vramscope run` cost a training step (cost_parts.sh).

    cost_parts.py turns OUT.json MODEL [--rounds N] [--steps N] [--device cuda] [--tiny]
    cost_parts.py table OUT.json...

`turns`, under `vramscope run`: in each round every configuration trains one step, in an order that is drawn.  Each is the one before
it with one part more:

    off       nothing: paused, and what is put around modules' calls is taken out; what finds phases returns at once
    wrapper   paused, but with all of that
    events    recorded as with VRAMSCOPE_STACKS=driver, without it
    frames    and the Python frames of each block
    births    and the births of autograd nodes
    places    and stacks of backward and layers (of which there are none without the wrapper)
    all       and the wrapper: all that `vramscope run` does
    access    and the access ledger, with --access under `vramscope run --access`: beside `off` and `all` alone
    history, history-all    off, but PyTorch records its own memory history, with Python frames, or with those of C++ too; where --configs names them

The host's time goes from an empty queue to the last thing enqueued; the table has the median over the rounds of its ratio to `off`.
"""
import argparse
import ctypes
import json
import random
import statistics
import sys
import time

CONFIGS = ("off", "wrapper", "events", "frames", "births", "places", "all", "access", "history", "history-all")
OFF, WRAPPER, EVENTS, FRAMES, BIRTHS, PLACES, ALL, ACCESS, HISTORY, HISTORY_ALL = CONFIGS
STACKS_OF_HISTORY = {HISTORY: "python", HISTORY_ALL: "all"}
PARTS = {EVENTS: 0, FRAMES: 1, BIRTHS: 3, PLACES: 7, ALL: 7, ACCESS: 15}


def history_switch(torch):
    """A function that has PyTorch record its memory history with these stacks, or none."""
    now = None

    def put(stacks):
        nonlocal now
        if stacks != now:
            torch.cuda.memory._record_memory_history("all" if stacks else None, **({"context": "all", "stacks": stacks, "max_entries": 100000} if stacks else {}))
        now = stacks

    return put


def configure(torch, library):
    """A function that puts one of CONFIGS in force."""
    import vramscope._torch as phases
    from bench_step_worker import module_hooks

    modules, history = module_hooks(torch), history_switch(torch)

    def put(config):
        phases.switch(config not in (OFF, HISTORY, HISTORY_ALL))
        history(STACKS_OF_HISTORY.get(config))
        modules(config in (WRAPPER, ALL, ACCESS))
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
        took = {}
        for config in configs:
            put(config)
            wait()
            begin = time.perf_counter_ns()
            step(turn)
            took[config] = (time.perf_counter_ns() - begin) / 1e3
            wait()
        rounds.append(took)
    put(ALL)
    with open(args.out, "w") as f:
        json.dump({"model": args.model, "calls": calls, "rounds": rounds}, f)


def table(paths):
    from bench_step_figures import median_interval

    for path in paths:
        found = json.load(open(path))
        rounds = found["rounds"]
        off = statistics.median(r[OFF] for r in rounds)
        print(f"{found['model']}: a step takes the host {off / 1e3:.3f} ms, {len(rounds)} rounds, {found['calls']} calls of modules")
        before = 1.0
        for config in [c for c in CONFIGS[1:] if c in rounds[0]]:
            ratios = [r[config] / r[OFF] for r in rounds]
            middle, (low, high) = statistics.median(ratios), median_interval(ratios)
            part = middle - (1.0 if config in (WRAPPER, EVENTS, HISTORY, HISTORY_ALL) else before)
            before = middle
            print(f"  {config:11} {middle:.4f} ({low:.4f} .. {high:.4f}), of sums {sum(r[config] for r in rounds) / sum(r[OFF] for r in rounds):.4f};"
                  f" this part {1e2 * part:+.2f} % = {part * off:+.1f} us")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("command", choices=("turns", "table"))
    p.add_argument("out", nargs="+")
    p.add_argument("--rounds", type=int, default=300)
    p.add_argument("--steps", type=int, default=30)
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
