"""PyTorch itself on the simulated driver in dry mode: what a program sees with its own allocator and with the arena.

Cases print what must be the same with both; what only one of them has goes to stderr or is checked here.
"""

import gc
import os
import sys

import torch

MIB = 1 << 20
ARENA = torch.cuda.get_allocator_backend() == "pluggable"


def empty(size, **more):
    return torch.empty(size, dtype=torch.uint8, device="cuda", **more)


def counters():
    print(torch.cuda.memory_allocated(), torch.cuda.memory_stats())  # not initialised yet
    a, b = empty(1000), empty(3 * MIB + 1)
    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())
    del b
    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())
    torch.cuda.reset_peak_memory_stats()
    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())
    c = [empty(n) for n in (1, 511, 512, 513, MIB, MIB + 1, 5 * MIB)] + [empty(0)]
    stats = torch.cuda.memory_stats()
    for name in ("allocation", "allocated_bytes", "requested_bytes"):
        for kind in ("all", "small_pool", "large_pool"):
            print(name, kind, [stats[f"{name}.{kind}.{part}"] for part in ("current", "peak", "allocated", "freed")])
    torch.cuda.reset_accumulated_memory_stats()
    del a, c
    stats = torch.cuda.memory_stats()
    print([stats[f"allocated_bytes.all.{part}"] for part in ("current", "peak", "allocated", "freed")], stats["num_ooms"])
    print(*sorted(stats), sep="\n")
    print(len(torch.cuda.memory_summary().splitlines()))
    print(torch.cuda.memory_reserved() >= torch.cuda.memory_allocated(), torch.cuda.memory_reserved() % (2 * MIB))
    torch.cuda.empty_cache()
    print(torch.cuda.memory_reserved())
    a = empty(100)
    if hasattr(getattr(torch, "accelerator", None), "memory_stats"):
        accelerator = torch.accelerator
        print(accelerator.memory_allocated(), accelerator.max_memory_allocated(), sorted(accelerator.memory_stats()) == sorted(stats))
        accelerator.reset_peak_memory_stats()
        accelerator.reset_accumulated_memory_stats()
        del a
        accelerator.empty_cache()
        print(accelerator.memory_reserved(), accelerator.max_memory_allocated())


def oom():
    keep = empty(100 * MIB)
    for size in (2 << 30, 1 << 40):
        try:
            empty(size)
            print("no error")
        except torch.OutOfMemoryError as error:
            print(type(error).__name__, isinstance(error, RuntimeError), str(error).split(". GPU 0")[0])
    x = empty(700 * MIB)
    del x
    x = empty(800 * MIB)  # what is cached does not stand in its way
    del x
    print(torch.cuda.memory_stats()["num_ooms"], keep.numel(), torch.cuda.memory_allocated())
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.15)
    print(round(getattr(torch.cuda, "get_per_process_memory_fraction", lambda: 0.15)(), 6))  # not in 2.5
    try:
        empty(200 * MIB)
        print("no error")
    except torch.OutOfMemoryError as error:
        print(type(error).__name__)
    torch.cuda.set_per_process_memory_fraction(1.0)
    print(empty(200 * MIB).numel())


def failure():
    """The driver fails otherwise: torch's own error for it, and the next allocation works."""
    try:
        empty(3 * MIB)
        print("no error")
    except Exception as error:
        print(type(error) is getattr(torch, "AcceleratorError", RuntimeError), str(error).splitlines()[0])
    print(empty(3 * MIB).numel(), torch.cuda.memory_allocated())


def pools():
    side = torch.cuda.Stream()
    pool = torch.cuda.MemPool()
    with torch.cuda.stream(side):
        with torch.cuda.use_mem_pool(pool):
            a = empty(4 * MIB)
        where = a.data_ptr()
        del a
        b = empty(4 * MIB)
        with torch.cuda.use_mem_pool(pool):
            a = empty(4 * MIB)
        print(a.data_ptr() == where, b.data_ptr() != where, pool.use_count() > 0, len(pool.id))
        del a, b, pool
        gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    print(torch.cuda.memory_reserved(), torch.cuda.memory_allocated())
    if hasattr(torch.cuda.CUDAGraph, "_retain_pool"):
        graph_keeps_pool()


