#!/usr/bin/env python3
"""kernels_bench.py LIBRARY OUT.tsv [--shape N,H,V]... [--modes] [--sweep] [--tune] [--profile] [--exact] [--compile]

Times the linear cross-entropy: loss and all gradients, bf16, one GPU, random and peaked softmax.  Every method in turn,
again and again; median and spread in ms.  "GEMM" is one of the methods: the same number of operations as matrix
products of 8192^3 through PyTorch, so that a method's share of the GEMM rate is of the rate that the card had beside
it.  Under load the card lowers its clock to keep within its power limit, so there are two regimes: `burst` rests 0.2 s
before each call, `sustained` never rests.
"""
import argparse
import gc
import statistics
import time

import torch
import torch.nn.functional as F
import kernels_lce as K

ROUNDS = 8


def timed(function):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    function()
    end.record()
    return start, end


def race(methods, rounds=ROUNDS, rest=0.0):
    """{name: [ms]}: every method once per round, after two rounds that do not count; REST seconds before each."""
    times = {name: [] for name in methods}
    spin = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    for lap in range(rounds + 2):
        for name, function in methods.items():
            if rest:
                time.sleep(rest)
                for _ in range(20):  # out of the idle clock
                    torch.matmul(spin, spin)
            start, end = timed(function)
            end.synchronize()
            if lap >= 2:
                times[name].append(start.elapsed_time(end))
    return times


class Gemm:
    """As many operations as the three products of SHAPE, as products of 8192^3."""

    def __init__(self, shape):
        self.a, self.b, self.out = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        n, h, v = shape
        self.count = max(1, round(6 * n * h * v / (2 * 8192**3)))
        self.scale = 6 * n * h * v / (self.count * 2 * 8192**3)

    def __call__(self):
        for _ in range(self.count):
            torch.matmul(self.a, self.b, out=self.out)


def inputs(n, h, v, kind):
    torch.manual_seed(1)
    weight = torch.randn(v, h, device="cuda", dtype=torch.bfloat16) * 0.02
    labels = torch.randint(0, v, (n,), device="cuda")
    x = torch.randn(n, h, device="cuda", dtype=torch.bfloat16)
    if kind == "peaked":  # the label's logit stands out: its own row, scaled to about 12
        x = x * 0.3 + weight[labels] * (12 / (h * 0.02 * 0.02))
    return x.contiguous(), weight, labels


