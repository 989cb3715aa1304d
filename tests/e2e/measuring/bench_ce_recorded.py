"""bench_ce_recorded.py NOTES - bench_ce_memory's record() under `vramscope run --simulated`: methods whose bytes their names say."""
import ctypes as C
import sys

import bench_ce_memory

KIB, MIB = 1 << 10, 1 << 20
SEGMENT = 2 * MIB


class Device(C.Structure):
    _fields_ = [("type", C.c_int8), ("index", C.c_int8)]


class Driver:
    def __init__(self):
        self.cu = C.CDLL("libcuda.so.1")
        context = C.c_void_p()
        self.call("cuInit", 0)
        self.call("cuCtxCreate_v2", C.byref(context), 0, 0)

    def call(self, name, *arguments):
        status = getattr(self.cu, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: {status}")

    def alloc(self, size):
        address = C.c_uint64()
        self.call("cuMemAlloc_v2", C.byref(address), C.c_size_t(size))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", C.c_uint64(address))


class Allocator:
    """A segment a block, kept when the block is freed; the counters are PyTorch's."""

    def __init__(self, driver):
        self.driver = driver
        self.report = C.CDLL(None)["_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"]
        self.report.argtypes = [C.c_void_p, C.c_int64, C.c_size_t, C.c_size_t, Device]
        self.allocated = self.reserved = self.top = self.top_reserved = 0
        self.cached, self.blocks = [], {}

    def tell(self, address, size):
        self.allocated += size
        self.top = max(self.top, self.allocated)
        self.report(address, size, self.allocated, self.reserved, Device(1, 0))

    def alloc(self, size):
        room = (size + SEGMENT - 1) // SEGMENT * SEGMENT
        fit = [segment for segment in self.cached if segment[1] >= room]
        if fit:
            self.cached.remove(fit[0])
        else:
            fit = [(self.driver.alloc(room), room)]
            self.reserved += room
            self.top_reserved = max(self.top_reserved, self.reserved)
        address = fit[0][0]
        self.blocks[address] = fit[0], size
        self.tell(address, size)
        return address

    def free(self, address):
        segment, size = self.blocks.pop(address)
        self.cached.append(segment)
        self.tell(address, -size)

    # what bench_ce_memory asks of a counter

    def begin(self):
        for address, room in self.cached:
            self.driver.free(address)
            self.reserved -= room
        self.cached = []
        self.top, self.top_reserved = self.allocated, self.reserved
        return self.allocated, self.reserved

    def end(self):
        return self.top, self.top_reserved


class Method:
    """Gradients of 3 MiB; WORKSPACE bytes of blocks, and DIRECT bytes of the driver while it is called; KEPT by its first call."""

    gradient_bytes = 3 * MIB

    def __init__(self, allocator, workspace, direct=0, kept=0):
        self.allocator, self.workspace, self.direct, self.kept = allocator, workspace, direct, kept
        self.gradients = []

    def __call__(self):
        self.release()
        driver = self.allocator.driver
        if self.kept:
            driver.alloc(self.kept)
            self.kept = 0
        workspace = self.allocator.alloc(self.workspace)
        self.gradients = [self.allocator.alloc(MIB), self.allocator.alloc(2 * MIB)]
        if self.direct:
            driver.free(driver.alloc(self.direct))
        self.allocator.free(workspace)

    def release(self):
        for address in self.gradients:
            self.allocator.free(address)
        self.gradients = []

    close = release


def failing(_):
    raise ValueError("what a peer says\nwhen it fails")


def main():
    allocator = Allocator(Driver())
    keep = allocator.alloc(5 * MIB)  # the inputs
    methods = {
        "plain": lambda _: Method(allocator, 4 * MIB),
        "odd": lambda _: Method(allocator, 700 * KIB),
        "failing": failing,
        "direct": lambda _: Method(allocator, MIB, direct=6 * MIB),
        "keeping": lambda _: Method(allocator, MIB, kept=32 * MIB),
    }
    with open(sys.argv[1], "w") as out:
        bench_ce_memory.record(methods, None, allocator, out, "1x2x3", "random", str)
    allocator.free(keep)


if __name__ == "__main__":
    main()
