"""The C interface of the linear cross-entropy by ctypes, and memory of host or GPU to call it on; without PyTorch."""
import ctypes as C
import numpy as np

CPU, CUDA = 0, 1
F32, F16, BF16 = 0, 1, 2
I64, I32 = 0, 1
MEAN, SUM, NONE = 0, 1, 2
LOSS, GRAD_INPUT, GRAD_WEIGHT, GRAD_BIAS, ENTROPY, PARTIAL = 1, 2, 4, 8, 16, 32
TF32, F32_ACCUMULATE, F32_LOGITS, PORTABLE, EXCHANGE = 1, 2, 4, 8, 16
START, FINISH, INPUT = 0, 1, 2  # enum lce_exchange_step
CUBLASLT, OURS, BORROW = 1 << 13, 1 << 14, 1 << 15  # in proposals: whose products; logits in dweight's rows
WIDE_TILES, NARROW_TILES = 1 << 4 | 1 << 8, 2 << 4 | 2 << 8  # of our dinput and dweight
SLAB_UNIT, SLAB_SHIFT = 64, 16  # and the classes of a slab
AUTO, FAST, LEAN = 0, 1, 2
ELEMENT = {F32: 4, F16: 2, BF16: 2}


def fields(names, type_):
    return [(name, type_) for name in names.split()]


class Problem(C.Structure):
    _fields_ = (
        fields("size wants flags", C.c_uint32)
        + fields("dtype label_dtype grad_weight_dtype reduction proposals", C.c_int32)
        + fields("tokens hidden vocab input_stride weight_stride grad_input_stride grad_weight_stride", C.c_int64)
        + fields("ignore_index max_counted", C.c_int64)
        + fields("label_smoothing z_loss softcap grad_weight_beta temperature", C.c_float)
        + fields("parts", C.c_int32)
        + fields("vocab_begin vocab_total", C.c_int64)
    )


EXCHANGE_FUNCTION = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_int, C.c_int64, C.c_int64, C.c_void_p)


class Buffers(C.Structure):
    _fields_ = (
        fields("input weight bias labels class_weights grad_output loss grad_input grad_weight grad_bias", C.c_void_p)
        + fields("error_flag workspace", C.c_void_p)
        + [("workspace_size", C.c_size_t)]
        + fields("entropy grad_entropy partial partials", C.c_void_p)
        + [("exchange", EXCHANGE_FUNCTION), ("exchange_context", C.c_void_p)]
    )


class Info(C.Structure):
    _fields_ = (
        fields("mode chunks", C.c_int32)
        + [("chunk_tokens", C.c_int64)]
        + fields("workspace_size logits_size gemm_size", C.c_uint64)
        + [("slab_columns", C.c_int64)]
    )


class Reference(C.Structure):
    _fields_ = fields("loss grad_input grad_weight grad_bias entropy", C.c_void_p)


class Error(Exception):
    def __init__(self, status, message):
        super().__init__(f"status {status}: {message}")
        self.status, self.message = status, message


class Library:
    def __init__(self, path, backend):
        self.path, self.c = path, C.CDLL(path)
        c = self.c
        c.lce_message.restype = C.c_char_p
        c.lce_plan_info.restype = C.POINTER(Info)
        c.lce_scale.argtypes = [C.c_void_p, C.c_void_p, C.c_uint64, C.c_int, C.c_void_p, C.c_void_p]
        c.lce_plan_create_chunk.argtypes = [
            C.c_void_p, C.POINTER(Problem), C.c_int, C.c_int64, C.c_uint64, C.POINTER(C.c_void_p)]
        for name in ("lce_close", "lce_plan_destroy", "lce_plan_info"):
            getattr(c, name).argtypes = [C.c_void_p]
        c.lce_run.argtypes = [C.c_void_p, C.POINTER(Buffers), C.c_void_p]
        self.handle = C.c_void_p()
        self.check(c.lce_open(backend, C.byref(self.handle)))

    def check(self, status):
        if status:
            raise Error(status, self.c.lce_message().decode())

    def problem(self, **values):
        problem = Problem()
        self.c.lce_problem_init(C.byref(problem))
        for name, value in values.items():
            setattr(problem, name, value)
        return problem

    def plan(self, problem, mode=AUTO, budget=0, chunk=0, slab=0):
        """SLAB: the classes of a slab, a multiple of 64; 0 is the library's choice."""
        before = problem.proposals
        problem.proposals |= slab // SLAB_UNIT << SLAB_SHIFT
        try:
            return Plan(self, problem, mode, budget, chunk)
        finally:
            problem.proposals = before

    def reference(self, problem, buffers, out):
        self.check(self.c.lce_reference_run(C.byref(problem), C.byref(buffers), C.byref(out)))

    def scale(self, matrix, count, dtype, factor, stream=None):
        self.check(self.c.lce_scale(self.handle, matrix, count, dtype, factor, stream))

    def close(self):
        self.c.lce_close(self.handle)


class Plan:
    def __init__(self, library, problem, mode, budget, chunk):
        self.library, self.handle = library, C.c_void_p()
        c = library.c
        library.check(c.lce_plan_create_chunk(library.handle, C.byref(problem), mode, chunk, budget, C.byref(self.handle)))
        self.info = c.lce_plan_info(self.handle).contents

    def run(self, buffers, stream=None):
        self.library.check(self.library.c.lce_run(self.handle, C.byref(buffers), stream))

    def close(self):
        self.library.c.lce_plan_destroy(self.handle)
        self.handle = None


# ---- numbers of 16 bits, as NumPy has no bf16 ----


