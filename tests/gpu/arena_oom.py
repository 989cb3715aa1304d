"""How many bytes fit before memory is out, when what is free lies apart; and whether a program goes on after that.

    arena_oom.py TREE OUT [--only CONFIGURATIONS] [--room GIB]
    arena_oom.py --work PATTERN... (started by it)

A large tensor first takes all of the device but ROOM.  Then, until the allocator gives up:
halves    tensors of 34 MiB fill half of the room, every second one is dropped, then tensors of 90 MiB
growing   tensors of 10 MiB, then of 13, 17, ...: of each size as many as are a fifth of the room, of which one in five stays
random    tensors of 512 B to 256 MiB, of which four out of ten are dropped at random
At the first torch.cuda.OutOfMemoryError: what lives, as a part of the room.  Then all but the large tensor is dropped, and one
tensor of 85 % of the room must fit, be written and read.  The exception must be that type under each caching allocator; without one
PyTorch raises what it makes of the driver's error.
"""
import argparse
import json
import os
import random
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
MIB, GIB = 1 << 20, 1 << 30
CONFIGS = ["native", "expandable", "async", "arena", "nocache-arena"]
PATTERNS = ["halves", "growing", "random"]


# ---- the program ----


class Holder:
    """Tensors that live, and their bytes."""

    def __init__(self, torch):
        self.torch, self.kept, self.bytes = torch, [], 0

    def take(self, size):
        self.kept.append(self.torch.empty(size, dtype=self.torch.uint8, device="cuda"))
        self.bytes += size

    def drop(self, n):
        self.bytes -= self.kept.pop(n).numel()


def halves(holder, room):
    while holder.bytes < room // 2:
        holder.take(34 * MIB)
    for n in range(len(holder.kept) - 1, -1, -2):
        holder.drop(n)
    while True:
        holder.take(90 * MIB)


