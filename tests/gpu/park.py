"""park.py PART TREE OUT SECONDS - a part of park.sh: trainings of park_model.py with optimizer states parked and without, in turns. A line
for each thing that is shown, PASS, FAIL or SKIP; the exit status is 1 where one failed. No run begins after SECONDS.

    llama    losses, peak and step of 1.5 billion parameters; `whatif --edit=states=host` of the run without is the prediction
    wide     memory that is fullest when the optimizer begins: what does not pay is not parked
    parts    four micro-batches, gradients that stay
    logged   forward looks at the states every third step, once they are parked: correct, and counted
    peers    optimizers that are on the host by PyTorch's own means, beside llama's figures (OUT/llama.json)

SIMULATED=1: the same on the simulated driver, small, without values and times.
"""
import json
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import time

import suspend
from suspend import GIB, HERE, SIMULATED, in_mib, skip, stand_ins, verdict

WAYS = {  # options of vramscope run; None: without it
    "plain": None,
    "arena": ["--allocator=arena"],
    "access": ["--allocator=arena", "--access"],
    "park": ["--park=optimizer-state"],
}
SIZE = r"([0-9.,]+ [KMGT]?i?B)"
PARKED = re.compile(f"park: the optimizer leaves {SIZE} idle for ([0-9.]+) ms of a step; the link takes {SIZE}/s: {SIZE} are parked")
LESS = re.compile(rf"park: ([0-9.]+) ms passed between two optimizers, and the next waited ([0-9.]+) ms for what was parked: from now on (?:{SIZE}|nothing) of the")


def in_bytes(text):
    number, unit = text.split()
    return float(number.replace(",", "")) * 1024 ** " KMGT".index(unit[0] if unit != "B" else " ")


def judged(good, what):
    """As verdict, on a GPU: without one there is no time, and what PyTorch's kernels are given is unknown, so that nothing is parked."""
    skip(what) if SIMULATED else verdict(good, what)