def to_type(values, dtype):
    """float32 values as an array of the type: bf16 as uint16."""
    values = np.ascontiguousarray(values, np.float32)
    if dtype == F32:
        return values
    if dtype == F16:
        return values.astype(np.float16)
    bits = values.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def from_type(array, dtype):
    if dtype == BF16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def storage(dtype):
    return {F32: np.float32, F16: np.float16, BF16: np.uint16}[dtype]


# ---- memory ----

GUARD = 4096
PLANTED = b"""
.version 7.8
.target sm_80
.address_size 64
.visible .entry lce_planted_race(.param .u64 out)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 words[256];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, words;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    xor.b32 %r5, %r2, 128;
    add.u32 %r6, %r3, %r5;
    ld.shared.u32 %r7, [%r6];
    ld.param.u64 %rd1, [out];
    cvt.u64.u32 %rd2, %r2;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r7;
    ret;
}
"""


class Host:
    """Host memory for the CPU back end."""

    stream = None

    def alloc(self, size):
        memory = np.empty(size + 512, np.uint8)
        begin = -memory.ctypes.data % 256
        block = memory[begin : begin + size]
        block_address = memory.ctypes.data + begin
        return block_address, (memory, block)

    def free(self, address, keep):
        pass

    def fill(self, address, size):
        C.memset(address, 0xFF, size)

    def write(self, address, array):
        C.memmove(address, array.ctypes.data, array.nbytes)

    def read(self, address, array):
        C.memmove(array.ctypes.data, address, array.nbytes)

    def synchronize(self):
        pass

    def close(self):
        pass


class Gpu:
    """Device memory through the driver alone: the primary context of device 0."""

    def __init__(self):
        self.cu = C.CDLL("libcuda.so.1")
        device, self.context = C.c_int(), C.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", C.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", C.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        self.stream = self.new_stream()

    def call(self, name, *arguments):
        status = getattr(self.cu, name)(*arguments)
        if status:
            text = C.c_char_p()
            self.cu.cuGetErrorName(status, C.byref(text))
            raise RuntimeError(f"{name}: {text.value}")

    def alloc(self, size):
        address = C.c_uint64()
        self.call("cuMemAlloc_v2", C.byref(address), C.c_size_t(max(size, 1)))
        return address.value, None

    def free(self, address, keep):
        self.call("cuMemFree_v2", C.c_uint64(address))

    def fill(self, address, size):
        self.call("cuMemsetD8_v2", C.c_uint64(address), C.c_ubyte(0xFF), C.c_size_t(size))
        self.synchronize()  # the streams that are used do not wait for the one that this went to

    def write(self, address, array):
        if array.nbytes:
            self.call("cuMemcpyHtoD_v2", C.c_uint64(address), array.ctypes.data_as(C.c_void_p), C.c_size_t(array.nbytes))

    def read(self, address, array):
        if array.nbytes:
            self.call("cuMemcpyDtoH_v2", array.ctypes.data_as(C.c_void_p), C.c_uint64(address), C.c_size_t(array.nbytes))

    def synchronize(self):
        self.call("cuCtxSynchronize")

    def new_stream(self):
        stream = C.c_void_p()
        self.call("cuStreamCreate", C.byref(stream), 1)
        return stream

    def capability(self):
        numbers = C.c_int(), C.c_int()
        for number, attribute in zip(numbers, (75, 76)):
            self.call("cuDeviceGetAttribute", C.byref(number), attribute, 0)
        return tuple(number.value for number in numbers)

    def capture(self, work):
        """What WORK puts on the stream, as a graph that can be launched."""
        graph, ready = C.c_void_p(), C.c_void_p()
        self.call("cuStreamBeginCapture_v2", self.stream, 0)
        try:
            work()
        finally:
            self.call("cuStreamEndCapture", self.stream, C.byref(graph))
        self.call("cuGraphInstantiateWithFlags", C.byref(ready), graph, C.c_uint64(0))
        self.call("cuGraphDestroy", graph)
        return ready

    def new_context(self):
        """Another context, which is now current."""
        context = C.c_void_p()
        self.call("cuCtxCreate_v2", C.byref(context), 0, 0)
        return context

    def planted_race(self):
        """Two warps exchange words through shared memory without a barrier."""
        module, function, out = C.c_void_p(), C.c_void_p(), self.alloc(256)[0]
        self.call("cuModuleLoadData", C.byref(module), PLANTED)
        self.call("cuModuleGetFunction", C.byref(function), module, b"lce_planted_race")
        argument = C.c_uint64(out)
        arguments = (C.c_void_p * 1)(C.cast(C.byref(argument), C.c_void_p))
        self.call("cuLaunchKernel", function, 1, 1, 1, 64, 1, 1, 0, self.stream, arguments, None)
        self.synchronize()

    def close(self):
        self.call("cuStreamDestroy_v2", self.stream)


class Block:
    """SIZE bytes of a memory, all ones (NaN in every type), with a guard behind that nobody may touch."""

    def __init__(self, memory, size):
        self.memory, self.size = memory, size
        self.address, self.keep = memory.alloc(size + GUARD)
        memory.fill(self.address, size + GUARD)

    @classmethod
    def of(cls, memory, array):
        block = cls(memory, array.nbytes)
        memory.write(block.address, np.ascontiguousarray(array))
        return block

    def read(self, dtype, shape):
        array = np.empty(shape, dtype)
        assert array.nbytes <= self.size
        self.memory.read(self.address, array)
        return array

    def untouched(self):
        array = np.empty(GUARD, np.uint8)
        self.memory.read(self.address + self.size, array)
        return bool((array == 0xFF).all())

    def free(self):
        self.memory.free(self.address, self.keep)
