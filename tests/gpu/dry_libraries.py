"""dry_libraries.py - how much cuSOLVER, cuFFT, cuSPARSE and cuBLAS say that they need, for some thousand shapes: a line each, on stdout.

The same program on a GPU and on the stand-ins (tests/e2e/lib/dry.bash) gives two tables; where a line differs a rule of dry/libraries is
wrong, and which rule is right can be read off the lines around it.  Fields: library and version, function, its arguments, bytes.
"""
import ctypes as c
import sys

import torch

TYPES = {"S": (4, torch.float32, 0), "D": (8, torch.float64, 1), "C": (8, torch.complex64, 4), "Z": (16, torch.complex128, 5)}
SIZES = (1, 2, 3, 8, 16, 31, 32, 33, 63, 64, 65, 100, 128, 192, 256, 300, 384, 512, 513, 768, 1000, 1024, 1536, 2048, 3072, 4096)
SHAPES = [(n, n) for n in SIZES] + [(m, n) for m in (16, 100, 512, 1024, 4096) for n in (1, 8, 64, 100, 768) if m != n]
BATCHES = (1, 2, 16, 100)
ANSWER = object()  # where a query puts it
place = c.c_void_p(torch.zeros(1 << 20, device="cuda").data_ptr())


def library(*names):
    for name in names:
        try:
            return c.CDLL(name), name
        except OSError:
            pass
    sys.exit(f"none of {names}")


def version(loaded, function):
    value = c.c_int()
    loaded[function](c.byref(value))
    return value.value


def solver():
    torch.linalg.inv(torch.eye(4, device="cuda"))  # which loads it
    lib, name = library("libcusolver.so.12", "libcusolver.so.11")
    name = f"{name} {version(lib, 'cusolverGetVersion')}"
    handle = c.c_void_p()
    assert lib.cusolverDnCreate(c.byref(handle)) == 0
    info = {}
    for kind in ("Gesvdj", "Syevj"):
        info[kind] = c.c_void_p()
        lib[f"cusolverDnCreate{kind}Info"](c.byref(info[kind]))

    def ask(function, width, shape, *arguments):
        need = c.c_int(-1)
        status = lib[f"cusolverDn{function}_bufferSize"](handle, *(c.byref(need) if a is ANSWER else a for a in arguments))
        print(name, function, shape, need.value * width if status == 0 else f"status {status}", sep="\t")

    def ask_any(function, shape, *arguments):
        device, host = c.c_size_t(), c.c_size_t()
        status = lib[f"cusolverDn{function}_bufferSize"](handle, *arguments, c.byref(device), c.byref(host))
        print(name, function, shape, f"{device.value} {host.value}" if status == 0 else f"status {status}", sep="\t")

    for letter, (width, _, number) in TYPES.items():
        real = letter in "SD"
        q, s = ("or", "sy") if real else ("un", "he")
        for n in SIZES:
            ask(letter + "potrf", width, n, 0, n, place, n, ANSWER)
            ask(letter + "sytrf", width, n, n, place, n, ANSWER)
            for vectors in (0, 1):
                ask(f"{letter}{s}evd", width, f"{vectors} {n}", vectors, 0, n, place, n, place, ANSWER)
                ask(f"{letter}{s}evj", width, f"{vectors} {n}", vectors, 0, n, place, n, place, ANSWER, info["Syevj"])
                ask_any("Xsyevd", f"{letter} {vectors} {n}", None, vectors, 0, c.c_int64(n), number, place, c.c_int64(n), number & 1, place, number)
                for batch in BATCHES:
                    ask(f"{letter}{s}evjBatched", width, f"{vectors} {n} {batch}", vectors, 0, n, place, n, place, ANSWER, info["Syevj"], batch)
            ask_any("Xpotrf", f"{letter} {n}", None, 0, c.c_int64(n), number, place, c.c_int64(n), number)
        for m, n in SHAPES:
            k, shape = min(m, n), f"{m} {n}"
            ask(letter + "getrf", width, shape, m, n, place, m, ANSWER)
            ask(letter + "geqrf", width, shape, m, n, place, m, ANSWER)
            ask(f"{letter}{q}gqr", width, shape, m, k, k, place, m, place, ANSWER)
            for side in (0, 1):
                ask(f"{letter}{q}mqr", width, f"{side} {shape}", side, 0, m, n, min(k, (m, n)[side]), place, (m, n)[side], place, place, m, ANSWER)
            ask_any("Xgeqrf", f"{letter} {shape}", None, c.c_int64(m), c.c_int64(n), number, place, c.c_int64(m), number, place, number)
            if m >= n:
                ask(letter + "gesvd", width, shape, m, n, ANSWER)
            for vectors in (0, 1):
                ask(letter + "gesvdj", width, f"{vectors} {shape}", vectors, 1, m, n, place, m, place, place, m, place, n, ANSWER, info["Gesvdj"])
            for batch in BATCHES:
                ask(letter + "gesvdaStridedBatched", width, f"{shape} {batch}", 1, k, m, n, place, m, c.c_longlong(m * n), place, c.c_longlong(k),
                    place, m, c.c_longlong(m * k), place, n, c.c_longlong(n * k), ANSWER, batch)
                if m <= 32 and n <= 32:
                    ask(letter + "gesvdjBatched", width, f"{shape} {batch}", 1, m, n, place, m, place, place, m, place, n, ANSWER, info["Gesvdj"], batch)



