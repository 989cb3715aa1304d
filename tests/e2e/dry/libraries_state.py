"""What CUDA's libraries keep and say, asked without a framework: by the names and numbers of NVIDIA's public headers."""
import ctypes as c
import sys

SONAMES = {"13": "libcublas.so.13 libcublasLt.so.13 libcusolver.so.12 libcufft.so.12 libnvrtc.so.13".split(),
           "12": "libcublas.so.12 libcublasLt.so.12 libcusolver.so.11 libcufft.so.11 libnvrtc.so.12".split()}
WIDTH = {"S": 4, "D": 8, "C": 8, "Z": 16}
major = sys.argv[1]
blas, lt, solver, fft, rtc = (c.CDLL(name) for name in SONAMES[major])
sparse, driver = c.CDLL("libcusparse.so.12"), c.CDLL("libcuda.so.1")


def same(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got!r}, not {wanted!r}")


def made(function, *arguments):
    handle = c.c_void_p()
    same(function.__name__, function(c.byref(handle), *arguments), 0)
    return handle


def told(function, *arguments, kind=c.c_int):
    value = kind(0x55)
    same(function.__name__, function(*arguments, c.byref(value)), 0)
    return value.value


def device(*numbers):
    """Device memory with these 32-bit numbers."""
    memory, host = c.c_uint64(), (c.c_int * len(numbers))(*numbers)
    same("cuMemAlloc", driver.cuMemAlloc_v2(c.byref(memory), c.c_size_t(c.sizeof(host))), 0)
    same("cuMemcpyHtoD", driver.cuMemcpyHtoD_v2(memory, host, c.c_size_t(c.sizeof(host))), 0)
    return memory


def read(memory, count):
    host = (c.c_int * count)()
    same("cuMemcpyDtoH", driver.cuMemcpyDtoH_v2(host, memory, c.c_size_t(c.sizeof(host))), 0)
    return list(host)


