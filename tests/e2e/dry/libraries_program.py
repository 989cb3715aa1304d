"""Calls of PyTorch that reach CUDA's libraries: all run to their end, and what they give has the shape that it should."""
import sys
import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
HALVES = (torch.float16, torch.bfloat16)
WHOLE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
calls = []


def call(function, *shapes, label=""):
    """FUNCTION runs; where SHAPES are given, its results have them."""
    name = f"{label or function.__code__.co_firstlineno}"
    try:
        out = function()
    except Exception as error:
        sys.exit(f"{name}: {type(error).__name__}: {error}")
    outs = out if isinstance(out, (tuple, list)) else (out,)
    for got, wanted in zip(outs, shapes):
        if tuple(got.shape) != wanted:
            sys.exit(f"{name}: {tuple(got.shape)}, not {wanted}")
    calls.append(name)


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def products():
    for dtype in HALVES + WHOLE:
        a, b, bias = random(64, 32, dtype=dtype), random(32, 48, dtype=dtype), random(48, dtype=dtype)
        many, others = random(4, 64, 32, dtype=dtype), random(4, 32, 48, dtype=dtype)
        call(lambda: a @ b, (64, 48))
        call(lambda: torch.bmm(many, others), (4, 64, 48))
        call(lambda: torch.baddbmm(random(4, 64, 48, dtype=dtype), many, others, beta=0.5, alpha=2), (4, 64, 48))
        call(lambda: torch.addmm(bias, a, b), (64, 48))
        call(lambda: torch.addmv(a[:, 0], a, b[:, 0]), (64,))
        call(lambda: torch.dot(bias, bias), ())
        call(lambda: torch.vdot(bias, bias), ())
        call(lambda: torch.outer(bias, bias), (48, 48))
        call(lambda: a.requires_grad_().matmul(b).abs().sum().backward())
    for dtype in HALVES + (torch.float32,):
        x, w, bias = random(8, 16, dtype=dtype), random(16, 16, dtype=dtype), random(16, dtype=dtype)
        for gelu in (True, False):
            call(lambda: torch._addmm_activation(bias, x, w, use_gelu=gelu), (8, 16))
        call(lambda: F.linear(x, w, bias), (8, 16))
    bytes_ = torch.ones(32, 32, dtype=torch.int8, device="cuda")
    call(lambda: torch._int_mm(bytes_, bytes_), (32, 32))
    if tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 5):
        eights, one = random(32, 32).to(torch.float8_e4m3fn), torch.ones((), device="cuda")
        call(lambda: torch._scaled_mm(eights, eights.t(), one, one, out_dtype=torch.bfloat16), (32, 32))
        call(lambda: torch._scaled_mm(eights, eights.t(), one, one, bias=random(32, dtype=torch.bfloat16), out_dtype=torch.bfloat16), (32, 32))


def solvers():
    linalg = torch.linalg
    for dtype in WHOLE:
        for shape in ((16, 16), (3, 16, 16), (300, 300)):
            x, y, tau = random(*shape, dtype=dtype), random(*shape[:-1], 5, dtype=dtype), random(*shape[:-1], dtype=dtype)
            call(lambda: linalg.inv(x.requires_grad_()).abs().sum().backward())
            x = x.detach()
            call(lambda: linalg.solve(x, y), tuple(y.shape))
            call(lambda: linalg.lu_factor(x), shape, shape[:-1])
            call(lambda: linalg.slogdet(x), shape[:-2])
            call(lambda: linalg.qr(x), shape, shape)
            call(lambda: linalg.svd(x), shape, shape[:-1], shape)
            for driver in ("gesvd", "gesvdj", "gesvda"):
                call(lambda: linalg.svd(x, full_matrices=False, driver=driver), shape, shape[:-1], shape)
            call(lambda: linalg.eigh(x), shape[:-1], shape)
            call(lambda: linalg.eigvalsh(x), shape[:-1])
            call(lambda: linalg.cholesky(x), shape)
            call(lambda: torch.cholesky_solve(y, x), tuple(y.shape))
            call(lambda: torch.cholesky_inverse(x), shape)
            call(lambda: linalg.solve_triangular(x, y, upper=True), tuple(y.shape))
            call(lambda: linalg.lstsq(x, y), tuple(y.shape))
            call(lambda: linalg.ldl_factor(x), shape)
            call(lambda: linalg.householder_product(x, tau), shape)
            call(lambda: torch.ormqr(x, tau, y), tuple(y.shape))


