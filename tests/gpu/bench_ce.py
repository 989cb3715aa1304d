#!/usr/bin/env python3
"""bench_ce.py LIBRARY OUT.tsv [--shape N,H,V[,PERCENT IGNORED]]... [OPTION...]     times and errors
    LIBRARY --memory NOTES [...]     the methods once each, under `vramscope run`; --memory-of DB NOTES then reads the recording
    LIBRARY --warm NOTES [...]       calls each compiled method once: fills the caches on disk
    --families [--only REGEX]        seconds, a tab and a REGEX for --only, a line for each process that --warm wants
    --markdown OUT.tsv               the tables of docs/measurements/cross_entropy.md

The linear cross-entropy, ours and its peers: loss and all gradients in bf16. A time is of CUDA events around one call after a rest.
Methods take turns in a round, each round beginning with another one, as a card may lower its clock; "GEMM alone", as many
operations by PyTorch, is one of them.
"""
import argparse
import gc
import json
import os
import re
import signal
import site
import subprocess
import sys
import time

if os.environ.get("BENCH_CE_SITE"):  # an unpacked tree of the peers, with its .pth files
    sys.path.insert(0, os.environ["BENCH_CE_SITE"])
    site.addsitedir(os.environ["BENCH_CE_SITE"])

import bench_ce_table as T

SLOW = 0.15  # seconds of a call from which a few rounds must do
FEW, MANY = 3, 12  # rounds


class Stopped(BaseException):
    """Time is up; no failure of a method, so that nothing that catches those catches it."""


def stop(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice, and what was measured is being written then
    raise Stopped


# ---- the clock ----


def operations(shape):
    """Of the three products, for the tokens that count."""
    import bench_ce_numbers as N

    return 6 * (shape[0] - N.ignored(shape)) * shape[1] * shape[2]


class GpuClock:
    """Milliseconds of a call on the GPU; the first work in line hides the time that the host needs to begin."""

    def __init__(self):
        import torch

        self.torch, self.cuda = torch, torch.cuda
        self.spin = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
        self.matrices = [torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(3)]

    def __call__(self, function):
        """None where the call had to ask the driver for memory: that is not what is measured."""
        segments = self.segments()
        start, end = self.cuda.Event(enable_timing=True), self.cuda.Event(enable_timing=True)
        for _ in range(20):  # also: out of the idle clock
            self.torch.matmul(self.spin, self.spin)
        start.record()
        function()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) if self.segments() == segments else None

    def segments(self):
        return self.cuda.memory_stats()["segment.all.allocated"]

    def gemm(self, shape):
        """(a call of as many operations as SHAPE has, by how much its time is to be multiplied)."""
        one, (a, b, out) = 2 * 8192**3, self.matrices
        work = operations(shape)
        count = max(1, round(work / one))

        def call():
            for _ in range(count):
                self.torch.matmul(a, b, out=out)

        return call, work / (count * one)


class HostClock:
    def __call__(self, function):
        start = time.perf_counter()
        function()
        return 1e3 * (time.perf_counter() - start)

    def gemm(self, shape):
        import torch

        a = torch.randn(256, 256)
        return lambda: a @ a, operations(shape) / (2 * 256**3)


# ---- rounds ----


class Rounds:
    """METHODS in turn, again and again; times[name] and shares[name] are what came of it."""

    def __init__(self, clock, methods, gemm_scale, rest):
        self.clock, self.methods, self.scale, self.rest = clock, dict(methods), gemm_scale, rest
        self.times = {name: [] for name in methods}
        self.shares = {name: [] for name in methods}
        self.failures = {}
        self.laps = 0

    def turn(self, slow):
        """One round; the methods in SLOW sit out when they had theirs."""
        names = [name for name in self.methods if not (name in slow and self.laps >= FEW)]
        first = self.laps % len(names)
        lap = {}
        for name in names[first:] + names[:first]:
            if self.rest:
                time.sleep(self.rest)
            try:
                lap[name] = self.clock(self.methods[name])
            except Exception as error:
                self.failures[name] = error
                del self.methods[name]
        self.laps += 1
        self.keep(lap)

    def keep(self, lap):
        gemm = lap.get(T.GEMM)
        for name, ms in lap.items():
            if ms is not None:
                self.times[name].append(ms)
                if gemm is not None:
                    self.shares[name].append(gemm * self.scale / ms)

    def run(self, until, slow, least=FEW, most=MANY):
        """At least LEAST rounds, more while one more is likely to end before UNTIL; one before them is not counted."""
        rest, self.rest = self.rest, 0
        self.turn(())
        for name in self.times:
            self.times[name], self.shares[name] = [], []
        self.rest, self.laps, took = rest, 0, 0.0
        while self.methods and self.laps < most and (self.laps < least or time.monotonic() + took < until):
            start = time.monotonic()
            self.turn(slow)
            took = time.monotonic() - start


