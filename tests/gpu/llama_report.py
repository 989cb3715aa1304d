"""What llama.sh asks of its recordings, and the tables that it prints.

    predict TSV SETUP...           before anything runs: the estimate's rows.  SETUP: NAME:TOKENS:LAYERS:STATE
    read TSV DB FACTS SETUP LOSS   one recording: its rows; fails where it is incomplete or PyTorch's counter says otherwise
    bound TSV REPORT SETUP         what `vramscope report --json` of the eager run says could be saved
    table TSV                      predicted against measured; fails where one is off by more than 3 %
    losses EAGER FUSED HALVES      three facts files: whether training goes the same way
"""
import json
import os
import sqlite3
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import llama_estimate as E  # noqa: E402

OFF = 0.03
MIB, GIB = 1 << 20, 1 << 30


def parse(setup):
    name, tokens, layers, state = setup.split(":")
    return name, E.Shape(int(tokens), layers=int(layers), state_dtype=state)


def write(path, name, shape, loss, values, source):
    with open(path, "a") as file:
        for phase, value in values.items():
            print(name, shape.tokens, shape.layers, shape.state_dtype, loss, phase, source, value, sep="\t", file=file)


def rows(path):
    """(setup, tokens, layers, state) -> (loss, phase, source) -> value"""
    found = {}
    for line in open(path):
        name, tokens, layers, state, *key, value = line.rstrip("\n").split("\t")
        found.setdefault((name, int(tokens), int(layers), state), {})[tuple(key)] = float(value)
    return found


# ---- predicted ----


def workspace(shape, device):
    import vramscope.cross_entropy as L

    return L.workspace_bytes(shape.tokens, shape.hidden, shape.vocab, device=device)


def predict(path, *setups, device="cuda"):
    print("predicted, from formulas and the fused loss's own size query, before anything ran:")
    for setup in setups:
        name, shape = parse(setup)
        size = workspace(shape, device)
        for loss in ("eager", "fused"):
            peaks = E.phases(shape, loss, size)
            write(path, name, shape, loss, {**peaks, "run": max(peaks.values())}, "predicted")
            parts = ", ".join(f"{phase} {level / GIB:.3f}" for phase, level in peaks.items())
            print(f"  {setup:24} {loss:6} {parts} GiB")
        print(f"  {'':24} static {E.static(shape) / GIB:.3f} GiB, eager logits {E.eager_backward(shape.tokens, shape.vocab) / GIB:.3f}"
              f" GiB, fused workspace {size / MIB:.1f} MiB", flush=True)  # fmt: skip
    return 0


# ---- measured ----


def recorded(database):
    """Phase to its peak allocated and reserved; the run's; the framework's peak; and what speaks against the recording."""
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    ask = lambda sql: db.execute(sql).fetchall()  # noqa: E731
    peaks = {phase: (a, r) for phase, a, r in ask("SELECT phase, allocated_bytes, reserved_bytes FROM phase_peak WHERE device = 0")}
    kinds = dict(ask("SELECT kind, peak_bytes FROM peak WHERE device = 0"))
    peaks["run"] = kinds["allocated"], kinds["reserved"]
    against = [f"{events} events lost: {why}" for events, why in ask("SELECT events, why FROM loss")]
    against += [f"mismatch: {what}, ours {ours}, theirs {theirs}" for what, ours, theirs in ask("SELECT what, ours_bytes, theirs_bytes FROM mismatch")]
    if ask("SELECT value FROM meta WHERE key = 'clean_end'") != [(1,)]:
        against.append("the file was not closed in good order")
    ranges = dict(ask("SELECT phase, ranges FROM phase_peak WHERE device = 0"))
    return peaks, kinds["framework"], ranges, against


def read(path, database, facts_file, setup, loss):
    name, shape = parse(setup)
    facts = json.load(open(facts_file))
    peaks, framework, ranges, against = recorded(database)
    steps = len(facts["losses"])
    if framework != facts["max_memory_allocated"]:
        against.append(f"PyTorch's max_memory_allocated is {facts['max_memory_allocated']}, recorded are {framework}")
    for phase in ("forward", "logits", "backward", "optimizer"):
        if ranges.get(phase) != steps:
            against.append(f"{ranges.get(phase)} ranges of {phase} in {steps} steps")
    known = {phase: peaks[phase] for phase in ("forward", "logits", "backward", "optimizer", "run") if phase in peaks}
    write(path, name, shape, loss, {phase: a for phase, (a, _) in known.items()}, "measured")
    write(path, name, shape, loss, {phase: r for phase, (_, r) in known.items()}, "reserved")
    write(path, name, shape, loss, {"run": round(statistics.median(facts["step_ms"][1:] or facts["step_ms"]), 2)}, "step_ms")
    print("FAIL" if against else "ok  ", f"{setup} {loss}: recorded {steps} steps, allocated {peaks['run'][0]}, reserved {peaks['run'][1]}"
          f" bytes; PyTorch's own peak {'differs' if framework != facts['max_memory_allocated'] else 'equals ours'}", *against, sep="\n      " if against else "")  # fmt: skip
    return bool(against)


