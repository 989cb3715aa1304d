"""live_allocator.py LIBRARY CASE - the allocator of torch_allocator.py on the driver, under a recorder, on random programs (CASES).

Blocks are reported as c10 does, deferred frees have CUDA events, and what a program says to torch._C it says to what vramscope wrapped.
Prints its counters: requests, segment events.
"""
import contextlib
import ctypes
import os
import random
import sys
import types

import torch_allocator as plain
from torch_allocator import MIB

STREAMS = (0, 0x123, 0x7F00DEADBEE0)  # PyTorch's ids: the default stream, one of a pool, an external one
LIMIT = 1 << 30


class Live(plain.Allocator):
    def __init__(self, lib, limited=True, elsewhere=0, own_events=0, **settings):
        self.elsewhere = elsewhere
        super().__init__(**settings)
        self.lib, self.limited, self.kept_pools, self.allocated, self.requests, self.driver = lib, limited, set(), 0, 0, 0
        self.free_events, self.waiting = [], {}  # handles; block -> its events
        self.own = [ctypes.c_int(1) for _ in range(own_events)]  # the program's; recorded before a free, over soon

    # ---- the driver

    def has_memory(self, size):
        return True  # PyTorch's own limit is looked at before, by whole segments

    def new_segment(self, size, stream, small):
        capacity, self.capacity = self.capacity, self.capacity if self.limited else 1 << 60
        try:
            return super().new_segment(size, stream, small)
        finally:
            self.capacity = capacity

    def take_segment(self, size):
        return self.lib.live_segment(size) or None

    def take_addresses(self, size):
        return self.lib.live_reserve(size)

    def note(self, action, address, size, stream, stack=None):
        unit = 20 * MIB if any(s.address <= address < s.address + sum(b.size for b in s.blocks) and not s.small for s in self.segments) else 2 * MIB
        self.driver += action.startswith("segment")
        if action == "segment_free":
            assert self.lib.live_segment_free(address) == 0
        elif action == "segment_map":
            assert self.lib.live_map(address, size, unit) == 0
        elif action == "segment_unmap":
            assert self.lib.live_unmap(address, size, unit) == 0

    # ---- reports

    def malloc(self, requested, stream=0, stack=None):
        self.lib.live_stream(stream[1] if isinstance(stream, tuple) else stream)
        if self.random.random() < self.elsewhere:  # raw_alloc_with_stream: the thread's current stream is another
            self.lib.live_stream(0x143)
        try:
            block = super().malloc(requested, stream, stack)
        except plain.OutOfMemory:
            self.lib.live_oom(self.round(requested), self.allocated, self.reserved())
            raise
        self.allocated += block.size
        self.requests += 1
        self.lib.live_report(block.address, block.size, self.allocated, self.reserved())
        return block

    def event(self):
        if not self.free_events:
            self.free_events.append(ctypes.c_int(0))
        return self.free_events.pop()

    def free(self, block, deferred=False):
        address, size = block.address, block.size
        if self.random.random() < 0.1:  # other users of events in libc10_cuda
            other = ctypes.c_int(0)
            self.lib.live_record(ctypes.byref(other))
            self.lib.live_wait(ctypes.byref(other))
            self.lib.live_destroy(ctypes.byref(other))
        if deferred:
            Tensor(address).record_stream(types.SimpleNamespace(stream_id=STREAMS[1]))
            for e in self.own:
                self.lib.live_record(ctypes.byref(e))
            self.waiting[block] = [self.event() for _ in range(self.random.randrange(1, 3))]
            for e in self.waiting[block]:
                e.value = 0
                self.lib.live_record(ctypes.byref(e))
        super().free(block, deferred)
        self.allocated -= size
        self.lib.live_report(address, -size, self.allocated, self.reserved())
        for e in self.own if deferred else ():
            self.lib.live_query(ctypes.byref(e))

    def complete(self, block):
        for e in self.waiting.pop(block, ()):
            self.lib.live_query(ctypes.byref(e))  # not yet
            e.value = 1
            (self.lib.live_synchronize if self.random.random() < 0.2 else self.lib.live_query)(ctypes.byref(e))
            self.free_events.append(e)
        super().complete(block)

    # ---- private pools

    def is_kept(self, segment):
        return isinstance(segment.stream, tuple) and segment.stream[0] in self.kept_pools


class Tensor:
    """As much of a tensor as says that another stream uses its block."""

    is_cuda = True

    def __init__(self, address):
        self.address = address

    def get_device(self):
        return 0

    def untyped_storage(self):
        return types.SimpleNamespace(data_ptr=lambda: self.address)

    def record_stream(self, stream):
        pass


