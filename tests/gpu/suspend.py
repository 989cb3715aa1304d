"""suspend.py PART TREE OUT - a part of suspend.sh: has programs suspended and resumed, and judges what they say and what NVML says of
them. A line for each thing that is shown, PASS, FAIL or SKIP; their exit status is 1 where one failed.

    cycles SECONDS   1000 cycles of a program that suspends itself: no wrong word, and nothing grows
    rate SECONDS     24 GiB there and back: nine tenths of what plain copies reach in the same process
    left             what a ViT in a CUDA graph leaves on the device, and the losses after it
    outside          a training is suspended while it runs, and another process takes the memory
    killed           a program ends while its memory moves
    nccl             NCCL's memory goes and comes with a program that suspends itself, on two GPUs if there are, else on one

SIMULATED=1: the same on the simulated driver, small and without values; what needs the driver's own word is skipped.
"""
import atexit
import ctypes
import functools
import json
import os
import queue
import signal
import sqlite3
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "oracle/programs"))
from truth import Process  # noqa: E402

SIMULATED = os.environ.get("SIMULATED") == "1"
MIB, GIB = 1 << 20, 1 << 30
failures = 0


def verdict(good, what):
    global failures
    failures += not good
    print("PASS" if good else "FAIL", what, flush=True)
    return good


def skip(what):
    print("SKIP", what, flush=True)


# ---- programs ----


def stand_ins(tree):
    """Of the simulated driver, first of all, and of the libraries that stand on it."""
    found = []
    for folder in ("sim", "dry"):
        at = os.path.join(tree, "lib/vramscope", folder)
        found += [os.path.join(at, name) for name in sorted(os.listdir(at)) if name.startswith("lib") and ".so." in name]
    return ":".join(found)


class Program:
    """suspend_program.py under the arena: its lines as they come. plain: without vramscope."""

    def __init__(self, tree, out, name, *arguments, plain=False):
        self.name, self.tree = name, tree
        self.database = os.path.join(out, name + ".db")
        program, env = [sys.executable, os.path.join(HERE, "suspend_program.py"), *map(str, arguments)], dict(os.environ)
        run = [os.path.join(tree, "bin/vramscope"), "run", "-q", "-f", "-o", self.database, "--allocator=arena"]
        if SIMULATED:
            preload = ("" if plain else os.path.join(tree, "lib/libvramscope.so") + ":") + stand_ins(tree)
            program = ["env", "LD_PRELOAD=" + preload, "SIMCUDA_DRY=1"] + program
            env["LD_LIBRARY_PATH"] = os.path.join(tree, "lib/vramscope/sim")
            run.append("--simulated")
        argv = program if plain else run + ["--"] + program
        self.stderr = open(os.path.join(out, name + ".stderr"), "w")
        self.process = subprocess.Popen(argv, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, process_group=0)
        atexit.register(self.kill)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(json.loads(line))
        self.lines.put(None)

    def line(self, seconds):
        """The next line; None: it has ended, or said nothing for so long."""
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def until(self, word, seconds=180):
        """All lines up to the one that has WORD, and that one, or None."""
        until, before = time.monotonic() + seconds, []
        while (line := self.line(max(0, until - time.monotonic()))) is not None:
            if word in line:
                return before, line
            before.append(line)
        self.tell_why(f"said no '{word}'")
        return before, None

    def tell(self, line=""):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            pass

    def ask(self, line, word, seconds=120):
        self.tell(line)
        return self.until(word, seconds)[1]

    def end(self, seconds=120):
        """Its standard input ends; the lines until it has ended, too."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        until, rest = time.monotonic() + seconds, []
        while (line := self.line(max(0, until - time.monotonic()))) is not None:
            rest.append(line)
        try:
            status = self.process.wait(max(1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            status = "a time limit"
        if status != 0:
            self.tell_why(f"ended by {status}")
        return rest

    def kill(self):
        """It and what it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass

    def tell_why(self, what):
        with open(self.stderr.name) as file:
            verdict(False, f"{self.name}: {what}: {' / '.join(file.read().splitlines()[-4:])[:600]}")