def transforms():
    for dtype in (torch.float16, torch.float32, torch.float64):
        x = random(4, 8, 64, 64, dtype=dtype)
        call(lambda: torch.fft.ifft(torch.fft.fft(x)), (4, 8, 64, 64))
        call(lambda: torch.fft.irfft(torch.fft.rfft(x)), (4, 8, 64, 64))
        call(lambda: torch.fft.irfftn(torch.fft.rfftn(x)), (4, 8, 64, 64))
    call(lambda: torch.fft.fftn(random(4, 4, 4, 4, 4)), (4, 4, 4, 4, 4))
    call(lambda: torch.fft.fft(random(2, 1009)), (2, 1009))
    call(lambda: torch.stft(random(2, 4000), 400, window=torch.hann_window(400, device="cuda"), return_complex=True), (2, 201, 41))


def sparse():
    coordinates = torch.sparse_coo_tensor(torch.tensor([[0, 1, 2], [2, 0, 1]]), torch.ones(3), (3, 3)).to("cuda")
    rows = torch.sparse_csr_tensor(torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 2]), torch.ones(3), (3, 3)).to("cuda")
    blocks = torch.sparse_bsr_tensor(torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.ones(2, 2, 2), (4, 4)).to("cuda")
    dense = random(3, 4)
    call(lambda: torch.sparse.mm(coordinates, dense), (3, 4))
    call(lambda: rows @ dense, (3, 4))
    call(lambda: rows @ dense[:, 0], (3,))
    call(lambda: rows @ rows, (3, 3))
    call(lambda: rows + rows, (3, 3))
    call(lambda: torch.sparse.sampled_addmm(rows, random(3, 5), random(5, 3)), (3, 3))
    call(lambda: torch.triangular_solve(dense, rows), (3, 4))
    call(lambda: blocks @ random(4, 4), (4, 4))
    call(lambda: torch.nn.Embedding(100, 8, sparse=True).cuda()(torch.tensor([1, 2], device="cuda")).sum().backward())
    from torch.sparse import SparseSemiStructuredTensor, to_sparse_semi_structured

    SparseSemiStructuredTensor._FORCE_CUTLASS = False
    half = torch.tensor([0, 0, 1, 1]).tile((128, 32)).half().to("cuda")
    kept = to_sparse_semi_structured(half)
    call(lambda: F.linear(random(128, 128, dtype=torch.float16), kept), (128, 128))
    packed = kept.packed.numel() * kept.packed.element_size()
    if packed != half.numel() * half.element_size() * 9 // 16:
        sys.exit(f"half of a matrix is {packed} bytes")


def compiled():
    x = torch.rand(100, device="cuda")
    for name in ("i0e", "airy_ai", "bessel_j0", "modified_bessel_i0", "log_ndtr", "gammaln", "erfcx"):
        call(lambda: getattr(torch.special, name)(x), (100,), label=name)
    call(lambda: torch.special.zeta(x, x), (100,))
    call(lambda: torch.gcd(torch.ones(9, dtype=torch.int64, device="cuda"), torch.ones(9, dtype=torch.int64, device="cuda")), (9,))
    mine = torch.cuda.jiterator._create_jit_fn("template <typename T> T mine(T x, T y, T a) { return a * x + y; }", a=1.0)
    call(lambda: mine(x, x, a=2.0), (100,))


def graph():
    a, graph = random(64, 64), torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        a @ a
    with torch.cuda.graph(graph):
        b = a @ a
    graph.replay()
    return b


def profiled():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as seen:
        random(8, 8) @ random(8, 8)
    if "aten::mm" not in {event.key for event in seen.key_averages()}:
        sys.exit("the profiler saw no product")


products()
solvers()
transforms()
sparse()
compiled()
call(graph, (64, 64))
call(profiled)
call(lambda: F.dropout(torch.ones(100, device="cuda")), (100,))
call(lambda: torch.multinomial(torch.ones(10, device="cuda"), 3, replacement=True), (3,))
torch.cuda.synchronize()
print(len(calls), "calls")
