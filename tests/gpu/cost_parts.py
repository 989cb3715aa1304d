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
    whole     the same, but each walk over Python frames goes to the outermost one, as before shim/core/open_calls.h
    python    as all, but all calls of modules run the wrapper's Python code, as they did before the library made most of them itself
    hooks     as all, but what finds phases in the outermost calls, backward and optimizers runs its Python code, as it did before phase_calls.c
    access    and the access ledger, with --access under `vramscope run --access`: beside `off` and `all` alone
    history, history-all    off, but PyTorch records its own memory history, with Python frames, or with those of C++ too; where --configs names them

With cost_probe.so preloaded as well it says instead how often PyTorch called the library and how long it was inside, in `all`, `whole` and `off`, on
the first thread and elsewhere (where backward runs).
The host's time goes from an empty queue to the last thing enqueued; the table has the median over the rounds of its ratio to `off`.
"""
import argparse
import ctypes
import json
import random
import statistics
import sys
import time

CONFIGS = ("off", "wrapper", "events", "frames", "births", "places", "all", "whole", "python", "hooks", "access", "history", "history-all")
OFF, WRAPPER, EVENTS, FRAMES, BIRTHS, PLACES, ALL, WHOLE, PYTHON, HOOKS, ACCESS, HISTORY, HISTORY_ALL = CONFIGS
STACKS_OF_HISTORY = {HISTORY: "python", HISTORY_ALL: "all"}
PARTS = {EVENTS: 0, FRAMES: 1, BIRTHS: 3, PLACES: 7, ALL: 7, WHOLE: 23, PYTHON: 7, HOOKS: 7, ACCESS: 15}
PROBED = (ALL, OFF, WHOLE)  # modes of the probe
KINDS = ("allocations", "allocations elsewhere", "frees", "births", "births elsewhere")


def phase_hooks(torch, phases):
    """A function that has what finds phases run its Python code (True), or has the library do that where it can.  That it does for one code
    object of each alone, and for models that Python has looked at since."""
    functions = [phases._before_optimizer, phases._after_optimizer, torch.autograd.backward, torch.autograd.graph._engine_run_backward]
    if hasattr(torch.autograd, "Variable"):
        functions.append(type(torch.autograd.Variable._execution_engine).run_backward)
    codes = [(f.__code__, f.__code__.replace(co_name=f.__code__.co_name)) for f in functions]

    def put(by_python):
        for function, code in zip(functions, codes):
            function.__code__ = code[by_python]
        for model in tuple(phases.vramscope_heads._models) if by_python else ():
            phases.vramscope_calls.forget_model(model)

    return put


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

    modules, hooks, history = module_hooks(torch), phase_hooks(torch, phases), history_switch(torch)

    def put(config):
        phases.switch(config not in (OFF, HISTORY, HISTORY_ALL))
        history(STACKS_OF_HISTORY.get(config))
        modules(PYTHON if config == PYTHON else config in (WRAPPER, ALL, WHOLE, HOOKS, ACCESS))
        hooks(config == HOOKS)
        library.vramscope_benchmark_pause()
        if config in PARTS:
            library.vramscope_benchmark_parts(PARTS[config])
            library.vramscope_benchmark_resume()

    return put


def probed(library):
    """What the probe kept: by mode (of PROBED) and kind nanoseconds of each call."""
    library.probe_ticks_per_ns.restype = ctypes.c_double
    rate, found = library.probe_ticks_per_ns(), []
    for mode in range(len(PROBED)):
        by_kind = {}
        for number, kind in enumerate(KINDS):
            times = ctypes.POINTER(ctypes.c_uint32)()
            n = library.probe_take(mode, number, ctypes.byref(times))
            by_kind[kind] = [t / rate for t in times[:n]]
        found.append(by_kind)
    return found


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
    probe = hasattr(library, "probe_mode")
    put, draw = configure(torch, library), random.Random(7)
    step, number, rounds = make(args.model, args.device, args.tiny), 0, []
    calls = calls_of_modules(torch, step)
    for number in range(args.steps):
        step(number)
    configs = list(PROBED) if probe else [OFF, ALL, ACCESS] if args.access else args.configs.split(",")
    for turn in range(args.rounds):
        draw.shuffle(configs)
        took = {}
        for config in configs:
            put(config)
            wait()
            if probe:
                library.probe_mode(PROBED.index(config))
            begin = time.perf_counter_ns()
            step(turn)
            took[config] = (time.perf_counter_ns() - begin) / 1e3
            if probe:
                library.probe_mode(-1)
            wait()
        rounds.append(took)
    put(ALL)
    found = {"model": args.model, "calls": calls, "rounds": rounds}
    if probe:
        found["probe"] = [{kind: {"n": len(v) / args.rounds, "sum_us": sum(v) / args.rounds / 1e3, "median": statistics.median(v or [0]),
                                  "p90": sorted(v)[9 * len(v) // 10] if v else 0} for kind, v in by_kind.items()} for by_kind in probed(library)]
    with open(args.out, "w") as f:
        json.dump(found, f)


def table(paths):
    from bench_step_figures import median_interval

    for path in paths:
        found = json.load(open(path))
        rounds = found["rounds"]
        off = statistics.median(r[OFF] for r in rounds)
        print(f"{found['model']}: a step takes the host {off / 1e3:.3f} ms, {len(rounds)} rounds, {found['calls']} calls of modules")
        if "probe" in found:
            for kind in KINDS:
                on, paused, whole = (mode[kind] for mode in found["probe"])
                print(f"  {kind:22} {on['n']:7.1f} a step, inside {on['sum_us']:7.1f} us (whole {whole['sum_us']:6.1f}, paused {paused['sum_us']:6.1f}), median "
                      f"{on['median']:5.0f} ns (whole {whole['median']:5.0f}, paused {paused['median']:4.0f}), 90 % below {on['p90']:5.0f}")
            continue
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
