"""What the parts of `vramscope run` cost a training step (cost_parts.sh).

    cost_parts.py turns OUT.json MODEL [--rounds N] [--steps N] [--device cuda] [--tiny]
    cost_parts.py table OUT.json...

`turns`, under `vramscope run`: in each round every configuration trains one step, in an order that is drawn:

    off       nothing: paused, and what is put around modules' calls is taken out; what finds phases returns at once
    events    recorded as with VRAMSCOPE_STACKS=driver, without what is put around modules' calls
    all       all that `vramscope run` does
    access    and the access ledger, with --access under `vramscope run --access`: beside `off` and `all` alone
    history, history-all    off, but PyTorch records its own memory history, with Python frames, or with those of C++ too; where --configs names them

The host's time goes from an empty queue to the last thing enqueued; the table has the median over the rounds of its ratio to `off`.
Exit status 1 where a default recording (`all`, without --access or STACKS) takes more than 1.03 on a GPU.

What `run` puts around each module's call is taken out by exchanging the code of that one function for what it calls: to set
nn.Module.__call__ each time makes the interpreter forget what it knows of all modules' attributes, which costs the next steps 1 to 3 % more.
"""
import argparse
import ctypes
import json
import os
import random
import statistics
import sys
import time

CONFIGS = ("off", "events", "all", "access", "history", "history-all")
OFF, EVENTS, ALL, ACCESS, HISTORY, HISTORY_ALL = CONFIGS
STACKS_OF_HISTORY = {HISTORY: "python", HISTORY_ALL: "all"}
PARTS = {EVENTS: 0, ALL: 7, ACCESS: 15}
MOST = 1.03


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
    """A function that puts what `vramscope run` has put around each module's call in force (True), or out of it (False)."""
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
        default = args.device != "cpu" and not args.access and not os.environ.get("STACKS")
        json.dump({"model": args.model, "calls": calls, "rounds": rounds, "most": MOST if default else None}, f)


def table(paths):
    from bench_step_figures import median_interval

    bad = False
    for path in paths:
        found = json.load(open(path))
        rounds = found["rounds"]
        off = statistics.median(r[OFF] for r in rounds)
        print(f"{found['model']}: a step takes the host {off / 1e3:.3f} ms, {len(rounds)} rounds, {found['calls']} calls of modules")
        before = 1.0
        for config in [c for c in CONFIGS[1:] if c in rounds[0]]:
            ratios = [r[config] / r[OFF] for r in rounds]
            middle, (low, high) = statistics.median(ratios), median_interval(ratios)
            part = middle - (1.0 if config in (EVENTS, HISTORY, HISTORY_ALL) else before)
            before = middle
            bad |= config == ALL and middle > (found["most"] or middle)
            print(f"  {config:11} {middle:.4f} ({low:.4f} .. {high:.4f}), of sums {sum(r[config] for r in rounds) / sum(r[OFF] for r in rounds):.4f};"
                  f" this part {1e2 * part:+.2f} % = {part * off:+.1f} us")
    return bad


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
