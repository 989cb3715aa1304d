"""features.py FACTS.json - what later versions of PyTorch let a program do with its memory, a function each: prints its name and a
number that it computed. UVM=0 leaves managed memory out. RESERVE, in bytes, is what expandable_segments_reserve was set to: then
that alone is tried.
"""
import gc
import os
import sys

import torch
from program import save, say

MIB = 1 << 20
FACTS = {"ooms": 0, "rejections": 0, "pools": {}}


class Missing(Exception):
    pass


def has(owner, *names):
    for name in names:
        if not hasattr(owner, name):
            raise Missing
    return owner


def total(size, value=1.0):
    return torch.full((size,), value, device="cuda").double().sum()


def refused(size):
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        FACTS["ooms"] += 1
        return True
    return False


def settings(text):
    if hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        torch._C._accelerator_setAllocatorSettings(text)
    else:
        torch.cuda.memory._set_allocator_settings(text)


# ---- features ----

def accelerator():
    """The functions that know no CUDA say what torch.cuda says."""
    memory = has(torch, "accelerator").accelerator
    memory = has(memory, "memory").memory
    memory.empty_cache()
    x = torch.ones(3 * MIB + 17, device="cuda")
    for ours, theirs in ((memory.memory_allocated, torch.cuda.memory_allocated), (memory.memory_reserved, torch.cuda.memory_reserved),
                         (memory.max_memory_allocated, torch.cuda.max_memory_allocated), (memory.max_memory_reserved, torch.cuda.max_memory_reserved)):
        assert ours() == theirs(), ours
    if hasattr(memory, "get_memory_info"):
        assert memory.get_memory_info()[1] == torch.cuda.mem_get_info()[1]
    memory.empty_cache()
    return x.double().sum()


def host_cache():
    """Pinned memory, which no counter of the device has, given back."""
    give = has(torch.accelerator.memory, "empty_host_cache").empty_host_cache
    pinned = torch.arange(2 * MIB, dtype=torch.float32, pin_memory=True)
    x = pinned.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    del pinned
    give()
    return x.double().sum()


def without_cache():
    """Blocks straight from the driver for a while: PyTorch does not count them."""
    disabled = getattr(has(torch.cuda.memory, "caching_allocator_enable"), "caching_allocator_disabled", None)
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    if disabled:
        with disabled():
            value = total(5 * MIB + 3)
    else:
        torch.cuda.memory.caching_allocator_enable(False)
        value = total(5 * MIB + 3)
        torch.cuda.memory.caching_allocator_enable(True)
    FACTS["counted_without_cache"] = torch.cuda.memory_allocated() - before[0], torch.cuda.memory_reserved() - before[1]
    value = float(value)  # on this side of it: what the other side allocated is freed by the driver
    return torch.tensor(value)


def rejected():
    """throw_on_cudamalloc_oom: refused before the driver is asked, which no observer is told."""
    if "num_oom_rejections" not in torch.cuda.memory_stats():
        raise Missing
    torch.cuda.set_per_process_memory_fraction(0.05)
    cached = torch.empty(700 * MIB, dtype=torch.uint8, device="cuda")
    del cached
    settings("throw_on_cudamalloc_oom:True")
    assert refused(torch.cuda.get_device_properties(0).total_memory // 16)
    settings("throw_on_cudamalloc_oom:False")
    torch.cuda.set_per_process_memory_fraction(1.0)
    FACTS["rejections"] = torch.cuda.memory_stats()["num_oom_rejections"]
    FACTS["ooms"] -= FACTS["rejections"]
    return total(1000)


def pools():
    """A pool whose segments are not split, one that serves where nothing else does, and each one's peak."""
    made = []
    for option in ("no_split", "use_on_oom"):
        try:
            made.append(torch.cuda.MemPool(**{option: True}))
        except TypeError:
            raise Missing from None
    for pool in made:
        with torch.cuda.use_mem_pool(pool):
            kept = [torch.full((n * 300_007,), 1.0, device="cuda") for n in (1, 7, 4)]
            del kept[1]
        kept.append(torch.ones(11, device="cuda"))
        FACTS["pools"][str(pool.id)] = {key: value for key, value in torch.cuda.memory_stats().items()
                                        if "private_pools" in key and key.endswith(("all.current", "all.peak"))}
    torch.cuda.set_per_process_memory_fraction(0.02)
    cached = [torch.full((25 * MIB,), 2.0, device="cuda") for _ in range(4)]
    refused(torch.cuda.get_device_properties(0).total_memory // 32)
    torch.cuda.set_per_process_memory_fraction(1.0)
    return sum(t.double().sum() for t in kept + cached)


def captured_pool():
    """A pool of the program's inside of a capture."""
    has(torch.cuda.CUDAGraph, "get_currently_capturing_graph")  # since then the graph keeps the pool
    graph, pool, x = torch.cuda.CUDAGraph(), torch.cuda.MemPool(), torch.ones(MIB + 5, device="cuda")
    (x * 2 + 1) * 3  # kernels are loaded before the capture
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = x * 2
        with torch.cuda.use_mem_pool(pool):
            z = y + 1
        w = z * 3
    graph.replay()
    value = w.double().sum()
    graph.reset()
    return value


def managed():
    """A pool of managed memory: few bytes, as more than a device has may hang it."""
    has(torch.cuda, "_use_uvm")
    if os.environ.get("UVM") == "0":
        raise Missing
    try:
        import cuda.bindings.runtime  # noqa: F401
    except ImportError:
        raise Missing from None
    before = torch.cuda.memory_reserved()
    with torch.cuda._use_uvm():
        x = torch.ones(2 * MIB + 9, device="cuda")
    FACTS["managed_counted_reserved"] = torch.cuda.memory_reserved() - before
    return x.double().sum() + (x * 2).double().sum()


def told():
    """Words beside blocks, a string and a dictionary."""
    memory = has(torch.cuda.memory, "_set_memory_metadata", "_annotate_tensor")
    torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python")
    memory._set_memory_metadata("a word")
    x = torch.ones(77_777, device="cuda")
    memory._annotate_tensor(x, "another")
    memory._set_memory_metadata("")
    memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    return x.double().sum()


def reserve():
    """Expandable segments of a given size: as many as are needed, and no block may be larger than one."""
    limit = int(os.environ["RESERVE"])
    kept = [torch.full((limit // 5 // 4,), 1.0, device="cuda") for _ in range(12)]
    FACTS["larger_than_reserve_refused"] = refused(limit * 2)
    value = sum(t[::65537].double().sum() for t in kept)
    del kept[::2]
    torch.cuda.empty_cache()
    again = [torch.full((limit // 7 // 4,), 3.0, device="cuda") for _ in range(5)]
    return value + sum(t[::65537].double().sum() for t in again)


def main():
    torch.zeros(1, device="cuda")
    all_others = accelerator, host_cache, without_cache, rejected, pools, managed, told, captured_pool
    for feature in (reserve,) if "RESERVE" in os.environ else all_others:
        try:
            say(feature.__name__, feature())
        except Missing:
            print(feature.__name__, "not in this version", flush=True)
        except RuntimeError as error:  # the same alone
            print(feature.__name__, type(error).__name__, str(error).split("\n")[0][:100], flush=True)
        gc.collect()
    save(sys.argv[1], **FACTS)


if __name__ == "__main__":
    main()