class Graph:
    """A captured graph says its pool's id once the capture has ended."""

    ended = None

    def capture_begin(self, pool=None, capture_error_mode="global"):
        self.wanted = pool or (0, 40 + id(self) % 1000)

    def capture_end(self):
        self.ended = self.wanted

    def pool(self):
        assert self.ended, "no capture has ended"
        return self.ended


def stub(total, case):
    """As much of torch as vramscope's wrappers look at, and it wrapped."""
    pools = {
        "old_pools": ("2.7.1", "_cuda_beginAllocateCurrentStreamToPool", "_cuda_endAllocateCurrentStreamToPool"),
    }
    version, *names = pools.get(case, ("2.11.0+cu130", "_cuda_beginAllocateCurrentThreadToPool", "_cuda_endAllocateToPool"))
    functions = ("_cuda_emptyCache", "_cuda_setMemoryFraction", "_accelerator_setAllocatorSettings", *names)
    torch = types.ModuleType("torch")
    torch.__version__ = version
    torch.Tensor = Tensor
    torch.has_memory = 0
    torch.queued = []  # what is called when CUDA is initialized
    torch._C = types.SimpleNamespace(DisableTorchFunction=contextlib.nullcontext, **{name: lambda *_: None for name in functions})
    torch.cuda = types.SimpleNamespace(
        graphs=types.SimpleNamespace(CUDAGraph=Graph),
        current_device=lambda: 0,
        is_initialized=lambda: True,
        _lazy_call=torch.queued.append,
        memory_reserved=lambda: torch.has_memory,
        get_device_properties=lambda _: types.SimpleNamespace(total_memory=total),
    )
    if "SAYS_CONF" in os.environ:  # as from 2.12 on; to be asked makes the settings final
        torch._C._accelerator_getAllocatorSettings = lambda: os.environ["SAYS_CONF"] if torch.has_memory else os._exit(3)
    from vramscope import _allocator

    _allocator.install(torch)
    return torch


def pools(a, torch, steps):
    """Two private pools in turn, beside the common one; the second ends, and its memory goes back.  The first request is the
    first pool's."""
    r = random.Random(5)
    for pool in ((0, 1), (7, 0)):
        a.kept_pools.add(pool)
        kept = []
        for step in range(steps):
            torch._C._cuda_beginAllocateCurrentThreadToPool(0, pool)
            kept += [a.malloc(r.randrange(1, 30 * MIB), (pool, r.choice(STREAMS))) for _ in range(6)]
            torch._C._cuda_endAllocateToPool(0, pool)
            kept += [a.malloc(r.randrange(1, 30 * MIB), r.choice(STREAMS)) for _ in range(6)]
            r.shuffle(kept)
            for b in kept[6:]:
                a.free(b)
            del kept[6:]
        for b in kept:
            a.free(b)
    torch._C._cuda_emptyCache()
    a.release_all()
    a.kept_pools.clear()
    for s in [s for s in a.segments if isinstance(s.stream, tuple) and s.stream[0] == (7, 0)]:
        if len(s.blocks) == 1:
            a.release(s)
    a.kept_pools.add((0, 1))
    plain.program(a, 2, 9)


def old_pools(a, torch, steps):
    """Before PyTorch 2.8: a pool is for the stream that is current where it begins, and its end may not name it."""
    r = random.Random(7)
    plain.program(a, 2, 1, STREAMS)
    for pool in ((0, 1), (7, 0)):
        a.kept_pools.add(pool)
        kept = []
        for step in range(steps):
            side = r.choice(STREAMS[1:])
            a.lib.live_stream(side)
            torch._C._cuda_beginAllocateCurrentStreamToPool(0, pool)
            kept += [a.malloc(r.randrange(1, 30 * MIB), (pool, side) if i % 3 else 0) for i in range(6)]
            torch._C._cuda_endAllocateCurrentStreamToPool(0, *([pool] if step % 2 else []))
            kept += [a.malloc(r.randrange(1, 30 * MIB), r.choice(STREAMS)) for _ in range(6)]
            r.shuffle(kept)
            for b in kept[6:]:
                a.free(b)
            del kept[6:]
        for b in kept:
            a.free(b)
    plain.program(a, 2, 9, STREAMS)