def handles():
    h = made(blas.cublasCreate_v2)
    for name, value in (("MathMode", 3), ("PointerMode_v2", 1), ("AtomicsMode", 1), ("SmCountTarget", 100)):
        same(name, blas[f"cublasSet{name}"](h, value), 0)
        same(name, told(blas[f"cublasGet{name}"], h), value)
    blas.cublasSetStream_v2(h, c.c_void_p(0x1234))
    same("stream", told(blas.cublasGetStream_v2, h, kind=c.c_void_p), 0x1234)
    blas.cublasSetStream_v2(h, None)
    same("version", told(blas.cublasGetVersion_v2, h) // 10000, int(major))
    same("product", blas.cublasSgemm_v2(h), 0)
    blas.cublasSetPointerMode_v2(h, 0)
    dot = c.c_float()
    blas.cublasSdot_v2(h, 4, None, 1, None, 1, c.byref(dot))
    same("a dot product that the host gets", dot.value, 1.0)
    infos, info = device(7, 7, 7), c.c_int(7)
    same("getrfBatched", blas.cublasSgetrfBatched(h, 4, None, 4, None, infos, 2), 0)
    same("infos of a batch of two", read(infos, 3), [0, 0, 7])
    same("getrsBatched", blas.cublasSgetrsBatched(h, 0, 4, 1, None, 4, None, None, 4, c.byref(info), 2), 0)
    same("info on the host", info.value, 0)
    blas.cublasGetStatusName.restype = c.c_char_p
    same("name", blas.cublasGetStatusName(15), b"CUBLAS_STATUS_NOT_SUPPORTED")


def products():
    product, layout, preference = made(lt.cublasLtMatmulDescCreate, 68, 0), made(lt.cublasLtMatrixLayoutCreate, 2, c.c_uint64(64), c.c_uint64(32), c.c_int64(64)), made(lt.cublasLtMatmulPreferenceCreate)
    epilogue = c.c_int(4)
    same("set", lt.cublasLtMatmulDescSetAttribute(product, 7, c.byref(epilogue), c.c_size_t(4)), 0)
    got, written = c.c_int(), c.c_size_t()
    same("get", lt.cublasLtMatmulDescGetAttribute(product, 7, c.byref(got), c.c_size_t(4), c.byref(written)), 0)
    same("epilogue", (got.value, written.value), (4, 4))
    rows = c.c_uint64()
    lt.cublasLtMatrixLayoutGetAttribute(layout, 2, c.byref(rows), c.c_size_t(8), None)
    same("rows", rows.value, 64)
    results, count = (c.c_ubyte * (96 * 4))(*b"\xff" * 96 * 4), c.c_int()
    same("search", lt.cublasLtMatmulAlgoGetHeuristic(None, product, layout, layout, layout, layout, preference, 4, results, c.byref(count)), 0)
    same("one algorithm, its workspace and its status", (count.value, *c.cast(results, c.POINTER(c.c_uint64))[8:9], c.cast(results, c.POINTER(c.c_int))[18]), (1, 0, 0))
    same("no other is written", set(results[96:]), {255})


def solvers():
    h = made(solver.cusolverDnCreate)
    needed, info = c.c_int(), device(7, 7)
    same("potrf's query", solver.cusolverDnSpotrf_bufferSize(h, 0, 100, None, 100, c.byref(needed)), 0)
    same("potrf needs 192 bytes", needed.value, 48)
    same("potrf", solver.cusolverDnSpotrf(h, 0, 100, None, 100, None, needed, info), 0)
    same("info", read(info, 2), [0, 7])
    for letter, n, bytes_ in (("S", 1, 160), ("D", 513, 1312), ("C", 1000, 4224), ("Z", 4096, 65664)):
        solver[f"cusolverDn{letter}potrf_bufferSize"](h, 0, n, None, n, c.byref(needed))
        same(f"{letter}potrf of {n}", needed.value * WIDTH[letter], bytes_)
    for letter, m, n, bytes_ in (("S", 4096, 100, 3145728), ("D", 300, 300, 6651904), ("S", 16, 768, 5242880)):
        solver[f"cusolverDn{letter}geqrf_bufferSize"](h, m, n, None, m, c.byref(needed))
        same(f"{letter}geqrf of {m} x {n}", needed.value * WIDTH[letter], bytes_)
    on_device, on_host = c.c_size_t(), c.c_size_t(7)
    solver.cusolverDnXgeqrf_bufferSize(h, None, c.c_int64(4096), c.c_int64(768), 0, None, c.c_int64(4096), 0, None, 0, c.byref(on_device), c.byref(on_host))
    same("Xgeqrf needs 128 bytes more", (on_device.value, on_host.value), (5243008, 0))
    solver.cusolverDnXsyevd_bufferSize(h, None, 1, 0, c.c_int64(10), 1, None, c.c_int64(10), 1, None, 1, c.byref(on_device), c.byref(on_host))
    same("syevd of doubles needs what LAPACK's does", (on_device.value, on_host.value), (8 * (1 + 60 + 200), 0))
    same("destroy", solver.cusolverDnDestroy(h), 0)


def matrices():
    h, rows = made(sparse.cusparseCreate), [c.c_int64() for _ in range(3)]
    place = [c.c_void_p(0x100 * i) for i in range(1, 4)]
    a = made(sparse.cusparseCreateCsr, c.c_int64(5), c.c_int64(6), c.c_int64(7), *place, 2, 3, 1, 0)
    pointers, kinds = [c.c_void_p() for _ in range(3)], [c.c_int() for _ in range(4)]
    same("get", sparse.cusparseCsrGet(a, *map(c.byref, rows + pointers + kinds)), 0)
    same("a matrix is what it was made of", [x.value for x in rows + pointers + kinds], [5, 6, 7, 0x100, 0x200, 0x300, 2, 3, 1, 0])
    sparse.cusparseSpMatSetValues(a, c.c_void_p(0x400))
    same("its values", told(sparse.cusparseSpMatGetValues, a, kind=c.c_void_p), 0x400)
    same("its base", told(sparse.cusparseSpMatGetIndexBase, a), 1)
    fill = c.c_int(1)
    sparse.cusparseSpMatSetAttribute(a, 0, c.byref(fill), c.c_size_t(4))
    same("its filled half, and not its diagonal", [told_attribute(a, which) for which in (0, 1)], [1, 0])
    same("index of a row each", told(sparse.cusparseSpMM_bufferSize, h, 0, 0, None, a, None, None, None, 0, 0, kind=c.c_size_t), 8 * 6)
    vector = made(sparse.cusparseCreateDnVec, c.c_int64(9), place[0], 0)
    same("a vector's values", told(sparse.cusparseDnVecGetValues, vector, kind=c.c_void_p), 0x100)
    elements = c.c_int()
    sparse.cusparseXcsrgeam2Nnz(h, 10, 10, None, 3, None, None, None, 4, None, None, None, None, c.byref(elements), None)
    same("elements of a sum", elements.value, 7)


def told_attribute(matrix, which):
    value = c.c_int(7)
    same("attribute", sparse.cusparseSpMatGetAttribute(matrix, which, c.byref(value), c.c_size_t(4)), 0)
    return value.value


def plans():
    plan, size, free, total = c.c_int(), c.c_size_t(), c.c_size_t(), c.c_size_t()

    def held():
        driver.cuMemGetInfo_v2(c.byref(free), c.byref(total))
        return total.value - free.value

    before = held()
    same("plan", fft.cufftPlan1d(c.byref(plan), 65536, 0x29, 32), 0)
    same("a plan's own work area", held() - before, 65536 * 32 * 8)
    same("destroy", fft.cufftDestroy(plan), 0)
    same("given back", held() - before, 0)
    same("create", fft.cufftCreate(c.byref(plan)), 0)
    fft.cufftSetAutoAllocation(plan, 0)
    same("make", fft.cufftMakePlan2d(plan, 32768, 64, 0x2a, c.byref(size)), 0)
    same("half of the last dimension, and one", (size.value, held() - before), (32768 * 33 * 8, 0))
    same("made again with less", fft.cufftMakePlan1d(plan, 65536, 0x29, 1, c.byref(size)) or size.value, 65536 * 8)
    fft.cufftMakePlan1d(plan, 4096, 0x29, 64, c.byref(size))
    same("small dimensions need nothing with CUDA 13", size.value, {"13": 0, "12": 4096 * 64 * 8}[major])
    same("a large prime", told(fft.cufftEstimate1d, 1009, 0x29, 1, kind=c.c_size_t), 1009 * 8 * 8)
    same("no plan", fft.cufftSetStream(plan, None) + fft.cufftDestroy(99), 1)


def programs():
    source = b'extern "C" __global__ void __launch_bounds__(128) first(int *x) {}\n__global__ int\n*broken;\nextern "C" __global__ void second () {}'
    program, lowered = made(rtc.nvrtcCreateProgram, source, b"name", 0, None, None), c.c_char_p()
    same("add", rtc.nvrtcAddNameExpression(program, b"mine<float, 4>"), 0)
    same("before it is compiled", rtc.nvrtcGetLoweredName(program, b"mine<float, 4>", c.byref(lowered)), 9)
    same("compile", rtc.nvrtcCompileProgram(program, 1, (c.c_char_p * 1)(b"--gpu-architecture=compute_90")), 0)
    same("name", rtc.nvrtcGetLoweredName(program, b"mine<float, 4>", c.byref(lowered)), 0)
    same("no such name", rtc.nvrtcGetLoweredName(program, b"other", c.byref(lowered)), 10)
    image = c.create_string_buffer(told(rtc.nvrtcGetPTXSize, program, kind=c.c_size_t))
    same("get", rtc.nvrtcGetPTX(program, image), 0)
    module, function = made(driver.cuModuleLoadData, image), c.c_void_p()
    for name in (b"first", b"second", lowered.value or b"mine"):
        same(name, driver.cuModuleGetFunction(c.byref(function), module, name), 0)
    version = c.c_int(), c.c_int()
    rtc.nvrtcVersion(*map(c.byref, version))
    same("version", version[0].value, int(major))


same("cuInit", driver.cuInit(0), 0)
for part in (handles, products, solvers, matrices, plans, programs):
    part()
print("all kept")