# ---- one shape and kind ----


class Group:
    """All methods at one shape and kind: built, called, compared with fp64, timed; rows come out."""

    def __init__(self, bench, shape, kind):
        import bench_ce_methods as M
        import bench_ce_numbers as N

        self.M, self.N, self.bench = M, N, bench
        self.shape, self.kind = shape, kind
        self.case = M.Case(bench.library, *N.make_inputs(shape, kind, bench.a.device))
        self.rows = {name: T.Row(N.shape_name(shape), kind, name) for name in (T.GEMM, *bench.methods)}
        self.made, self.slow, self.loss = {}, set(), None

    def prepare(self):
        want = None if self.bench.a.no_errors else self.N.reference(self.case.x, self.case.w, self.case.labels)
        self.loss = want and want[0]
        for name, build in self.bench.methods_for(self.shape).items():
            row = self.rows[name]
            try:
                self.made[name] = method = build(self.case)
                row["note"] = method.note
                method()  # compiles
                self.settle(name, method, want)
            except Exception as error:
                self.drop(name, error)

    def settle(self, name, method, want):
        start = time.monotonic()
        results = method.results()
        self.bench.synchronize()
        if time.monotonic() - start > SLOW:
            self.slow.add(name)
        if want:
            row = self.rows[name]
            row["error_loss"], row["error_dx"], row["error_dw"] = self.N.errors(results, want)
        del results
        method.release()

    def drop(self, name, error):
        self.rows[name]["failure"] = self.M.reason(error)
        method = self.made.pop(name, None)
        if method:
            method.close()
        self.bench.clean()

    def called(self, method):
        def call():
            method()
            method.release()  # memory goes back in the order of the stream: nothing waits

        return call

    def time(self, until):
        gemm, scale = self.bench.clock.gemm(self.shape)
        methods = {T.GEMM: gemm, **{name: self.called(method) for name, method in self.made.items()}}
        rounds = Rounds(self.bench.clock, methods, scale, self.bench.a.rest)
        try:
            rounds.run(until, self.slow)
        finally:
            for name in rounds.times:
                self.rows[name].times(rounds.times[name], rounds.shares[name])
            for name, error in rounds.failures.items():
                self.drop(name, error)

    def close(self):
        for method in self.made.values():
            method.close()
        self.made, self.case = {}, None
        self.bench.clean()