class Ours:
    def __init__(self, library, x, w, labels, mode, budget=0, chunk=0, **values):
        (n, h), v = x.shape, w.shape[0]
        self.plan = library.plan(library.problem(tokens=n, hidden=h, vocab=v, **values), mode, budget, chunk)
        self.dx, self.dw = torch.empty_like(x), torch.empty_like(w)
        self.loss, self.flag = torch.empty(1, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")
        self.workspace = torch.empty(self.plan.info.workspace_size, dtype=torch.uint8, device="cuda")
        self.keep = x, w, labels
        self.buffers = K.Buffers(input=x.data_ptr(), weight=w.data_ptr(), labels=labels.data_ptr(),
                                 loss=self.loss.data_ptr(), grad_input=self.dx.data_ptr(), grad_weight=self.dw.data_ptr(),
                                 error_flag=self.flag.data_ptr(), workspace=self.workspace.data_ptr(),
                                 workspace_size=self.workspace.numel())

    def __call__(self):
        self.plan.run(self.buffers, torch.cuda.current_stream().cuda_stream)

    def results(self):
        self()
        return self.loss, self.dx, self.dw


def eager_loss(x, w, labels):
    return F.cross_entropy(F.linear(x, w).float(), labels)


class Torch:
    def __init__(self, x, w, labels, loss):
        self.x, self.w = x.detach().requires_grad_(), w.detach().requires_grad_()
        self.labels, self.loss = labels, loss

    def __call__(self):
        self.x.grad = self.w.grad = None
        value = self.loss(self.x, self.w, self.labels)
        value.backward()
        return value

    def results(self):
        value = self().detach()
        return value, self.x.grad, self.w.grad


def peak(function):
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def exact(x, w, labels):
    """In fp64, by chunks."""
    loss, dx, dw = 0.0, torch.empty(x.shape, device="cuda", dtype=torch.float64), torch.zeros(w.shape, device="cuda", dtype=torch.float64)
    w = w.double()
    for i in range(0, len(x), 1024):
        part, label = x[i : i + 1024].double(), labels[i : i + 1024]
        z = part @ w.T
        lse = torch.logsumexp(z, 1, keepdim=True)
        loss += (lse[:, 0] - z.gather(1, label[:, None])[:, 0]).sum().item()
        z.sub_(lse).exp_()
        z[torch.arange(len(label), device="cuda"), label] -= 1
        z /= len(x)
        dx[i : i + 1024] = z @ w
        dw += z.T @ part.double()
        del z
    return loss / len(x), dx, dw


def errors(results, want):
    loss, dx, dw = results
    distance = lambda a, b: sum(((p.double() - q) ** 2).sum().item() for p, q in zip(a.split(8192), b.split(8192))) ** 0.5 / b.norm().item()
    return abs(loss.item() - want[0]) / abs(want[0]), distance(dx, want[1]), distance(dw, want[2])


def profile(function):
    from torch.profiler import ProfilerActivity, profile as profiler

    function()
    torch.cuda.synchronize()
    with profiler(activities=[ProfilerActivity.CUDA]) as p:
        function()
        torch.cuda.synchronize()
    for event in sorted(p.key_averages(), key=lambda e: -e.device_time_total)[:8]:
        print(f"      {event.device_time_total / 1e3:8.3f} ms {event.count:4d} x {event.key[:110]}")


class Bench:
    def __init__(self, arguments):
        self.a, self.library = arguments, K.Library(arguments.library, K.CUDA)
        self.out = open(arguments.out, "a")

    def row(self, shape, kind, name, times, bound, memory, note=""):
        """BOUND: ms of the same operations at the GEMM rate measured beside it."""
        n, h, v = shape
        median = statistics.median(times)
        line = [f"{n}x{h}x{v}", kind, name, f"{median:.2f}", f"{min(times):.2f}-{max(times):.2f}", f"{memory:.1f}",
                f"{6 * n * h * v / median / 1e9:.0f}", f"{100 * bound / median:.1f}%", note]
        print("{:18s} {:17s} {:24s} {:>7s} ms ({:s}) {:>8s} MiB {:>4s} TF {:>6s} of GEMM  {}".format(*line), flush=True)
        self.out.write("\t".join(line) + "\n")
        self.out.flush()

    def race(self, shape, kind, methods, memory, notes, rounds=ROUNDS, regimes=("burst", "sustained")):
        gemm = Gemm(shape)
        for regime in regimes:
            all_times = race({"GEMM": gemm, **methods}, rounds, 0.2 if regime == "burst" else 0)
            bound = statistics.median(all_times["GEMM"]) * gemm.scale
            for name, times in all_times.items():
                self.row(shape, f"{kind} {regime}", name, times, bound, memory.get(name, 0), notes.get(name, ""))

    def methods(self, x, w, labels):
        ours = {"fast": Ours(self.library, x, w, labels, K.FAST), "lean": Ours(self.library, x, w, labels, K.LEAN)}
        if self.a.modes:
            ours["fast, 1 GiB"] = Ours(self.library, x, w, labels, K.FAST, 1 << 30)
            ours["fast, fp32 dweight"] = Ours(self.library, x, w, labels, K.FAST, chunk=1024, flags=K.F32_ACCUMULATE)
            ours["naive"] = Ours(self.library, x, w, labels, K.NAIVE)
        return ours

    def run(self, shape, kind):
        x, w, labels = inputs(*shape, kind)
        ours = self.methods(x, w, labels)
        peers = {"torch eager": Torch(x, w, labels, eager_loss)}
        if self.a.compile:
            peers["torch compile"] = Torch(x, w, labels, torch.compile(eager_loss))
        gradients = (x.numel() + w.numel()) * 2 / 2**20
        memory = {name: peak(method) - gradients for name, method in peers.items()}
        memory.update({name: method.workspace.numel() / 2**20 for name, method in ours.items()})
        want = exact(x, w, labels) if self.a.exact else None
        notes = {}
        for name, method in {**ours, **peers}.items():
            if want:
                notes[name] = "errors loss %.1e dx %.2e dw %.2e" % errors(method.results(), want)
            if name in peers:
                method.x.grad = method.w.grad = None
        for name, method in ours.items():
            info = method.plan.info
            notes[name] = f"chunk {info.chunk_tokens} x{info.chunks}, scratch {info.gemm_size / 2**20:.1f} " + notes.get(name, "")
        self.race(shape, kind, {**ours, **peers}, memory, notes)
        if self.a.profile:
            for name in ("fast", "lean"):
                print(f"  {name}:")
                profile(ours[name])
        if any(method.flag.item() for method in ours.values()):
            raise SystemExit("an error flag was set")

    def sweep(self, shape):
        """Chunk sizes, with as much scratch as cuBLASLt wants and with none; the parts by leaving gradients out."""
        x, w, labels = inputs(*shape, "random")
        for chunk in (256, 384, 448, 512, 640, 768, 896, 1024, 1152, 1280, 1536, 1664, 1792, 2048, 2176, 4096):
            wants = {"all": 7, "loss": 1, "loss+dx": 3, "loss+dw": 5} if chunk in (384, 512, 1024, 2048) else {"all": 7}
            methods = {f"chunk {chunk} {what}": Ours(self.library, x, w, labels, K.FAST, chunk=chunk, wants=bits)
                       for what, bits in wants.items()}
            row = chunk * (w.shape[0] + 64) * 2
            methods[f"chunk {chunk} tight"] = Ours(self.library, x, w, labels, K.FAST, chunk=chunk, budget=row + (1 << 20))
            memory = {name: method.workspace.numel() / 2**20 for name, method in methods.items()}
            self.race(shape, "random", methods, memory, {}, 5, ("burst",))

    def tune(self, shape):
        """Each of cuBLASLt's first proposals for each product, the others as they are."""
        x, w, labels = inputs(*shape, "random")
        for chunk in (2048, 1024, 512):
            for place, (product, wants) in enumerate({"logits": 1, "dinput": 3, "dweight": 5}.items()):
                methods = {}
                for proposal in range(8):
                    try:
                        methods[f"{chunk} {product} {proposal}"] = Ours(
                            self.library, x, w, labels, K.FAST, chunk=chunk, wants=wants, proposals=proposal << 4 * place)
                    except K.Error as error:
                        print(f"{chunk} {product} {proposal}: {error}")
                times = race(methods, 4, 0.1)
                for name, values in times.items():
                    print(f"tune {name}: {statistics.median(values):.2f} ms ({min(values):.2f}-{max(values):.2f}), "
                          f"scratch {methods[name].plan.info.gemm_size / 2**20:.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("out")
    parser.add_argument("--shape", action="append")
    for flag in ("modes", "sweep", "tune", "profile", "exact", "compile"):
        parser.add_argument("--" + flag, action="store_true")
    parser.add_argument("--kinds", default="random,peaked")
    a = parser.parse_args()
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    bench = Bench(a)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    for text in a.shape or ["8192,4096,128256"]:
        shape = tuple(map(int, text.split(",")))
        for kind in a.kinds.split(","):
            bench.run(shape, kind)
            gc.collect()
            torch.cuda.empty_cache()
        if a.sweep:
            bench.sweep(shape)
        if a.tune:
            bench.tune(shape)
    print("all was timed")


if __name__ == "__main__":
    main()
