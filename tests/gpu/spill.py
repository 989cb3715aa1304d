"""spill.py PART TREE OUT SECONDS - a part of spill.sh: jobs of spill_model.py that fit, and under a limit that they do not fit, without and with
--spill. A line for each thing that is shown, PASS, FAIL or SKIP; the exit status is 1 where one failed. No run begins after SECONDS.

    llama    1.5 billion parameters with AdamW in fp32, at 1.1 and 1.3 times the limit
    card     the same with more tokens, without a limit: 155 GiB on an H200's 140, held against the job with what tokens fit, and against one that
             keeps no activations but computes them again, whose losses are the same
    layers   inference over layers whose weights do not fit
    vit      another training
    convs, experts   two more, of which nothing was looked at when --spill was made

SIMULATED=1: the same on the simulated driver, small, without values, times and limits: what PyTorch's kernels are given is unknown there, so that all
has to fit.
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
from suspend import GIB, HERE, MIB, SIMULATED, in_mib, skip, stand_ins, verdict

SPILLED = re.compile(r"spill: the device is full and lacks ")


def judged(good, what):
    skip(what) if SIMULATED else verdict(good, what)


class Run:
    """A job from its beginning to its end, under LIMIT (bytes; None: without one)."""

    def __init__(self, tree, out, shape, steps, spill, limit, *chosen):
        self.name = "-".join([shape, *chosen, "spill" if spill else "plain"]) + (f"-{limit // MIB}MiB" if limit else "")
        self.database, errors = os.path.join(out, self.name + ".db"), os.path.join(out, self.name + ".stderr")
        argv, env = [sys.executable, os.path.join(HERE, "spill_model.py"), shape, str(steps), *chosen], dict(os.environ)
        run = [os.path.join(tree, "bin/vramscope"), "run", "-q", "-f", "-o", self.database, *(["--spill"] if spill else ["--allocator=arena", "--access"])]
        run += [f"--limit={limit}"] if limit else []
        if SIMULATED:
            env.update(LD_LIBRARY_PATH=os.path.join(tree, "lib/vramscope/sim"), SIMCUDA_CLOCK="work", SIMCUDA_CAPACITY="32GiB")
            argv, run = ["env", f"LD_PRELOAD={tree}/lib/libvramscope.so:{stand_ins(tree)}", "SIMCUDA_DRY=1", *argv], run + ["--simulated"]
        with open(errors, "w") as file:
            try:
                done = subprocess.run(run + ["--"] + argv, env=env, text=True, stdout=subprocess.PIPE, stderr=file, timeout=150)
                self.status, output = done.returncode, done.stdout
            except subprocess.TimeoutExpired as late:
                self.status, output = "a time limit", (late.stdout or b"").decode()
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        self.stderr = open(errors).read()
        self.steps = [line for line in lines if "step" in line]
        self.whole = self.status == 0 and len(self.steps) == steps
        self.losses = [line["loss"] for line in self.steps]
        last = self.steps[len(self.steps) // 2:]
        self.ms = statistics.median(line["ms"] for line in last) if last else 0
        self.peak = max((line["reserved_bytes"] for line in self.steps), default=0)
        self.allocated = max((line["allocated_bytes"] for line in self.steps), default=0)
        self.total = max((line["total_bytes"] for line in self.steps), default=0)
        self.beside = min((line["beside_bytes"] for line in self.steps), default=0)
        print(f"     {self.name}: status {self.status}, {len(self.steps)} steps, the last ones {self.ms:.1f} ms, reserved {in_mib(self.peak)}", flush=True)
        for line in [line for line in self.stderr.splitlines() if "spill:" in line][:3]:
            print("     " + line, flush=True)

    def away(self):
        try:
            return sqlite3.connect(self.database).execute("SELECT ifnull(max(away_bytes), 0) FROM away").fetchone()[0]
        except sqlite3.Error as error:
            print(f"     {self.name}: {error}", flush=True)
            return 0


def held(tree, out, until, shape, steps, overs):
    """At so many times what the limit leaves to its memory; OVERS: and how many times as long a step may take."""
    fits = Run(tree, out, shape, steps, False, None)
    if not fits.whole:
        return verdict(False, f"{shape}: where it fits: status {fits.status}")
    for over, longer in overs:
        if time.monotonic() > until:
            return skip(f"{shape}: at {over} times: there is no time left")
        limit = None if SIMULATED else int(fits.beside + fits.peak / over) // MIB * MIB
        if over == overs[0][0] and not SIMULATED:
            dies = Run(tree, out, shape, steps, False, limit)
            verdict(not dies.whole and "out of memory" in dies.stderr, f"{shape}: without --spill it dies of out-of-memory at {over} times")
        run = Run(tree, out, shape, steps, True, limit)
        if not verdict(run.whole, f"{shape}: at {over} times what the limit leaves it runs to its end"):
            continue
        verdict(run.losses == fits.losses and (SIMULATED or len(set(map(str, run.losses))) > len(run.losses) // 2),
                f"{shape}: {len(run.losses)} losses are equal to the bit: {float.fromhex(run.losses[-1]):.6f} at the end")
        judged(SPILLED.search(run.stderr) and run.away() >= 0.9 * (fits.peak - fits.peak / over),
               f"{shape}: {in_mib(run.away())} were on the host at the most, {in_mib(fits.peak - fits.peak / over)} are too many")
        judged(run.ms <= longer * fits.ms, f"{shape}: a step {run.ms:.1f} ms, {fits.ms:.1f} where it fits: {run.ms / max(fits.ms, 1e-3):.3f} times, at most {longer}")


def card(tree, out, until, steps=16, few="tokens=36864", many="tokens=43008"):
    fits = Run(tree, out, "llama", steps, False, None, few)
    spilled = Run(tree, out, "llama", steps, True, None, many)
    if time.monotonic() > until:
        return skip("card: there is no time left")
    again = Run(tree, out, "llama", steps, False, None, many, "checkpoints=1")
    if not verdict(fits.whole and spilled.whole and again.whole, f"card: {few} without --spill, {many} with it, and computed again, run to their ends"):
        return
    verdict(spilled.losses == again.losses, f"card: {len(spilled.losses)} losses are equal to the bit: {float.fromhex(spilled.losses[-1]):.6f} at the end")
    judged(spilled.allocated > 1.1 * spilled.total, f"card: {in_mib(spilled.allocated)} on a card of {in_mib(spilled.total)}, {in_mib(spilled.away())} of them on the host at the most")
    ratio = spilled.ms / max(fits.ms, 1e-3) * int(few.split("=")[1]) / int(many.split("=")[1])
    judged(ratio <= 1.5, f"card: a token takes {ratio:.3f} times as long as where it fits, at most 1.5; computed again the step is {again.ms:.1f} ms")
    if time.monotonic() > until:
        return skip("card: there is no time left for it without --spill")
    dies = Run(tree, out, "llama", 2, False, None, many)
    judged(not dies.whole and "out of memory" in dies.stderr, f"card: {many} without --spill die of out-of-memory")


def main():
    part, tree, out, seconds = sys.argv[1:]
    until, tree, out = time.monotonic() + float(seconds), os.path.realpath(tree), os.path.realpath(out)
    if part == "card":
        card(tree, out, until, *([4] if SIMULATED else []))
        return suspend.failures != 0
    overs = {"llama": [(1.1, 1.5), (1.3, 2.5)], "layers": [(1.2, 12)], "vit": [(1.1, 2)], "convs": [(1.1, 2)], "experts": [(1.1, 2)]}[part]
    held(tree, out, until, part, 8 if SIMULATED else 24, overs)
    return suspend.failures != 0


if __name__ == "__main__":
    sys.exit(main())