def graphs(a, torch, steps):
    """Requests of a stream that is captured go to the graph's pool, others of the same thread do not; two graphs share one."""
    r, first, side = random.Random(6), torch.cuda.graphs.CUDAGraph(), STREAMS[1]
    plain.program(a, 2, 1, STREAMS)
    for graph, shared in ((first, None), (torch.cuda.graphs.CUDAGraph(), True), (torch.cuda.graphs.CUDAGraph(), None)):
        key = "first" if shared or graph is first else "third"
        a.lib.live_stream(side)
        graph.capture_begin(pool=first.pool() if shared else None)
        a.kept_pools.add(key)
        kept = [a.malloc(r.choice((r.randrange(1, MIB), r.randrange(1, 9 * MIB))), (key, side) if i % 3 else 0) for i in range(40)]
        graph.capture_end()
        for b in kept[::2]:
            a.free(b)
        plain.program(a, steps // 4, 2, STREAMS)


def empty(a, torch, steps):
    for step in range(steps):
        plain.program(a, 2, step, STREAMS, 0.3)
        torch._C._cuda_emptyCache()
        a.release_all()


CASES = {  # settings of the allocator, of the program
    "native": ({}, {}),
    "streams": ({"elsewhere": 0.03}, {"streams": STREAMS, "deferred": 0.4}),
    "own_events": ({"own_events": 20, "capacity": 500 * MIB}, {"streams": STREAMS, "deferred": 0.4}),
    "limit": ({"capacity": 400 * MIB}, {"streams": STREAMS, "deferred": 0.3}),
    "refused": ({"limited": False}, {"streams": STREAMS, "deferred": 0.2, "largest": 200 * MIB}),
    "split": ({"capacity": 500 * MIB, "max_split": 64 * MIB}, {"streams": STREAMS, "largest": 120 * MIB}),
    "collect": ({"capacity": 700 * MIB, "collect_above": 0.5}, {"streams": STREAMS[:2], "deferred": 0.2, "largest": 100 * MIB}),
    "roundup": ({"roundup": 4}, {"streams": STREAMS}),
    "empty": ({}, empty),
    "pools": ({}, pools),
    "old_pools": ({}, old_pools),
    "graphs": ({}, graphs),
    "expandable": ({"expandable": True}, {"streams": STREAMS, "deferred": 0.4}),
    "expandable_reserve": ({"expandable": True, "reserve": 64 * MIB}, {"streams": STREAMS, "deferred": 0.4}),
    "expandable_limit": ({"expandable": True, "capacity": 500 * MIB}, {"streams": STREAMS, "deferred": 0.3}),
}
CPU_FIRST = ("streams", "limit")  # torch's profiler runs, and something on the CPU is reported before all


def conf(settings):
    words = {
        "max_split_size_mb": settings.get("max_split", 0) // MIB,
        "garbage_collection_threshold": settings.get("collect_above"),
        "roundup_power2_divisions": settings.get("roundup"),
        "expandable_segments": settings.get("expandable"),
        "expandable_segments_reserve": f"{settings['reserve'] / (1 << 30)}G" if "reserve" in settings else None,
    }
    return ",".join(f"{k}:{v}" for k, v in words.items() if v)


def main(library, case):
    settings, program = CASES[case]
    lib = ctypes.PyDLL(library)
    for name in ("live_segment", "live_reserve"):
        getattr(lib, name).restype = ctypes.c_uint64
    lib.live_segment.argtypes = lib.live_reserve.argtypes = [ctypes.c_size_t]
    lib.live_segment_free.argtypes = [ctypes.c_uint64]
    lib.live_map.argtypes = lib.live_unmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_size_t]
    lib.live_report.argtypes = [ctypes.c_uint64, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t]
    lib.live_oom.argtypes = [ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t]
    lib.live_stream.argtypes = [ctypes.c_int64]
    torch = stub(LIMIT * 4, case)
    if case in CPU_FIRST:
        lib.live_report_cpu.argtypes = [ctypes.c_uint64, ctypes.c_int64]
        lib.live_report_cpu(0x1000, 64)
    if "LATE_CONF" in os.environ:  # the program's own, after torch's import
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["LATE_CONF"]
    for call in torch.queued:
        call()
    if lib.live_begin():
        raise SystemExit("no driver")
    torch.has_memory = 1
    a = Live(lib, seed=3, **settings)
    if "capacity" in settings:
        torch._C._cuda_setMemoryFraction(settings["capacity"] / (LIMIT * 4), 0)
    if callable(program):
        program(a, torch, 8)
    else:
        plain.program(a, 12, 11, **program)
    from vramscope import _allocator

    _allocator.confirm(torch)  # as a model's first call does
    if "UNUSED" in os.environ:  # a last block, with which most is allocated
        import json

        a.capacity = 1 << 40
        a.malloc(LIMIT * 4)
        with open(os.environ["UNUSED"], "w") as f:
            json.dump(a.unused(False), f)
    own = ctypes.c_int(1)  # a program's own event, which it queries again and again
    for _ in range(1000):
        lib.live_query(ctypes.byref(own))
    print(a.requests, a.driver)


if __name__ == "__main__":
    if sys.argv[1] == "conf":
        print(conf(CASES[sys.argv[2]][0]))
    elif sys.argv[1] == "cases":
        print(*CASES)
    else:
        main(*sys.argv[1:])
