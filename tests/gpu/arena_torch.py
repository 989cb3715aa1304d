"""arena_torch.py - PyTorch programs for arena_torch.sh: what they are, with any allocator, and what must be the same.

    train FILE [--steps N]     a small decoder trained with sequence lengths that change; losses as hexadecimal floats and
                               torch's own memory figures at each step, into FILE
    features [NAME ...]        one line PASS or FAIL for each thing that a program may do with an allocator
    compare KIND A B [DB]      two files of `train`, and what the recording DB of the second says

A program here knows nothing of vramscope: it runs as it is with PyTorch's own allocator, too.
"""

import argparse
import gc
import json
import os
import sys
import time
import traceback

import torch
import torch.nn as nn
import torch.nn.functional as F

MIB = 1 << 20


# ---- training ----


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, layers=6, width=1024, heads=16, vocabulary=32000, longest=1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x))


def loss_of(model, ids):
    logits = model(ids)
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]).float(), ids[:, 1:].reshape(-1))


LENGTHS = (512, 768, 320, 1024, 640, 448)


def requested():
    """What was asked for, which is the same for every allocator: PyTorch's own counts in `allocated` what it did not split off, too"""
    stats = torch.cuda.memory_stats()
    return [stats["requested_bytes.all.current"], stats["requested_bytes.all.peak"]] if stats else []


def figures():
    try:
        return [torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()]
    except RuntimeError as error:
        return str(error)


def train(args):
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = Decoder().to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    steps = []
    for i in range(args.steps):
        torch.cuda.synchronize()
        t = time.perf_counter()
        ids = torch.randint(0, 32000, (4, LENGTHS[i % len(LENGTHS)]), device="cuda")
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the others add up in any order
            loss = loss_of(model, ids)
        inside = requested()[0:1]  # before backward, where much is alive
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        steps.append({"loss": value.hex(), "inside": inside, "requested": requested(), "figures": figures(), "seconds": time.perf_counter() - t})
        del loss
    facts = {"steps": steps, "backend": torch.cuda.get_allocator_backend(), "free": torch.cuda.mem_get_info()}
    try:
        facts["stats"] = {k: v for k, v in torch.cuda.memory_stats().items()}
        facts["summary"] = len(torch.cuda.memory_summary())
    except RuntimeError as error:
        facts["stats"] = str(error)
    with open(args.file, "w") as out:
        json.dump(facts, out)
    print(f"{facts['backend']}: {args.steps} steps, last loss {steps[-1]['loss']}, median of the second half "
          f"{sorted(s['seconds'] for s in steps[len(steps) // 2:])[len(steps) // 4] * 1e3:.2f} ms a step, {steps[-1]['figures']}")


# ---- what a program may do ----

FEATURES = []


def feature(function):
    FEATURES.append(function)
    return function


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what) or "check failed")


def spin(stream, cycles=20_000_000):
    with torch.cuda.stream(stream):
        torch.cuda._sleep(cycles)


@feature
def counters():
    """memory_allocated counts 512-byte blocks, peaks can be reset, stats have torch's names"""
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    a = torch.empty(1000, device="cuda", dtype=torch.uint8)
    b = torch.empty(3 * MIB + 1, device="cuda", dtype=torch.uint8)
    check(torch.cuda.memory_allocated() - before == 1024 + 3 * MIB + 512, torch.cuda.memory_allocated() - before)
    del b
    check(torch.cuda.memory_allocated() - before == 1024)
    check(torch.cuda.max_memory_allocated() >= before + 3 * MIB)
    torch.cuda.reset_peak_memory_stats()
    check(torch.cuda.max_memory_allocated() == before + 1024)
    check(torch.cuda.memory_reserved() >= torch.cuda.memory_allocated())
    stats = torch.cuda.memory_stats()
    check(stats["allocation.all.current"] > 0 and "Allocated memory" in torch.cuda.memory_summary())
    free, total = torch.cuda.mem_get_info()
    check(0 < free < total)
    del a


@feature
def streams():
    """record_stream keeps a block from its own stream until the other one is done"""
    side = torch.cuda.Stream()
    bad = 0
    for i in range(60):
        x = torch.full((MIB,), i, device="cuda", dtype=torch.int32)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            y = x + 1
        x.record_stream(side)
        del x  # the side stream still sleeps
        z = torch.full((MIB,), -1, device="cuda", dtype=torch.int32)  # would be x's memory
        torch.cuda.current_stream().wait_stream(side)
        bad += int((y != i + 1).sum())
        del y, z
    check(bad == 0, bad, "wrong words")