class Bench:
    def __init__(self, arguments):
        import torch
        import bench_ce_methods as M
        import kernels_lce as K

        self.a, self.torch = arguments, torch
        if arguments.device == "cuda":
            torch.zeros(1, device="cuda")
        self.library = K.Library(arguments.library, K.CUDA if arguments.device == "cuda" else K.CPU)
        self.methods = M.chosen(arguments.only)
        self.clock = GpuClock() if arguments.device == "cuda" else HostClock()
        self.memory, self.lost, self.warmed = {}, None, read_warm(arguments.warmed)

    def methods_for(self, shape):
        """The chosen methods; one whose first call failed is not called again in a process that others need."""
        from bench_ce_methods import Absent

        def absent(why):
            def build(_):
                raise Absent(why)

            return build

        name = "x".join(map(str, shape))
        failed = {method: why for (where, method), why in self.warmed.items() if where == name and why}
        return {method: absent(failed[method]) if method in failed else build for method, build in self.methods.items()}

    def synchronize(self):
        if self.a.device == "cuda":
            self.torch.cuda.synchronize()

    def clean(self):
        gc.collect()
        if self.a.device == "cuda":
            self.torch.cuda.empty_cache()

    def read_memory(self):
        import bench_ce_memory

        try:
            self.memory, self.lost = bench_ce_memory.read(*self.a.memory_of)
        except Exception as error:  # times without memory are better than nothing
            say(f"no memory figures: {type(error).__name__}: {error}")

    def remember(self, row):
        """The row with what the recording says of it."""
        for name, value in self.memory.get(row.key, {}).items():
            if name != "failure":
                row[name] = value
            elif not row["failure"]:
                row["note"] = f"{row['note'] or ''}; memory: {value}".lstrip("; ")
        return row

    def group(self, shape, kind, until, out):
        group = Group(self, shape, kind)
        try:
            group.prepare()
            if group.loss is not None:
                comment(out, f"{group.N.shape_name(shape)} {kind}: loss {group.loss:.6g} in fp64")
            group.time(until)
        finally:
            for row in group.rows.values():
                emit(out, self.remember(row))
            group.close()

    def run(self, out):
        """The first shape has more of the time than the others; so has one whose calls take longer."""
        work = [(shape, kind) for shape in self.a.shape for kind in self.a.kinds]
        weights = [1.5 if shape == self.a.shape[0] or shape[0] > 16384 else 1 for shape, _ in work]
        end = self.a.start + self.a.seconds
        for i, (shape, kind) in enumerate(work):
            now = time.monotonic()
            until = now + (end - now) * weights[i] / sum(weights[i:])
            name = "x".join(map(str, shape))
            comment(out, f"before {name} {kind}: {card(self.a.device)}")
            try:
                self.group(shape, kind, until, out)
            except (RuntimeError, MemoryError) as error:
                comment(out, f"{name} {kind} failed: {type(error).__name__}: {error}")
                self.clean()
            comment(out, f"after {name} {kind}: {card(self.a.device)}")


# ---- what is written ----


def say(line):
    print(line, flush=True)


def comment(out, line):
    line = " ".join(line.split())
    say("# " + line)
    out.write(f"# {line}\n")
    out.flush()


def emit(out, row):
    say(T.text(row))
    out.write(row.line() + "\n")
    out.flush()


def card(device):
    if device == "cpu":
        return "no GPU: the CPU, to try the program"
    fields = "clocks.sm,clocks.mem,temperature.gpu,power.draw,power.limit,clocks_event_reasons.active"
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", "--id=0"],
                              capture_output=True, text=True, timeout=10)
        return " ".join(f"{name} {value.strip()}," for name, value in zip(fields.split(","), done.stdout.split(","))).rstrip(",")
    except (OSError, subprocess.SubprocessError) as error:
        return f"clocks unknown ({error})"


def describe(out, bench):
    import bench_ce_methods as M

    torch = bench.torch
    if bench.a.device == "cuda":
        driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"],
                                capture_output=True, text=True).stdout.strip() or "unknown"
        comment(out, f"{torch.cuda.get_device_name()}, driver {driver}, CUDA {torch.version.cuda}, Python {sys.version.split()[0]}")
    comment(out, "versions: " + ", ".join(f"{name} {version}" for name, version in M.versions().items()))
    comment(out, f"rest before a call: {bench.a.rest} s; events lost by the recording: "
                 f"{'unknown' if bench.lost is None else bench.lost}")


# ---- the three ways to be called ----


def time_all(a):
    bench = Bench(a)
    if a.memory_of:
        bench.read_memory()
    with open(a.out, "w") as out:
        out.write(T.header() + "\n")
        describe(out, bench)
        bench.run(out)
    say("all was timed")


def warm(a):
    """One call of each compiled method, noted before and after: what fails or never returns is not tried again."""
    import bench_ce_methods as M
    import bench_ce_numbers as N

    bench = Bench(a)
    bench.clock = None  # its matrices would only be in the way
    with open(a.warm, "a") as out:
        for shape in a.shape:
            case = M.Case(bench.library, *N.make_inputs(shape, a.kinds[0], a.device))
            for name in [name for name in bench.methods if name in M.COMPILED]:
                start, note = time.monotonic(), {"shape": N.shape_name(shape), "method": name}
                print(json.dumps(note), file=out, flush=True)
                note["failure"] = failure_of(bench, M, name, case)
                print(json.dumps(note), file=out, flush=True)
                say(f"{note['shape']} {name}: {note['failure'] or 'called'} after {time.monotonic() - start:.1f} s")