def bound(path, report, setup):
    name, shape = parse(setup)
    for device in json.load(open(report))["files"][0]["devices"]:
        savings = device.get("savings") or {}
        found = {"static": savings.get("static_bytes"), "without_logits": savings.get("peak_without_bytes")}
        if None not in found.values():
            for source, value in found.items():
                write(path, name, shape, "eager", {"run": value}, source)
            return 0
    print(f"NOTE: {setup}: this vramscope's report does not say what would lower the peak")
    return 0


# ---- together ----


def gib(value):
    return "-" if value is None else f"{value / GIB:.3f}"


def table(path):
    bad = 0
    print(f"{'setup':8} {'tokens':>6} {'layers':>6} {'state':>5} {'loss':6} {'phase':9} {'predicted':>10} {'measured':>10} {'difference':>20} {'reserved':>10}")
    for (name, tokens, layers, state), values in rows(path).items():
        for loss in ("eager", "fused"):
            for phase in ("logits", "backward", "optimizer", "run"):
                predicted, measured = values.get((loss, phase, "predicted")), values.get((loss, phase, "measured"))
                if predicted is None or measured is None:
                    continue
                off = measured / predicted - 1
                wrong = phase == "run" and abs(off) > OFF
                bad += wrong
                print(f"{name:8} {tokens:6} {layers:6} {state:>5} {loss:6} {phase:9} {gib(predicted):>10} {gib(measured):>10}"
                      f" {(measured - predicted) / MIB:+10.1f} MiB {off:+6.2%} {gib(values.get((loss, phase, 'reserved'))):>9}"
                      + ("  FAIL" if wrong else ""))  # fmt: skip
    print("\nGiB, but for the difference.  What the fused loss saves:")
    for (name, tokens, layers, state), values in rows(path).items():
        bad += not saves(name, E.Shape(tokens, layers=layers, state_dtype=state), values)
    return bool(bad)


def saves(name, shape, values):
    """One line, and what the eager run's report said beforehand; false where the fused run is below its bound."""
    eager, fused = (values.get((loss, "run", "measured")) for loss in ("eager", "fused"))
    if eager is None or fused is None:
        return True
    times = [values.get((loss, "run", "step_ms"), float("nan")) for loss in ("eager", "fused")]
    predicted = values["fused", "run", "predicted"] / values["eager", "run", "predicted"] - 1
    static, logits = E.static(shape), E.eager_backward(shape.tokens, shape.vocab)
    print(f"  {name:8} {shape.tokens:6} tokens, {shape.layers} layers: peak {gib(eager)} -> {gib(fused)} GiB, {fused / eager - 1:+.1%}"
          f" (predicted {predicted:+.1%}); weights and states {static / GIB:.2f} GiB = {static / eager:.0%} of the eager peak,"
          f" its logits {logits / GIB:.2f} GiB = {logits / eager:.0%}; step {times[0]:.1f} -> {times[1]:.1f} ms")  # fmt: skip
    said, floor = (values.get(("eager", "run", source)) for source in ("static", "without_logits"))
    if said is None:
        return True
    good = fused >= floor and abs(said / (static + E.CUBLAS) - 1) < OFF
    print(f"  {'ok' if good else 'FAIL':>8} the eager run's report: static memory {gib(said)} (estimated {gib(static + E.CUBLAS)}),"
          f" without the logits at least {gib(floor)}; the fused loss lies {(fused - floor) / MIB:+.1f} MiB above that")  # fmt: skip
    return good


def losses(*files):
    """A difference in rounding grows from step to step, so the same loss summed in another order is the measure of it.

    Of the first step the weights are equal, and only the loss differs: 1e-4, a fortieth of a step of bf16 (2^-8).  Later
    1e-2, 2.5 such steps, or three times what the same eager loss in two halves drifts by, whichever is more, and no more
    than 3e-2.
    """
    eager, fused, halves = (json.load(open(name))["losses"] for name in files)
    print("step      eager      fused     halves   fused-eager  halves-eager")
    for i in sorted({0, 1, 2, 4, 9, 19, 29, 39, 49, len(eager) - 1}):
        if i < min(len(eager), len(fused), len(halves)):
            print(f"{i + 1:4} {eager[i]:10.6f} {fused[i]:10.6f} {halves[i]:10.6f} {fused[i] / eager[i] - 1:+13.2e} {halves[i] / eager[i] - 1:+13.2e}")
    ours, drift = ([abs(b / a - 1) for a, b in zip(eager, other)] for other in (fused, halves))
    limit = min(max(1e-2, 3 * max(drift)), 3e-2)
    checks = {
        f"{len(eager)} steps each, 50 or more": min(map(len, (eager, fused, halves))) >= 50,
        f"first step: fused is off by {ours[0]:.1e}, at most 1e-4": ours[0] <= 1e-4,
        f"all steps: fused is off by {max(ours):.1e} at most, {statistics.mean(ours):.1e} in the mean; limit {limit:.1e}; "
        f"eager in halves {max(drift):.1e}, {statistics.mean(drift):.1e}": max(ours) <= limit,
        f"the loss falls from {eager[0]:.3f} to {fused[-1]:.3f}": fused[-1] < 0.8 * fused[0],
    }
    for what, good in checks.items():
        print("ok  " if good else "FAIL", what)
    return not all(checks.values())


if __name__ == "__main__":
    sys.exit({"predict": predict, "read": read, "bound": bound, "table": table, "losses": losses}[sys.argv[1]](*sys.argv[2:]))