@feature
def without_record_stream():
    """(shows that `streams` can fail) without record_stream, and with torch's allocator or this one, words may be wrong"""
    side = torch.cuda.Stream()
    bad = 0
    for i in range(20):
        x = torch.full((MIB,), i, device="cuda", dtype=torch.int32)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(10_000_000)
            y = x + 1
        del x
        z = torch.full((MIB,), -1, device="cuda", dtype=torch.int32)
        torch.cuda.current_stream().wait_stream(side)
        bad += int((y != i + 1).sum())
        del y, z
    print(f"     {bad} wrong words, as a program without record_stream must expect")
    check(bad > 0, "the check of streams proves nothing")


@feature
def many_streams():
    """8 streams that allocate, fill, check and free at once"""
    pool = [torch.cuda.Stream() for _ in range(8)]
    wrong = [torch.zeros((), device="cuda", dtype=torch.int64) for _ in pool]
    torch.cuda.synchronize()
    generator = torch.Generator().manual_seed(3)
    sizes = (torch.rand(800, generator=generator) * 16).exp().long().clamp(64, 4 * MIB).tolist()
    for i, size in enumerate(sizes):
        with torch.cuda.stream(pool[i % 8]):
            a = torch.full((size,), i, device="cuda", dtype=torch.int32)
            b = a * 2
            wrong[i % 8] += (b != 2 * i).sum()
            del a, b
    torch.cuda.synchronize()
    check(sum(int(w) for w in wrong) == 0)


@feature
def graphs():
    """torch.cuda.graph: capture, replays between other allocations, a second graph in the pool, reset"""
    static = torch.zeros(MIB, device="cuda")
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        a = static * 2
        b = a + 1
        del a
        c = b * 3
    h = torch.cuda.CUDAGraph()
    with torch.cuda.graph(h, pool=g.pool()):
        d = c + static
    for i in range(20):
        junk = [torch.full((n,), -7.0, device="cuda") for n in (MIB, 2 * MIB, 1000)]
        static.fill_(float(i))
        g.replay()
        h.replay()
        check(float(c[5]) == (2 * i + 1) * 3 and float(d[-1]) == (2 * i + 1) * 3 + i, i, float(c[5]), float(d[-1]))
        check(all(bool((j == -7).all()) for j in junk))
        del junk
    held = torch.cuda.memory_reserved()
    g.reset()
    h.reset()
    del b, c, d
    torch.cuda.empty_cache()
    check(torch.cuda.memory_reserved() < held, held, torch.cuda.memory_reserved())
    for i in range(3):  # again and again: lanes come back
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            e = static + i
        g.replay()
        check(float(e[0]) == float(static[0]) + i)
        del g, e