def asks(tree, command, pid, *options):
    """(exit status, what the JSON has of the process, seconds)"""
    begun = time.monotonic()
    done = subprocess.run([os.path.join(tree, "bin/vramscope"), command, "--json", *options, str(pid)], capture_output=True, text=True)
    try:
        answer = json.loads(done.stdout)["processes"][0]
    except (ValueError, KeyError, IndexError):
        answer = {"state": "none", "why": done.stderr.strip()}
    return done.returncode, answer, time.monotonic() - begun


def done(name, asked):
    status, answer, _ = asked
    good = status == 0 and answer["state"] == "done"
    if not good:
        verdict(False, f"{name}: exit status {status}, {answer['state']}: {answer.get('why')}")
    return good


@functools.lru_cache()
def nvml():
    library, device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
    if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)):
        raise OSError("NVML does not answer")
    return library, device


def used(pid):
    """What the driver says that a process has, in bytes; None: it does not list it."""
    if SIMULATED:
        return None
    (library, device), processes, count = nvml(), (Process * 256)(), ctypes.c_uint(256)
    if library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes):
        return None
    return next((p.used for p in processes[:count.value] if p.pid == pid), None)


def in_mib(size):
    return "unknown" if size is None else f"{size / MIB:,.1f} MiB"


# ---- cycles ----


def cycles(tree, out, seconds):
    wanted = 1000 if SIMULATED else 1000
    program = Program(tree, out, "cycles", "cycles", wanted, seconds)
    _, said = program.until("cycles", float(seconds) + 120)
    program.end()
    if said is None or not verdict("refused" not in said, f"cycles: {said['cycles']} suspended: {said.get('refused', 'each')}"):
        return
    n = said["cycles"]
    verdict(n == wanted, f"cycles: {n} of {wanted} in {said['seconds']} s, {in_mib(said['live_bytes'])} alive")
    verdict(said["wrong"] == 0 and said["planted"], f"cycles: {said['wrong']} wrong words; one that is planted is {'' if said['planted'] else 'not '}found")
    aliased = sqlite3.connect(program.database).execute("SELECT aliased FROM arena").fetchone()
    verdict(aliased is not None and aliased[0] > 0, f"cycles: {aliased and aliased[0]} chunks were mapped once more, as aliases")
    most = max(said["away_bytes"])
    verdict(most < min(said["back_bytes"]) - said["live_bytes"] * 9 // 10, f"cycles: {in_mib(most)} of the process while suspended, {in_mib(min(said['back_bytes']))} else")
    if n < 200:
        return skip("cycles: growth is looked at from 200 cycles on")
    for name, slack in (("rss_kib", 256), ("size_kib", 1024), ("pinned_kib", 0), ("files", 0), ("mappings", 0), ("away_bytes", 0), ("back_bytes", 0), ("reserved_bytes", 0)):
        before, after = max(said[name][n - 140:n - 100]), max(said[name][n - 40:])  # the program repeats itself after 40
        verdict(after <= before + slack, f"cycles: {name} over the last 100: {before} then {after}")


# ---- rate ----


def room():
    """MiB that a suspension gets on the host: three quarters of what is available; a little stays for the programs."""
    with open("/proc/meminfo") as file:
        kib = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))
    return (kib >> 10) * 3 // 4 - 2048