def failure_of(bench, M, name, case):
    """Why a call of the method failed; "" where it did not, or there was no room for it beside the others' first calls."""
    try:
        method = M.METHODS[name](case)
        method()
        bench.synchronize()
        method.close()
        return ""
    except Exception as error:
        why = M.reason(error)
        if not re.search("out.of.memory", why, re.IGNORECASE):
            return why
        say(f"{name}: {why}")
        return ""


def read_warm(paths):
    """{(shape, method): why it is not to be called, or ""}."""
    found = {}
    for path in paths:
        with open(path) as file:
            for line in file:
                if line.endswith("\n"):
                    note = json.loads(line)
                    found[note["shape"], note["method"]] = note.get("failure", "its first call did not come back")
    return found


def record(a):
    """The methods under vramscope; shapes and kinds in order while there is time."""
    import bench_ce_memory
    import bench_ce_methods as M
    import bench_ce_numbers as N

    if a.device == "cpu":
        raise SystemExit("bench_ce.py: there is no device memory to record with --device cpu")
    bench, number = Bench(a), 0
    bench.clock = None  # its matrices would only be in the way
    counters = bench_ce_memory.TorchCounters()
    x = bench.torch.randn(64, 64, device="cuda", dtype=bench.torch.bfloat16, requires_grad=True)
    (x @ x).float().sum().backward()  # handles and workspaces that any program has
    x = None
    with open(a.memory, "w") as out:
        for shape in a.shape:
            for kind in a.kinds:
                if time.monotonic() - a.start > a.seconds:
                    say(f"{N.shape_name(shape)} {kind}: not recorded, {a.seconds:.0f} s are over")
                    continue
                case = M.Case(bench.library, *bench_ce_memory.settled(lambda: N.make_inputs(shape, kind, a.device), a.device, bench.clean))
                bench.clean()
                number = bench_ce_memory.record(bench.methods_for(shape), case, counters, out, N.shape_name(shape), kind, M.reason, number)
                say(f"{N.shape_name(shape)} {kind}: recorded after {time.monotonic() - a.start:.0f} s")
                case = None


def arguments(argv):
    parser = argparse.ArgumentParser(prog="bench_ce.py", description=__doc__.split("\n\n")[0], formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("library", nargs="?")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--shape", action="append", help="TOKENS,HIDDEN,VOCABULARY[,PERCENT that is ignored]; default the four of the results")
    parser.add_argument("--kinds", default="random,peaked")
    parser.add_argument("--only", help="regular expression of the methods' names")
    parser.add_argument("--seconds", type=float, default=420, help="for everything, from this process's start")
    parser.add_argument("--rest", type=float, default=0.3, help="seconds before each call")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--no-errors", action="store_true")
    parser.add_argument("--memory", metavar="NOTES")
    parser.add_argument("--memory-of", nargs=2, metavar=("DB", "NOTES"))
    parser.add_argument("--warm", metavar="NOTES")
    parser.add_argument("--warmed", nargs="*", default=[], metavar="NOTES")
    parser.add_argument("--markdown", metavar="TSV")
    parser.add_argument("--families", action="store_true")
    a = parser.parse_args(argv)
    a.start = time.monotonic()
    if a.markdown or a.families:
        return a
    if not a.library or not (a.out or a.memory or a.warm):
        parser.error("a library, and an output, --memory or --warm are needed")
    import bench_ce_numbers as N

    a.kinds = a.kinds.split(",")
    if not set(a.kinds) <= set(N.KINDS):
        parser.error(f"--kinds: {','.join(a.kinds)}: of {','.join(N.KINDS)}")
    try:
        a.shape = [N.read_shape(text) for text in a.shape] if a.shape else list(N.SHAPES)
    except ValueError as error:
        parser.error(str(error))
    return a


def main():
    a = arguments(sys.argv[1:])
    if a.markdown:
        print(T.markdown(*T.read(a.markdown)))
        return 0
    if a.families:
        import bench_ce_methods as M

        print(*(f"{seconds}\t{family}" for family, seconds in M.families(a.only).items()), sep="\n")
        return 0
    signal.signal(signal.SIGTERM, stop)
    try:
        (record if a.memory else warm if a.warm else time_all)(a)
    except Stopped:
        say("stopped: time is up")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
