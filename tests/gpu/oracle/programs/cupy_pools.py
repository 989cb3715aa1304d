"""cupy_pools.py - CuPy's allocators, one after the other: its pool, none, stream-ordered, managed, pinned."""
import cupy

import truth

MiB = 1 << 20


def work():
    a = cupy.arange(3 * MiB, dtype=cupy.float32).reshape(3, -1)
    b = cupy.ones((3, 1), dtype=cupy.float32) * a
    return float((b - a).sum() + a[0, 100])


def main():
    default, pinned = cupy.get_default_memory_pool(), cupy.get_default_pinned_memory_pool()
    values = [work()]
    kept = [cupy.zeros(n * 777_777, dtype=cupy.uint8) for n in range(1, 20)]
    held = (default.used_bytes(), default.total_bytes())
    del kept[::2]
    default.free_all_blocks()
    after = (default.used_bytes(), default.total_bytes())
    with cupy.cuda.using_allocator(None):
        values.append(work())
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        values.append(work())
    with cupy.cuda.using_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc):
        values.append(work())
    host = cupy.cuda.alloc_pinned_memory(10 * MiB)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        values.append(work())
    stream.synchronize()
    truth.report(values=values, held=held, after=after)
    truth.mark(pool_total=default.total_bytes())
    del host, kept
    pinned.free_all_blocks()
    default.free_all_blocks()


main()