def graph_keeps_pool():
    """What is used while a graph is captured stays until the graph's end."""
    torch.cuda.synchronize()
    pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with torch.cuda.use_mem_pool(pool):
            a = empty(4 * MIB)
    where = a.data_ptr()
    del a, pool
    gc.collect()
    torch.cuda.empty_cache()
    others = [empty(4 * MIB) for _ in range(20)]
    print(any(abs(o.data_ptr() - where) < 4 * MIB for o in others))
    del others
    graph.reset()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    print(torch.cuda.memory_reserved(), torch.cuda.memory_allocated())


def graphs():
    x = empty(4 * MIB)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        a = torch.empty_like(x)
        a.copy_(x)
        where = a.data_ptr()
        b = torch.empty_like(x)
        del a
        c = torch.empty_like(x)  # of the same pool, the same place
    h = torch.cuda.CUDAGraph()
    with torch.cuda.graph(h, pool=g.pool()):
        d = torch.empty_like(x)
        e = torch.empty_like(x)
    print(c.data_ptr() == where, len({t.data_ptr() for t in (b, c, d, e, x)}))
    del c
    others = [empty(4 * MIB) for _ in range(20)]
    print(any(abs(o.data_ptr() - where) < 4 * MIB for o in others))
    g.replay()
    h.replay()
    torch.cuda.empty_cache()
    del b, d, e, others
    held = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    g.replay()
    print(torch.cuda.memory_reserved() >= 12 * MIB, held >= torch.cuda.memory_reserved())
    g.reset()
    h.reset()
    del g, h, x
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    print(torch.cuda.memory_reserved() < held)
    for _ in range(40):  # more graphs, one after the other, than there are lanes
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            a = empty(MIB)
        del g, a
    print(torch.cuda.memory_allocated() < MIB)


def fork():
    x = empty(4 * MIB)
    child = os.fork()
    if child == 0:
        del x
        gc.collect()
        torch.cuda.memory_allocated()
        os._exit(0)
    print(os.waitpid(child, 0)[1], x.numel(), torch.cuda.memory_allocated())


def streams():
    side = torch.cuda.Stream()
    x = empty(4 * MIB)
    x.record_stream(side)
    del x
    with torch.cuda.stream(side):
        y = empty(4 * MIB)
    y.record_stream(torch.cuda.current_stream())
    external = torch.cuda.ExternalStream(side.cuda_stream)
    y.record_stream(external)
    print(y.numel(), torch.cuda.memory_allocated())
    del y
    print(torch.cuda.memory_allocated())
    p = torch.cuda.caching_allocator_alloc(1000)
    print(torch.cuda.memory_allocated(), p % 512)
    torch.cuda.caching_allocator_delete(p)
    print(torch.cuda.memory_allocated())


def profiler():
    from torch.profiler import ProfilerActivity, profile

    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
            x = empty(3 * MIB)
            del x
        print(sorted({e.device_memory_usage for e in p.events() if getattr(e, "device_memory_usage", 0)}))
    except RuntimeError as error:  # some versions' profiler needs NVIDIA's library for it
        print(error)


def convolutions():
    """What cudnn's search for the fastest way asks, as C++ calls it."""
    import ctypes

    root = torch.__path__[0] + "/lib/"
    allocator = ctypes.c_void_p.in_dll(ctypes.CDLL(root + "libc10_cuda.so"), "_ZN3c104cuda20CUDACachingAllocator9allocatorE").value
    name = "N5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator"
    libraries = ctypes.CDLL(root + "libtorch_cuda.so"), ctypes.CDLL(root + "libtorch_python.so")
    library = next(lib for lib in libraries if hasattr(lib, f"_ZTV{name}E"))  # of 2.4, the second one
    table = ctypes.addressof(ctypes.c_void_p.in_dll(library, f"_ZTV{name}E")) + 16
    string = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    replaced = "9cacheInfoEaPm", "11initializedEv", "14shareIpcHandleEPv", "12getIpcDevPtrE" + string, "12getIpcDevPtrESs"
    theirs = [ctypes.cast(getattr(library, f"_Z{name}{f}"), ctypes.c_void_p).value for f in replaced if hasattr(library, f"_Z{name}{f}")]
    words = ctypes.POINTER(ctypes.c_void_p)
    before, now = ctypes.cast(table, words), ctypes.cast(ctypes.cast(allocator, words)[0], words)
    at = [next(i for i in range(100) if before[i] == address) for address in theirs]
    if len(at) < 3 or [i for i in range(max(at) + 1) if before[i] != now[i]] != sorted(at):
        raise SystemExit("the table of virtual functions is not what it should be")
    empty(64 * MIB)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int8, ctypes.POINTER(ctypes.c_size_t))(now[at[0]])
    size = ctypes.c_size_t(0)
    call(allocator, 0, ctypes.byref(size))
    if not 900 * MIB < size.value <= 1024 * MIB:
        raise SystemExit(f"{size.value} bytes could be had")