@feature
def graph_training():
    """a whole training step in a graph gives the losses that it gives without"""

    def run(graphed):
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
        x = torch.randn(256, 512, device="cuda")

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = (model(x) - x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        losses = []
        if graphed:
            g = torch.cuda.CUDAGraph()
            optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(g):
                loss = step()
        for _ in range(5):
            if graphed:
                g.replay()
                torch.empty(8 * MIB, device="cuda").fill_(3)
            else:
                loss = step()
            losses.append(float(loss))
        return losses

    a, b = run(False), run(True)
    check(all(abs(x - y) <= 1e-5 * abs(x) for x, y in zip(a, b)), a, b)


@feature
def graphed_callables():
    """torch.cuda.make_graphed_callables: forward and backward"""
    torch.manual_seed(2)
    layer = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()
    x = torch.randn(64, 256, device="cuda", requires_grad=True)
    wanted = layer(x)
    wanted.sum().backward()
    wanted = wanted.detach()  # what hangs on it remembers the stream of this backward, which none can use in a capture
    grad = [p.grad.clone() for p in layer.parameters()]
    graphed = torch.cuda.make_graphed_callables(layer, (torch.randn(64, 256, device="cuda", requires_grad=True),))
    for _ in range(3):
        for p in layer.parameters():
            p.grad = None
        y = graphed(x)
        y.sum().backward()
        check(torch.equal(y, wanted), "forward differs")
        check(all(torch.allclose(p.grad, g) for p, g in zip(layer.parameters(), grad)), "backward differs")


@feature
def mem_pool():
    """torch.cuda.MemPool: what is allocated inside is kept for it"""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        a = torch.full((2 * MIB,), 1, device="cuda")
    address = a.data_ptr()
    del a
    b = torch.full((2 * MIB,), 2, device="cuda")
    check(b.data_ptr() != address)
    with torch.cuda.use_mem_pool(pool):
        a = torch.full((2 * MIB,), 3, device="cuda")
    check(a.data_ptr() == address)
    check(pool.use_count() >= 1)
    del pool
    check(bool((a == 3).all()) and bool((b == 2).all()))


@feature
def out_of_memory():
    """torch.OutOfMemoryError, caught, and everything is usable afterwards; what is cached does not stand in the way"""
    free, total = torch.cuda.mem_get_info()
    half = torch.empty(free // 2, device="cuda", dtype=torch.uint8)
    ooms = torch.cuda.memory_stats()["num_ooms"]
    try:
        torch.empty(free, device="cuda", dtype=torch.uint8)
        raise AssertionError("no error")
    except torch.OutOfMemoryError as error:
        check("CUDA out of memory. Tried to allocate" in str(error), error)
        check(isinstance(error, torch.cuda.OutOfMemoryError) and isinstance(error, RuntimeError))
    check(torch.cuda.memory_stats()["num_ooms"] == ooms + 1)
    del half
    for part in (3, 2, 1.3):  # each does not fit beside what the last left
        x = torch.empty(int(free / part * 0.9), device="cuda", dtype=torch.uint8)
        x[-1] = 7
        check(int(x[-1]) == 7)
        del x
    pieces = [torch.empty(free // 64, device="cuda", dtype=torch.uint8) for _ in range(50)]
    del pieces[::2]
    x = torch.empty(free // 64 * 20, device="cuda", dtype=torch.uint8)  # from the gaps
    x.fill_(3)
    check(int(x[12345]) == 3)
    del x, pieces
    torch.cuda.empty_cache()


@feature
def fraction():
    """set_per_process_memory_fraction limits, and is told back"""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.05)
    check(abs(torch.cuda.get_per_process_memory_fraction() - 0.05) < 1e-6)
    try:
        torch.empty(int(total * 0.06), device="cuda", dtype=torch.uint8)
        raise AssertionError("no error")
    except torch.OutOfMemoryError:
        pass
    torch.empty(int(total * 0.02), device="cuda", dtype=torch.uint8)
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.empty(int(total * 0.06), device="cuda", dtype=torch.uint8)
    torch.cuda.empty_cache()


@feature
def convolution():
    """cudnn's search for the fastest way asks the allocator how much there is"""
    torch.backends.cudnn.benchmark = True
    layer = nn.Conv2d(16, 32, 3, padding=1).cuda()
    x = torch.randn(8, 16, 64, 64, device="cuda", requires_grad=True)
    y = layer(x)
    y.sum().backward()
    check(y.shape == (8, 32, 64, 64) and x.grad is not None)


@feature
def profiler():
    """torch.profiler sees the allocator's memory"""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        x = torch.empty(3 * MIB, device="cuda", dtype=torch.uint8)
        del x
    most = max((getattr(e, "device_memory_usage", getattr(e, "cuda_memory_usage", 0)) for e in p.events()), default=0)
    check(most >= 3 * MIB, most)


@feature
def data_loader():
    """DataLoader with forked workers and pinned memory"""
    data = torch.utils.data.TensorDataset(torch.arange(4096).float().reshape(512, 8))
    loader = torch.utils.data.DataLoader(data, batch_size=64, num_workers=2, pin_memory=True, multiprocessing_context="fork")
    total = 0.0
    keep = torch.ones(1000, device="cuda")  # the workers inherit it, and throw it away
    for (x,) in loader:
        check(x.is_pinned())
        total += float(x.to("cuda", non_blocking=True).double().sum())
    check(total == 4095 * 4096 / 2, total)
    check(float(keep.sum()) == 1000)


@feature
def threads():
    """threads allocate on streams of their own, and free each other's"""
    import queue
    import threading

    box, errors = queue.Queue(), []

    def worker(number):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for i in range(200):
                    x = torch.full((1000 * (i + 1),), number, device="cuda", dtype=torch.int32)
                    torch.cuda.current_stream().synchronize()
                    box.put((number, x))
                    del x
                    other, y = box.get()
                    if not bool((y == other).all()):
                        errors.append(other)
                    y.record_stream(torch.cuda.current_stream())
                    del y
        except Exception as error:
            errors.append(repr(error))

    workers = [threading.Thread(target=worker, args=(n,)) for n in range(4)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    check(not errors, errors[:3])


@feature
def empty_cache():
    """empty_cache gives back what is idle"""
    x = torch.empty(512 * MIB, device="cuda", dtype=torch.uint8)
    free = torch.cuda.mem_get_info()[0]
    held = torch.cuda.memory_reserved()
    del x
    torch.cuda.empty_cache()
    check(held - torch.cuda.memory_reserved() >= 510 * MIB, held, torch.cuda.memory_reserved())
    check(torch.cuda.mem_get_info()[0] - free >= 500 * MIB)


def compiled():
    """torch.compile, default and reduce-overhead: the same numbers as without"""
    torch.manual_seed(4)
    layer = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)).cuda()
    x = torch.randn(64, 256, device="cuda")
    wanted = layer(x)
    wanted.sum().backward()
    grads = [p.grad.clone() for p in layer.parameters()]
    for mode in ("default", "reduce-overhead"):
        fast = torch.compile(layer, mode=mode)
        for _ in range(4):
            for p in layer.parameters():
                p.grad = None
            torch.compiler.cudagraph_mark_step_begin()
            y = fast(x)
            y.sum().backward()
            check(torch.allclose(y, wanted, atol=1e-4), mode, "forward differs")
            check(all(torch.allclose(p.grad, g, atol=1e-3) for p, g in zip(layer.parameters(), grads)), mode, "backward differs")


def features(args):
    chosen = FEATURES + [compiled] if args.names == ["all"] else [f for f in FEATURES + [compiled] if f.__name__ in args.names or (not args.names and f is not compiled)]
    failed = 0
    print(f"backend {torch.cuda.get_allocator_backend()}")
    for f in chosen:
        t = time.perf_counter()
        try:
            f()
            torch.cuda.synchronize()
            print(f"PASS {f.__name__}: {f.__doc__} ({time.perf_counter() - t:.1f} s)", flush=True)
        except Exception as error:
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"FAIL {f.__name__}: {type(error).__name__}: {str(error)[:300]} ({where.name}:{where.lineno})", flush=True)
        gc.collect()
    return failed


# ---- two runs ----


def say(good, text):
    print(("PASS " if good else "FAIL ") + text, flush=True)
    return 0 if good else 1


def compare(args):
    a, b = (json.load(open(f)) for f in (args.a, args.b))
    failed = say([s["loss"] for s in a["steps"]] == [s["loss"] for s in b["steps"]], f"{args.kind}: losses of {len(b['steps'])} steps are equal, bit by bit")
    if args.kind == "arena":
        same = [s["inside"] for s in a["steps"]] == [s["inside"] for s in b["steps"]]
        same = same and [s["requested"] for s in a["steps"]] == [s["requested"] for s in b["steps"]]
        failed += say(same, f"{args.kind}: the requested bytes and their peak are those of torch's own allocator at each step")
        if not same:
            for x, y in list(zip(a["steps"], b["steps"]))[:3]:
                print("     ", x["inside"], x["requested"], "|", y["inside"], y["requested"])
        excess = [x["figures"][0] - y["figures"][0] for x, y in zip(a["steps"], b["steps"])]
        failed += say(min(excess) >= 0, f"{args.kind}: memory_allocated is never above torch's own, which counts rests that it does not split off (by up to {max(excess)} bytes)")
        missing = sorted(set(a["stats"]) - set(b["stats"]))
        failed += say(not missing, f"{args.kind}: memory_stats has every name that torch's has {missing[:8]}")
        peak, reserved = b["steps"][-1]["figures"][1], b["steps"][-1]["figures"][3]
        print(f"     reserved at peak / allocated at peak: torch {a['steps'][-1]['figures'][3] / a['steps'][-1]['figures'][1]:.4f}, arena {reserved / peak:.4f}")
    half = len(b["steps"]) // 2
    ms = [sorted(s["seconds"] for s in f["steps"][half:])[half // 2] * 1e3 for f in (a, b)]
    print(f"     ms a step, median of the second half: {ms[0]:.2f} and {ms[1]:.2f}")
    if args.db:
        import sqlite3

        db = sqlite3.connect(args.db)
        peak, over = db.execute("SELECT max(framework_bytes), sum(allocated_bytes > reserved_bytes) FROM event WHERE device = 0").fetchone()
        if args.kind == "arena":
            failed += say(peak == b["steps"][-1]["figures"][1], f"{args.kind}: the recording's peak {peak} is torch's")
        failed += say(not over, f"{args.kind}: allocated <= reserved at every event ({over} are not)")
        mismatches = db.execute("SELECT count(*) FROM mismatch").fetchone()[0]
        losses = db.execute("SELECT count(*) FROM loss").fetchone()[0]
        failed += say(not mismatches and not losses, f"{args.kind}: no mismatch ({mismatches}) and no loss ({losses}) in the recording")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sub = parser.add_subparsers(dest="command", required=True)
    one = sub.add_parser("train")
    one.add_argument("file")
    one.add_argument("--steps", type=int, default=36)
    one.set_defaults(run=train)
    one = sub.add_parser("features")
    one.add_argument("names", nargs="*")
    one.set_defaults(run=features)
    one = sub.add_parser("compare")
    one.add_argument("kind")
    one.add_argument("a")
    one.add_argument("b")
    one.add_argument("db", nargs="?")
    one.set_defaults(run=compare)
    args = parser.parse_args()
    sys.exit(1 if args.run(args) else 0)


if __name__ == "__main__":
    main()