def transforms():
    torch.fft.fft(torch.ones(8, device="cuda"))
    lib, name = library("libcufft.so.12", "libcufft.so.11")
    name = f"{name} {version(lib, 'cufftGetVersion')}"
    lengths = [(1 << p,) for p in range(1, 25)] + [(n,) for n in (3, 5, 7, 9, 27, 100, 127, 131, 400, 512 * 3, 1000, 1009, 4099, 10000, 65537, 99991)]
    lengths += [(a, b) for a in (8, 31, 64, 100, 224, 256, 512, 1024, 1009) for b in (8, 64, 100, 224, 256, 1024, 1009)]
    lengths += [(a, a, a) for a in (4, 8, 16, 31, 32, 64, 100, 128)]
    for type_, label in ((0x29, "C2C"), (0x2A, "R2C"), (0x2C, "C2R"), (0x69, "Z2Z"), (0x6A, "D2Z"), (0x6C, "Z2D")):
        for n in lengths:
            for batch in (1, 3, 64):
                plan, size = c.c_int(), c.c_size_t()
                assert lib.cufftCreate(c.byref(plan)) == 0
                lib.cufftSetAutoAllocation(plan, 0)
                status = lib.cufftMakePlanMany64(plan, len(n), (c.c_longlong * len(n))(*n), None, c.c_longlong(1), c.c_longlong(0), None, c.c_longlong(1),
                                                 c.c_longlong(0), type_, c.c_longlong(batch), c.byref(size))
                print(name, label, " ".join(map(str, n)) + f" x {batch}", size.value if status == 0 else f"status {status}", sep="\t")
                lib.cufftDestroy(plan)


def sparse():
    eye = torch.eye(4, device="cuda")
    eye.to_sparse_csr() @ eye
    lib, name = library("libcusparse.so.12")
    handle, value = c.c_void_p(), c.c_int()
    assert lib.cusparseCreate(c.byref(handle)) == 0
    lib.cusparseGetVersion(handle, c.byref(value))
    name = f"{name} {value.value}"
    for rows, columns, each in ((16, 16, 1), (1000, 1000, 1), (1000, 1000, 10), (1000, 1000, 100), (10000, 1000, 10), (1000, 10000, 10), (100000, 100000, 3)):
        nnz = rows * each
        offsets = torch.arange(0, nnz + 1, each, dtype=torch.int32, device="cuda")
        indices = (torch.arange(nnz, device="cuda") % columns).to(torch.int32)
        for letter, (_, dtype, number) in TYPES.items():
            values, a, one = torch.ones(nnz, dtype=dtype, device="cuda"), c.c_void_p(), (c.c_double * 2)(1, 0)
            lib.cusparseCreateCsr(c.byref(a), *map(c.c_int64, (rows, columns, nnz)), *(c.c_void_p(t.data_ptr()) for t in (offsets, indices, values)), 2, 2, 0, number)
            for k in (1, 8, 64, 500):
                b, d, size = c.c_void_p(), c.c_void_p(), c.c_size_t()
                lib.cusparseCreateDnMat(c.byref(b), c.c_int64(columns), c.c_int64(k), c.c_int64(k), place, number, 2)
                lib.cusparseCreateDnMat(c.byref(d), c.c_int64(rows), c.c_int64(k), c.c_int64(k), place, number, 2)
                for method in (0, 4, 5):
                    status = lib.cusparseSpMM_bufferSize(handle, 0, 0, one, a, b, one, d, number, method, c.byref(size))
                    print(name, f"{letter}SpMM", f"{rows} {columns} {nnz} {k} method {method}", size.value if status == 0 else f"status {status}", sep="\t")
            x, y = c.c_void_p(), c.c_void_p()
            lib.cusparseCreateDnVec(c.byref(x), c.c_int64(columns), place, number)
            lib.cusparseCreateDnVec(c.byref(y), c.c_int64(rows), place, number)
            status = lib.cusparseSpMV_bufferSize(handle, 0, one, a, x, one, y, number, 0, c.byref(size))
            print(name, f"{letter}SpMV", f"{rows} {columns} {nnz}", size.value if status == 0 else f"status {status}", sep="\t")
        size = c.c_size_t()
        for sort in ("Xcoosort", "Xcsrsort"):
            lib[f"cusparse{sort}_bufferSizeExt"](handle, rows, columns, nnz, *(c.c_void_p(t.data_ptr()) for t in (offsets, indices)), c.byref(size))
            print(name, sort, f"{rows} {columns} {nnz}", size.value, sep="\t")


print("#", torch.__version__, torch.cuda.get_device_name())
for part in (solver, transforms, sparse):
    part()