def own_allocator():
    import ctypes

    c = ctypes.CDLL(None)
    mine = torch._C._cuda_customAllocator(*(ctypes.cast(f, ctypes.c_void_p).value for f in (c.malloc, c.free)))
    torch._C._cuda_changeCurrentAllocator(mine)
    try:
        torch.cuda.init()
        torch.cuda.memory_allocated()
        print("answered")
    except RuntimeError as error:
        print("does not yet support" in str(error))


def compiled():
    """inductor's trees of graphs would ask for states of torch's own allocator."""
    import torch._inductor.compile_fx as inductor

    def model(inputs):
        return inputs

    print(inductor.cudagraphify(model, (), device_index=0) is model)


def refused():
    """What the arena has not: one line that says whose, and what to do."""
    for call in (torch.cuda.memory_snapshot, lambda: torch._C._cuda_attach_out_of_memory_observer(print)):
        try:
            call()
            print("no error")
        except RuntimeError as error:
            print(error)
    torch._C._activate_gpu_trace()
    if hasattr(torch.cuda, "caching_allocator_enable"):
        torch.cuda.caching_allocator_enable(False)  # there is no cache, and nothing changes
    x = empty(1000)
    print(torch.cuda.memory_allocated())


def late():
    """What a program finds of torch's own names: subclasses and signatures go on working."""
    import inspect

    if not hasattr(torch.cuda, "MemPool"):
        return

    class Mine(torch.cuda.MemPool):
        pass

    print(isinstance(Mine(), torch.cuda.MemPool), torch.cuda.MemPool is torch.cuda.memory.MemPool)
    print(list(inspect.signature(torch.cuda.MemPool.__init__).parameters))


def receive(tensors, answers):
    """In the other process: what it reads, and what it leaves there."""
    while (x := tensors.get()) is not None:
        read = x.cpu().tolist()
        x.copy_(torch.arange(10, 10 + len(read), dtype=torch.uint8))
        torch.cuda.synchronize()
        del x
        answers.put(read)
    gc.collect()
    answers.put(torch.cuda.memory_allocated())


def shared():
    """Tensors through a queue of torch.multiprocessing: the other process has the same bytes, at whatever offset."""
    spawn = torch.multiprocessing.get_context("spawn")
    tensors, answers = spawn.Queue(), spawn.Queue()
    other = spawn.Process(target=receive, args=(tensors, answers))
    other.start()
    whole = empty(5 * MIB)
    small = empty(300)
    for x in (whole[4 * MIB : 4 * MIB + 5], small[7:12], small[100:105], whole[:5]):
        x.copy_(torch.arange(5, dtype=torch.uint8))
        torch.cuda.synchronize()
        tensors.put(x)
        print(answers.get(timeout=60), x.cpu().tolist())
    tensors.put(None)
    print(answers.get(timeout=60))
    other.join()
    print(other.exitcode)
    torch.cuda.ipc_collect()
    del whole, small, x
    gc.collect()
    print(torch.cuda.memory_allocated())


if __name__ == "__main__":  # a process that torch.multiprocessing starts imports this file as well
    for name in sys.argv[1:]:
        print("--", name, flush=True)
        globals()[name]()
        gc.collect()