class Run:
    """A training from its beginning to its end."""

    def __init__(self, tree, out, way, shape, steps, *chosen):
        self.way, self.name = way, "-".join([shape, way, *(c.replace("=", "-") for c in chosen)])
        self.database, errors = os.path.join(out, self.name + ".db"), os.path.join(out, self.name + ".stderr")
        chosen, env = [*chosen, *(["small=1"] if SIMULATED else [])], dict(os.environ)
        argv = [sys.executable, os.path.join(HERE, "park_model.py"), shape, str(steps), *chosen]
        run = [os.path.join(tree, "bin/vramscope"), "run", "-q", "-f", "-o", self.database, *(WAYS[way] or [])]
        if SIMULATED:
            env.update(LD_LIBRARY_PATH=os.path.join(tree, "lib/vramscope/sim"), SIMCUDA_CLOCK="work", SIMCUDA_CAPACITY="32GiB")
            shim = os.path.join(tree, "lib/libvramscope.so") + ":" if WAYS[way] else ""
            argv, run = ["env", "LD_PRELOAD=" + shim + stand_ins(tree), "SIMCUDA_DRY=1", *argv], run + ["--simulated"]
        with open(errors, "w") as file:
            try:
                done = subprocess.run(argv if WAYS[way] is None else run + ["--"] + argv, env=env, text=True, stdout=subprocess.PIPE, stderr=file, timeout=240)
                status, output = done.returncode, done.stdout
            except subprocess.TimeoutExpired as late:
                status, output = "a time limit", (late.stdout or b"").decode()
        self.lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        self.stderr = open(errors).read()
        self.steps = [line for line in self.lines if "step" in line]
        self.whole = status == 0 and len(self.steps) == steps
        self.losses = [line["loss"] for line in self.steps]
        if not self.whole:
            said = [line for line in self.stderr.splitlines() if line.strip()]
            verdict(False, f"{self.name}: ended by {status} after {len(self.steps)} steps: {' / '.join(said[-3:])[:500]}")
            return
        last = self.steps[len(self.steps) // 2:]
        self.ms = [line["ms"] for line in last]
        self.peak = max(line["reserved_bytes"] for line in self.steps[-4:])
        self.allocated = max(line["allocated_bytes"] for line in self.steps[-4:])
        self.idle = self.gap_ms = self.link = self.parked = 0.0
        if found := PARKED.search(self.stderr):
            self.idle, self.link, self.parked = (in_bytes(found[i]) for i in (1, 3, 4))
            self.gap_ms = float(found[2])
        for gap, waited, less in LESS.findall(self.stderr):
            print(f"     {self.name}: {in_mib(self.parked)} were parked first, with {waited} ms of waiting after a gap of {gap}", flush=True)
            self.parked = in_bytes(less) if less else 0.0
        print("     " + self.said(), flush=True)

    def said(self):
        park = f"; parked {in_mib(self.parked)} of {in_mib(self.idle)}, idle for {self.gap_ms:.0f} ms, link {self.link / GIB:.1f} GiB/s" if self.way == "park" else ""
        return f"{self.name}: step {statistics.median(self.ms):.1f} ms, reserved {in_mib(self.peak)}, allocated {in_mib(self.allocated)}, parameters {self.lines[0]['parameters']}{park}"


class Turns:
    """The ways one after the other, ROUNDS times; no run begins after UNTIL once each way had one."""

    def __init__(self, tree, out, until, shape, steps, rounds, ways, *chosen):
        self.runs, self.shape = {way: [] for way in ways}, shape
        for turn in range(1 if SIMULATED else rounds):
            for way in ways:
                if turn == 0 or time.monotonic() < until:
                    run = Run(tree, out, way, shape, steps, *chosen)
                    if run.whole:
                        self.runs[way].append(run)
        self.whole = all(self.runs.values())

    def ms(self, way):
        return statistics.median(ms for run in self.runs[way] for ms in run.ms)

    def equal(self):
        runs = [run for way in self.runs.values() for run in way]
        verdict(all(run.losses == runs[0].losses for run in runs) and (SIMULATED or len(set(map(str, runs[0].losses))) > len(runs[0].losses) // 2),
                f"{self.shape}: losses of {len(runs[0].losses)} steps are equal to the bit in {len(runs)} runs ({', '.join(self.runs)}): {float.fromhex(runs[0].losses[-1][0]):.6f} at the end")

    def steps(self, against, most):
        """A step of "park" against one of AGAINST."""
        judged(self.ms("park") <= most * self.ms(against),
               f"{self.shape}: a step {self.ms('park'):.1f} ms parked, {self.ms(against):.1f} {against}: {self.ms('park') / self.ms(against):.3f}, at most {most}")

    def falls(self, against):
        """The peak falls by what is parked."""
        at_peak(self.runs["park"][-1])
        for run, other in zip(self.runs["park"], self.runs[against]):
            fell, parked = other.peak - run.peak, run.parked
            judged(parked > 0 and fell >= 0.95 * parked, f"{self.shape}: the peak of the last four steps falls by {in_mib(fell)} of {in_mib(parked)} that are parked: {fell / max(parked, 1):.3f}")


def at_peak(run):
    """What the recording has to say of it, and of the uses of states: those of one phase alone can be parked."""
    db = sqlite3.connect(run.database)
    try:
        for kind, peak, away, most in db.execute("SELECT kind, peak_bytes, away_bytes, most_away_bytes FROM away_peak WHERE device = 0"):
            print(f"     recorded: {kind} {in_mib(peak)} at the peak, {in_mib(away)} away then, {in_mib(most)} at the most", flush=True)
        for phases, unseen, count, size in db.execute(
                "SELECT ifnull(used_in, 'nothing seen'), ifnull(unseen, 'all seen'), count(*), sum(size_bytes) FROM framework_role r JOIN block_use b "
                "ON b.alloc_seq = r.alloc_seq WHERE r.role = 3 AND size_bytes >= 2097152 GROUP BY 1, 2"):
            print(f"     recorded: {count} states of {in_mib(size)} are used in {phases} ({unseen})", flush=True)
    except sqlite3.Error as error:
        print(f"     recorded: {error}", flush=True)


# ---- llama ----


def tokens_for(tree, out):
    """So many that a step takes about 0.9 s and its blocks fit."""
    if SIMULATED:
        return 4096
    tokens = 24576
    run = Run(tree, out, "arena", "llama", 4, f"tokens={tokens}")
    if not run.whole:
        return 16384
    ms = statistics.median(run.ms)
    if not 600 <= ms <= 1200:
        per_token = (run.peak - 12 * run.lines[0]["parameters"]) / tokens  # parameters and states; gradients come as activations go
        fits = int((118 * GIB - 12 * run.lines[0]["parameters"]) / per_token)
        tokens = max(4096, min(int(tokens * 900 / ms), fits) // 2048 * 2048)
    print(f"     {ms:.0f} ms with 24576 tokens: {tokens} are taken", flush=True)
    return tokens


def predicted(tree, run):
    """(low, high) of what the arena holds with the states on the host, by the recording of RUN."""
    done = subprocess.run([os.path.join(tree, "bin/vramscope"), "whatif", "--json", "--edit=states=host", "--policy=arena", run.database], capture_output=True, text=True)
    try:
        policies = json.loads(done.stdout)["devices"][0]["edits"][1]["policies"]
        policy = next(p for p in policies if p["policy"] == "arena")
        return policy["reserved_low_bytes"], policy["reserved_high_bytes"]
    except (ValueError, KeyError, IndexError, TypeError, StopIteration):
        verdict(False, f"llama: whatif --edit=states=host: {(done.stderr or done.stdout).strip()[:300]}")
        return None


def llama(tree, out, until):
    turns = Turns(tree, out, until, "llama", 12 if SIMULATED else 20, 2, ["arena", "access", "park"], f"tokens={tokens_for(tree, out)}")
    if not turns.whole:
        return
    turns.equal()
    turns.falls("access")
    turns.steps("access", 1.15)
    turns.steps("arena", 1.15)  # what following the uses costs counts in the bound
    parked, states = turns.runs["park"][0].parked, turns.runs["park"][0].lines[0]["state_bytes"]
    judged(parked >= 0.9 * states, f"llama: {in_mib(parked)} of {in_mib(states)} of states are parked")
    with open(os.path.join(out, "llama.json"), "w") as file:
        json.dump({"tokens": turns.runs["park"][0].name.split("tokens-")[1], "ms": turns.ms("park"), "peak": turns.runs["park"][-1].peak}, file)
    said, measured = predicted(tree, turns.runs["access"][-1]), turns.runs["park"][-1].peak
    if said is not None:
        off = 0 if said[0] <= measured <= said[1] else min(abs(measured - end) for end in said) / measured
        judged(off <= 0.01, f"llama: whatif --edit=states=host says {in_mib(said[0])} to {in_mib(said[1])}, parked it holds {in_mib(measured)}: off by {100 * off:.2f} %")


# ---- what nothing was made for ----


def wide(tree, out, until):
    turns = Turns(tree, out, until, "wide", 40, 2, ["access", "park"])
    if not turns.whole:
        return
    turns.equal()
    run = turns.runs["park"][0]
    states = run.lines[0]["state_bytes"]
    judged(run.parked < 0.9 * states, f"wide: {in_mib(run.parked)} of {in_mib(states)} of states are parked, as the optimizer would wait for more")
    turns.steps("access", 1.15)


def parts(tree, out, until):
    turns = Turns(tree, out, until, "parts", 12, 2, ["access", "park"])
    if not turns.whole:
        return
    turns.equal()
    turns.falls("access")
    turns.steps("access", 1.15)


def logged(tree, out, until):
    turns = Turns(tree, out, until, "logged", 18, 1, ["access", "park"])
    if not turns.whole:
        return
    turns.equal()
    run = turns.runs["park"][0]
    norms = [float.fromhex(loss[-1]) for loss in run.losses]
    at_peak(run)
    judged(len(set(norms)) >= 5 and norms[-1] > 0, f"logged: the norms that forward saw: {norms[-1]:.6g} at the end, {len(set(norms))} different ones")
    report = subprocess.run([os.path.join(tree, "bin/vramscope"), "report", "--all", run.database], capture_output=True, text=True).stdout
    counted = [line.strip() for line in (run.stderr + report).splitlines() if re.search(r"unforeseen|not foreseen|foresaw", line)]
    judged(bool(counted), f"logged: uses that were not foreseen are counted: {' / '.join(counted)[:300]}")
    turns.steps("access", 3)


# ---- peers ----


def peers(tree, out, until):
    try:
        ours = json.load(open(os.path.join(out, "llama.json")))
    except OSError:
        return skip("peers: part llama has left no figures")
    print(f"     parked: step {ours['ms']:.1f} ms, reserved {in_mib(ours['peak'])}", flush=True)
    for which, what in (("host", "states in pinned memory, moved by the program in each step"), ("fsdp", "fully_shard with CPUOffloadPolicy")):
        if time.monotonic() > until:
            skip(f"peers: {what}: there is no time left")
            continue
        run = Run(tree, out, "plain", "llama", 5, f"tokens={ours['tokens']}", f"optimizer={which}")
        if run.whole:
            ms = statistics.median(run.ms)
            what = f"peers: {what}: step {ms:.1f} ms, reserved {in_mib(run.peak)}; parked {ours['ms']:.1f} ms: {ms / max(ours['ms'], 1e-3):.2f} times"
            judged(ours["ms"] <= ms, what)


def main():
    part, tree, out, seconds = sys.argv[1:]
    until = time.monotonic() + float(seconds)
    {"llama": llama, "wide": wide, "parts": parts, "logged": logged, "peers": peers}[part](os.path.realpath(tree), os.path.realpath(out), until)
    return suspend.failures != 0


if __name__ == "__main__":
    sys.exit(main())
