"""arena_torch.py [NAME...] - what a program may do with PyTorch's allocator, a function each: those named, or all but `compiled`."""

import gc
import sys
import time
import traceback

import torch
import torch.nn as nn

MIB = 1 << 20
FEATURES = []


def feature(function):
    FEATURES.append(function)
    return function


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what) or "check failed")


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


def features(names):
    chosen = [f for f in FEATURES + [compiled] if f.__name__ in names or (not names and f is not compiled)]
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


if __name__ == "__main__":
    sys.exit(features(sys.argv[1:]) > 0)