def rate(tree, out, seconds):
    mib, link, most, begun = (128, 64, 1, 0) if SIMULATED else (min(24 << 10, room()), 8 << 10, 5, time.monotonic())
    if not SIMULATED and mib < 24 << 10:
        skip(f"rate: 24 GiB: the host has room for {mib / 1024:.1f}")
    program, rows = Program(tree, out, "rate", "hold", mib), []
    _, ready = program.until("ready")
    while ready is not None and len(rows) < most and (len(rows) < 3 or time.monotonic() - begun < float(seconds)):
        rates = program.ask(f"link {link}", "link_out")
        away = asks(tree, "suspend", ready["ready"])
        figure = used(ready["ready"])
        if rates is None or not done("rate: suspend", away):
            break
        back = asks(tree, "resume", ready["ready"])
        if not done("rate: resume", back):
            break
        rows.append({"link_out": rates["link_out"], "link_in": rates["link_in"], "used_away": figure, **{
            f"{way}_{name}": answer[name] for way, answer in (("out", away[1]), ("in", back[1])) for name in ("moved_bytes", "moving_ns", "host_ns")}})
        print("     " + json.dumps(rows[-1]), flush=True)
    checked = program.ask("check", "wrong") if rows else None
    program.end()
    if not verdict(len(rows) == most or len(rows) >= 3, f"rate: {len(rows)} rounds of {mib / 1024:.3g} GiB"):
        return
    verdict(checked is not None and checked["wrong"] == 0, f"rate: {checked} wrong words afterwards")
    for way in ("out", "in"):
        moved = statistics.median(r[f"{way}_moved_bytes"] / max(r[f"{way}_moving_ns"], 1) * 1e9 for r in rows)
        plain = statistics.median(r[f"link_{way}"] for r in rows)
        host = statistics.median(r[f"{way}_host_ns"] for r in rows) / 1e9
        what = f"rate {way}: {moved / GIB:.2f} GiB/s, plain copies {plain / GIB:.2f}: {moved / plain:.3f}; the host's memory took {host:.2f} s beside it"
        skip(what) if SIMULATED else verdict(moved >= 0.9 * plain, what)


# ---- left ----


def losses(lines):
    return [line["loss"] for line in lines if "loss" in line]


def small():
    return ["small"] if SIMULATED else []


def suspended_at_stop(tree, program, stop, *options):
    """Suspends a program that waits, looks, and resumes it. What NVML said meanwhile, and what the program answered afterwards."""
    pid = program.pid
    away = asks(tree, "suspend", pid, *options)
    if not done("left: suspend", away):
        return None
    figure, answer = used(pid), away[1]
    verdict(answer["left_bytes"] == 0, f"left: {in_mib(answer['left_bytes'])} of the arena's while suspended {' '.join(options)}, {in_mib(answer['moved_bytes'])} moved")
    if figure is None:
        skip("left: NVML's figure of another process")
    else:
        outside = stop["used_bytes"] - stop["reserved_bytes"]
        verdict(abs(figure - outside) <= 4 * MIB, f"left: {in_mib(figure)} of the process while suspended; it had {in_mib(outside)} beside the arena's {in_mib(stop['reserved_bytes'])}")
    done("left: resume", asks(tree, "resume", pid))
    if figure is not None:
        back = used(pid)
        verdict(abs(back - outside - answer["moved_bytes"]) <= 4 * MIB, f"left: {in_mib(back)} after the resume, {in_mib(stop['used_bytes'])} before, with what was idle")
    return figure