def growing(holder, room):
    size = 10 * MIB
    while True:
        begin = len(holder.kept)
        for _ in range(max(5, room // 5 // size)):
            holder.take(size)
        for n in range(len(holder.kept) - 1, begin - 1, -1):
            if (n - begin) % 5:
                holder.drop(n)
        size = size * 13 // 10


def randomly(holder, room):
    rng = random.Random(3)
    while True:
        holder.take(int(512 * 2 ** rng.uniform(0, 19)))
        if holder.kept and rng.random() < 0.4:
            holder.drop(rng.randrange(len(holder.kept)))


def goes_on(torch, room):
    tensor = torch.full((int(room * 0.85) // 4,), 7, dtype=torch.int32, device="cuda")
    right = int(tensor[-1]) == 7 and bool((tensor[:: 1 << 20] == 7).all())
    x = torch.randn(256, 256, device="cuda", requires_grad=True)
    (x @ x).sum().backward()
    return right and x.grad is not None


def one_pattern(torch, name, room_wanted):
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    free, _ = torch.cuda.mem_get_info()
    # what lies beside tensors (the driver's rounding, kernels that are loaded later) must not decide
    large = torch.empty(free - room_wanted - 256 * MIB, dtype=torch.uint8, device="cuda")
    free, _ = torch.cuda.mem_get_info()
    holder = Holder(torch)
    found = {"pattern": name, "room": free, "error": None}
    try:
        {"halves": halves, "growing": growing, "random": randomly}[name](holder, free)
    except torch.cuda.OutOfMemoryError as error:
        found.update(live=holder.bytes, error=type(error).__name__, message=str(error).split("\n")[0][:200])
    except RuntimeError as error:
        found.update(live=holder.bytes, error=type(error).__name__, message=str(error).split("\n")[0][:200])
    holder.kept.clear()
    found["goes_on"] = goes_on(torch, free - 256 * MIB)
    del large
    return found


def work(a):
    import torch

    # what a GEMM needs is there before memory is short
    x = torch.randn(256, 256, device="cuda", requires_grad=True)
    (x @ x).sum().backward()
    x.grad = None
    torch.cuda.synchronize()
    print(json.dumps({"ready": torch.__version__}), flush=True)
    for line in sys.stdin:
        if line.split()[0] not in PATTERNS:
            break
        print(json.dumps(one_pattern(torch, line.split()[0], int(a.room * GIB))), flush=True)
        torch.cuda.empty_cache()


# ---- the comparison ----


def row(name, found):
    if not found:
        return f"{name:16} failed"
    part = found["live"] / found["room"] if found.get("live") is not None else float("nan")
    return (f"{name:16} {found['room'] / MIB:10.1f} {found.get('live', 0) / MIB:10.1f} {part:8.4f}  "
            f"{found['error'] or 'none':18} {'went on' if found['goes_on'] else 'DID NOT GO ON'}")


def table(results):
    lines = []
    for pattern in PATTERNS:
        lines.append(f"{pattern}\n{'allocator':16} {'room MiB':>10} {'live MiB':>10} {'part':>8}  error")
        lines += [row(name, found.get(pattern)) for name, found in results.items()]
    return "\n".join(lines)


def misses(results):
    """Lines about what is not as it should be."""
    lines = []
    for pattern in PATTERNS:
        parts = {n: f[pattern]["live"] / f[pattern]["room"] for n, f in results.items() if f.get(pattern) and f[pattern].get("live")}
        others = [p for n, p in parts.items() if "arena" not in n]
        # the rooms differ by a MiB or two: less than that is the same
        if "arena" in parts and others and parts["arena"] < max(others) - 0.0005:
            lines.append(f"MISS  {pattern}: the arena had {parts['arena']:.4f} of the room in use, another {max(others):.4f}")
        for name, found in results.items():
            if not found.get(pattern):
                lines.append(f"FAIL  {pattern}, {name}: no answer")
            elif not found[pattern]["goes_on"] or found[pattern]["error"] != "OutOfMemoryError" and "nocache" not in name:
                lines.append(f"FAIL  {pattern}, {name}: {found[pattern]['error']}, {found[pattern].get('message')}")
    return lines


def compare(a):
    from arena_configs import command
    from arena_worker import Worker

    os.makedirs(a.out, exist_ok=True)
    scratch = os.path.join(a.out, "oom.work")
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    program = [os.path.abspath(__file__), "--work", "--room", str(a.room)]
    workers = {}
    for name in a.only.split(","):
        argv, env = command(a.tree, name, os.path.join(scratch, name + ".db"), program)
        workers[name] = Worker(argv, env, os.path.join(scratch, name + ".log"))
    for worker in workers.values():  # all contexts are there before the first fills the device
        worker.answer("ready", 120)
    results = {name: {} for name in workers}
    for name, worker in workers.items():  # one after the other: what it holds goes with it
        for pattern in PATTERNS:
            found = worker.ask(pattern, "pattern", 40)
            results[name].update({pattern: found} if found else {})
        worker.end()
        if worker.failed:
            print(f"FAIL  {name}: {worker.failed}\n{worker.last_words()}", flush=True)
        with open(os.path.join(a.out, "oom.json"), "w") as file:
            json.dump(results, file)
    shutil.rmtree(scratch, ignore_errors=True)
    return results


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tree", nargs="?")
    p.add_argument("out", nargs="?")
    p.add_argument("--only", default=",".join(CONFIGS))
    p.add_argument("--room", type=float, default=8, help="GiB")
    p.add_argument("--work", action="store_true")
    p.add_argument("--table", metavar="JSON", help="only print the table of an earlier run")
    a = p.parse_args()
    if a.work:
        return work(a)
    results = json.load(open(a.table)) if a.table else compare(a)
    print(table(results))
    wrong = misses(results)
    print("\n".join(wrong))
    return any(line.startswith("FAIL") for line in wrong)


if __name__ == "__main__":
    sys.exit(main())