def left(tree, out):
    """Four processes side by side: nothing is timed."""
    steps, how = 24, ["captured", *small()]
    whole = [Program(tree, out, f"whole{i}", "vit", steps, *how) for i in (1, 2)]
    program = Program(tree, out, "left", "vit", steps, *how, "stop=8", "stop=16")
    freed = {name: Program(tree, out, f"freed-{name}", "vit", steps, *how, "freed", plain=name == "native") for name in ("arena", "native")}
    lines, figures = [], []
    _, ready = program.until("ready")
    program.pid = ready["ready"] if ready else 0
    for options in ((), ("--to=" + out,)):
        before, stop = program.until("stop") if ready else ([], None)
        if stop is None:
            return
        lines += before
        figures.append(suspended_at_stop(tree, program, stop, *options))
        program.tell()
    lines += program.end()
    other = [losses(each.end()) for each in whole]
    if other[0] == other[1] and len(other[0]) == steps and (SIMULATED or len(set(other[0])) > steps // 2):
        verdict(losses(lines) == other[0], f"left: losses of {steps} steps by a captured graph are equal to the bit, suspended twice or never: {float.fromhex(other[0][-1]):.6f} at the end")
    else:
        verdict(False, f"left: the training does not repeat itself, so its losses show nothing: {other[0][-1:]} {other[1][-1:]}")
    for name, each in freed.items():
        _, end = each.until("freed")
        each.end()
        if end is None or figures[0] is None:
            skip(f"left: beside a process that freed all ({name})")
            continue
        what = f"left: {in_mib(figures[0])} while suspended, {in_mib(end['used_bytes'])} of a process that ran the same and freed all ({name}), {in_mib(end['reserved_bytes'])} of these reserved"
        verdict(figures[0] - (end["used_bytes"] - end["reserved_bytes"]) <= 64 * MIB, what)  # its graph is gone


# ---- outside ----


HOG = """
import sys, torch
held, piece = [], 64 << 20
while torch.cuda.mem_get_info()[0] > int(sys.argv[1]) + piece:
    left = torch.cuda.mem_get_info()[0] - int(sys.argv[1])
    held.append(torch.empty(max(piece, left // 2), dtype=torch.uint8, device="cuda"))
torch.cuda.synchronize()
print(torch.cuda.mem_get_info()[0], flush=True)
sys.stdin.read()
"""


def said_within(program, seconds):
    """Its lines until it has said nothing for so long, a hundred at the most."""
    found = []
    while len(found) < 100 and (line := program.line(seconds)) is not None:
        found.append(line)
    return found


def stands_still(program, lines):
    """Whether no step ends any more; those of before are read first, and one may have been at its end."""
    lines += said_within(program, 0.2)
    late = said_within(program, 1)
    lines += late
    return len(late) <= 1


def goes_on(program, lines):
    """Two steps end: one may have been at its end before."""
    for _ in range(2):
        before, step = program.until("step", 60)
        lines += before + ([step] if step else [])
        if step is None:
            return False
    return True


def while_others_have_it(tree, program, moved):
    if SIMULATED:
        skip("outside: processes do not share the simulated device")
        return done("outside: resume", asks(tree, "resume", program.pid))
    pid, keep = program.pid, moved // 2
    hog = subprocess.Popen([sys.executable, "-c", HOG, str(keep)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    left = int(hog.stdout.readline() or 0)
    verdict(0 < left < moved, f"outside: another process leaves {in_mib(left)} of the device, {in_mib(moved)} are to come back")
    before = used(pid)
    status, answer, seconds = asks(tree, "resume", pid, "--timeout=2s")
    verdict(status == 1 and answer["state"] == "late" and 2 <= seconds < 20, f"outside: resume --timeout=2s: exit status {status}, {answer['state']} after {seconds:.1f} s: {answer['why']}")
    verdict(used(pid) == before, f"outside: {in_mib(used(pid))} of the process afterwards, {in_mib(before)} before")
    waits = subprocess.Popen([os.path.join(tree, "bin/vramscope"), "resume", "--json", str(pid)], stdout=subprocess.PIPE, text=True)
    hog.stdin.close()
    hog.wait(60)
    said = json.loads(waits.communicate(timeout=120)[0])["processes"][0]
    verdict(waits.returncode == 0 and said["state"] == "done", f"outside: the resume that waited, after the other had ended: {said['state']} {said['why'] or ''}")


def outside(tree, out):
    program, lines = Program(tree, out, "outside", "vit", 100000, "endless", *small()), []
    _, ready = program.until("ready")
    if ready is None:
        return
    program.pid = ready["ready"]
    for options in ((), ("--to=" + out,), ("--role=optimizer-state",), ("--keep=parameter",)):
        name = f"outside {options[0].split('=' + out)[0] if options else ''}".strip()
        for _ in range(2):
            if not goes_on(program, lines):
                return
        away = asks(tree, "suspend", program.pid, *options)
        if not done(name, away):
            continue
        moved, states = away[1]["moved_bytes"], ready["state_bytes"]
        if "--role=optimizer-state" in options:
            verdict(0 < moved <= states, f"{name}: {in_mib(moved)} of {in_mib(states)} moved")
        else:
            verdict(moved > 0, f"{name}: {in_mib(moved)} moved")
        verdict(stands_still(program, lines), f"{name}: no step ends while it is suspended")
        if not options:
            verdict(away[1]["left_bytes"] == 0, f"{name}: {in_mib(away[1]['left_bytes'])} left")
            while_others_have_it(tree, program, moved)
        else:
            done(name, asks(tree, "resume", program.pid))
        verdict(goes_on(program, lines), f"{name}: steps go on after the resume")
    lines += program.end()
    found = losses(lines)
    whole = Program(tree, out, "outside-whole", "vit", len(found), *small())
    other = losses(whole.end(300))
    verdict(len(found) > 0 and found == other, f"outside: losses of {len(found)} steps are equal to the bit with those of a run that was never suspended")


# ---- killed ----


def killed(tree, out):
    program = Program(tree, out, "killed", "hold", 128 if SIMULATED else 8 << 10)
    _, ready = program.until("ready")
    if ready is None:
        return
    pid, before = ready["ready"], used(ready["ready"])
    asking = subprocess.Popen([os.path.join(tree, "bin/vramscope"), "suspend", str(pid)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until, seen = time.monotonic() + 60, before
    while not SIMULATED and time.monotonic() < until and asking.poll() is None and (seen := used(pid) or 0) > before * 9 // 10:
        pass
    os.kill(pid, signal.SIGKILL)
    said = asking.communicate(timeout=90)[0].strip()
    program.process.wait(60)
    middle = "" if SIMULATED else f" with {in_mib(seen)} of {in_mib(before)} on the device"
    verdict(not os.path.exists(f"/proc/{pid}"), f"killed{middle}: the process is gone; who asked was told: {said[:160]}")
    while time.monotonic() < until and used(pid) is not None:
        time.sleep(0.05)
    verdict(used(pid) is None, "killed: the driver does not list it any more")
    verdict(asks(tree, "resume", pid)[0] == 3, "killed: resume says by its exit status that nobody records")
    left = [name for name in os.listdir(out) if name.startswith("killed") and not name.endswith((".db", ".stderr", ".log"))]
    verdict(not left, f"killed: beside the recording lies nothing: {left}")


# ---- nccl ----


def gpus():
    count = ctypes.c_uint()
    return 2 if SIMULATED else count.value if nvml()[0].nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 else 1


def nccl(tree, out):
    ranks = min(gpus(), 2)
    # simulated, the second rank is not there
    programs = [Program(tree, out, f"nccl{rank}", "nccl", rank, ranks, os.path.join(out, "nccl.store")) for rank in range(1 if SIMULATED else ranks)]
    for rank, program in enumerate(programs):
        _, said = program.until("nccl")
        program.end()
        if said is None:
            continue
        name = f"nccl: rank {rank} of {ranks}"
        if said["nccl"] is None:
            skip(f"{name}: NCCL'S MEMORY WAS NOT SUSPENDED: {said['why']}")
            continue
        stats, before, away, back = (said[key] for key in ("nccl", "before", "away", "back"))
        verdict(said["moved"] and not said["why"] and away["suspended"], f"{name}: suspended: {said['moved']}, NCCL's memory, too: {away['suspended']} {said['why']}")
        verdict(all(said["right"]) and len(said["right"]) == 3, f"{name}: sums before and twice after are right: {said['right']}")
        if away["used_bytes"] is None or before["used_bytes"] is None:
            skip(f"{name}: NVML's figure of the process")
            continue
        gone = before["used_bytes"] - before["reserved_bytes"] - away["used_bytes"]
        verdict(gone >= stats["suspend"] - 4 * MIB, f"{name}: NCCL held {in_mib(stats['total'])}, {in_mib(stats['suspend'])} of these can go, and {in_mib(gone)} beside the arena's went")
        verdict(abs(back["used_bytes"] - before["used_bytes"]) <= 64 * MIB, f"{name}: {in_mib(before['used_bytes'])} of the process before, {in_mib(away['used_bytes'])} while suspended, {in_mib(back['used_bytes'])} after")


def main():
    part, tree, out, *rest = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # programs are ended at the exit
    {"cycles": cycles, "rate": rate, "left": left, "outside": outside, "killed": killed, "nccl": nccl}[part](os.path.realpath(tree), os.path.realpath(out), *rest)
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
