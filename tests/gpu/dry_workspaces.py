"""dry_workspaces.py - what dry_workspaces.sh runs: makes cases, plays a share of them, makes the table.

    dry_workspaces.py cases FILE                 every case that is played, in the order of their weight
    dry_workspaces.py play FILE I N SECONDS      the Ith of N shares of them, until the time is over
    dry_workspaces.py table OUT LOG...           one table of all logs of dry_workspaces.c

A case is a convolution, normalization, recurrent layer or attention with real tensors, forward and backward.  A few of
the convolutions of dry_workspaces_nets.py are played; all, and many more, are asked about (dry_workspaces_layers.py).
"""

import collections, ctypes, json, math, os, sys, time

import dry_workspaces_nets as nets


# ---- cases ----

WAYS = [("f32", "nchw"), ("bf16", "nchw"), ("bf16", "nhwc"), ("f16", "nchw"), ("f32", "nhwc"), ("f16", "nhwc")]
SHARE = 200  # of the convolutions of a network, in every batch and way, one is played


def convolutions():
    """(weight, case): the lower the weight the earlier."""
    out = []
    for family, layers, batches in nets.zoo():
        for (c, *sides), k, groups, kernel, pad, step, dilation in set(layers):
            for w, n in enumerate(batches):
                for v, way in enumerate(WAYS):
                    case = (f"{family}/{n}", n, (c, *sides), k, kernel, step, pad, dilation, groups, *way)
                    kind = hash_of(case) % SHARE
                    if kind == 0:
                        out.append((v + w, ("conv", *case)))
                    elif kind == 1 and len(kernel) > 1:
                        out.append((v + w, ("norm", f"{family}/{n}", n, (k, *sides), *way)))
                    elif kind < 4 and family in ("resnet", "diffusion", "unet", "volumes") and v in (0, 1, 2, 4):  # as the settings say
                        out.append((2 + v, (("benchmark", "deterministic")[kind - 2], *case)))
                    elif kind < 6 and family == "first":
                        out.append((3, ("conv", *case[:-2], "f64" if kind == 4 else "f32-ieee", way[1])))
    return out


def others():
    """Recurrent layers, attention, the CTC loss."""
    out = []
    for cell in ("LSTM", "GRU", "RNN"):
        for i, hidden, layers_, both in ((64, 64, 1, 0), (128, 256, 2, 0), (256, 512, 2, 1), (512, 512, 3, 0), (80, 320, 4, 1), (300, 650, 2, 0), (1024, 1024, 1, 0), (1, 32, 1, 0), (28, 128, 2, 0), (650, 650, 2, 0), (100, 100, 1, 1), (40, 200, 2, 1)):
            for n, steps in ((1, 50), (4, 35), (20, 35), (32, 128), (64, 100), (128, 28), (16, 512), (256, 64)):
                for d, data in enumerate(("f32", "f16", "bf16")):
                    for how in ("train", "infer", "packed", "nobias", "dropout", "projection"):
                        if how == "projection" and cell != "LSTM":
                            continue
                        weight = (0 if how == "train" else 2 if how in ("infer", "packed") else 4) + d
                        out.append((weight, ("rnn", cell, i, hidden, layers_, both, n, steps, data, how)))
    for n, heads, few, q, k, width in ((1, 12, 12, 1024, 1024, 64), (4, 12, 12, 1024, 1024, 64), (8, 12, 12, 512, 512, 64), (2, 32, 32, 2048, 2048, 128), (1, 32, 8, 4096, 4096, 128), (2, 32, 8, 2048, 2048, 128), (4, 16, 16, 256, 256, 64), (8, 8, 2, 512, 512, 64), (1, 14, 2, 2048, 2048, 64), (2, 28, 4, 1024, 1024, 128), (1, 16, 16, 8192, 8192, 128), (16, 12, 12, 197, 197, 64), (8, 16, 16, 257, 257, 64), (32, 12, 12, 50, 50, 64), (4, 8, 8, 4096, 4096, 40), (4, 8, 8, 1024, 1024, 80), (2, 8, 8, 4096, 77, 40), (2, 10, 10, 4096, 77, 64), (4, 20, 20, 1500, 1500, 64), (4, 20, 20, 448, 1500, 64), (2, 24, 24, 4608, 4608, 128), (8, 12, 12, 333, 333, 64), (2, 8, 1, 1024, 1024, 128), (2, 4, 4, 100, 100, 96), (1, 32, 32, 1, 1024, 128), (1, 8, 8, 512, 512, 256), (4, 16, 16, 1000, 1000, 32), (2, 40, 8, 4096, 4096, 128), (1, 64, 8, 2048, 2048, 128), (3, 6, 6, 128, 128, 48)):  # fmt: skip
        for data in ("bf16", "f16"):
            for w, how in enumerate(("plain", "causal", "dropout", "mask", "learnt-mask", "causal-dropout", "infer", "bhsd", "varlen")):
                out.append((w // 2, ("sdpa", n, heads, few, q, k, width, data, how)))
    out += [(1, ("ctc", t, n, a, l)) for t, n, a, l in ((50, 4, 20, 10), (100, 16, 30, 20), (200, 32, 32, 30), (500, 8, 100, 40), (1000, 4, 5000, 60), (150, 64, 29, 25))]
    return out


def cases(path):
    """Every case, the important first, those of a weight in an order that is the same each time but not by network."""
    every, seen, out = convolutions() + others(), set(), []
    every.sort(key=lambda one: (one[0], hash_of(one[1])))
    for _, case in every:
        key = json.dumps(case[:1] + case[2:] if case[0] in ("conv", "norm", "benchmark", "deterministic") else case)
        if key not in seen:
            seen.add(key)
            out.append(case)
    with open(path, "w") as file:
        for case in out:
            file.write(json.dumps(case) + "\n")
    print(f"{len(out)} cases", collections.Counter(case[0] for case in out))


def hash_of(case):
    import zlib

    return zlib.crc32(json.dumps(case).encode())


# ---- playing them ----

LIMIT = 6 << 30  # bytes of one case's tensors


def play_convolution(kind, name, n, shape, k, kernel, step, pad, dilation, groups, data, layout):
    import torch

    types = {"f64": torch.float64, "f32": torch.float32, "f32-ieee": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    d, c, type_ = len(kernel), shape[0], types[data]
    place = {("nhwc", 2): torch.channels_last, ("nhwc", 3): torch.channels_last_3d}.get((layout, d), torch.contiguous_format)
    if layout == "nhwc" and d == 1:
        return
    torch.backends.cudnn.allow_tf32 = data != "f32-ieee"
    torch.backends.cudnn.benchmark = kind == "benchmark"
    torch.backends.cudnn.deterministic = kind == "deterministic"
    if n * (c + 2 * k) * math.prod(shape[1:]) * 4 > LIMIT:
        return
    x = torch.empty((n, *shape), device="cuda", dtype=type_, requires_grad=True)
    w = torch.empty((k, c // groups, *kernel), device="cuda", dtype=type_, requires_grad=True)
    with torch.no_grad():
        x.data, w.data = (t.detach().contiguous(memory_format=place) for t in (x, w))
    y = torch.convolution(x, w, None, step, pad, dilation, False, (0,) * d, groups)
    y.backward(torch.empty_like(y))


def play_norm(name, n, shape, data, layout):
    import torch

    d = len(shape) - 1
    place = {("nhwc", 2): torch.channels_last, ("nhwc", 3): torch.channels_last_3d}.get((layout, d), torch.contiguous_format)
    if 4 * n * shape[0] * (shape[1] ** d) * 4 > LIMIT:
        return
    x = torch.empty((n, *shape), device="cuda", dtype={"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[data]).contiguous(memory_format=place).requires_grad_()
    norm = (torch.nn.BatchNorm2d if d == 2 else torch.nn.BatchNorm3d)(shape[0]).cuda()
    y = norm(x)
    y.backward(torch.empty_like(y))


def play_rnn(cell, i, hidden, layers_, both, n, steps, data, how):
    import torch

    type_ = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[data]
    more = {"proj_size": hidden // 2} if how == "projection" else {}
    net = getattr(torch.nn, cell)(i, hidden, layers_, bidirectional=bool(both), bias=how != "nobias", dropout=0.1 if how == "dropout" and layers_ > 1 else 0.0, **more).to("cuda", type_)
    x = torch.zeros(steps, n, i, device="cuda", dtype=type_, requires_grad=True)
    if how == "infer":
        net.eval()
        with torch.no_grad():
            net(x)
        return
    given = torch.nn.utils.rnn.pack_padded_sequence(x, [max(1, steps - j * steps // (2 * n)) for j in range(n)]) if how == "packed" else x
    y = net(given)[0]
    (y.data if how == "packed" else y).sum().backward()


def play_sdpa(n, heads, few, q, k, width, data, how):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    type_ = {"f16": torch.float16, "bf16": torch.bfloat16}[data]
    grad = how != "infer"
    if how == "varlen":
        lengths = torch.tensor([max(1, q - j * q // (2 * n)) for j in range(n)])
        make = lambda h: torch.nested.nested_tensor([torch.zeros(int(l), h, width, dtype=type_) for l in lengths], layout=torch.jagged, device="cuda", requires_grad=True).transpose(1, 2)  # noqa: E731
        if few != heads or q != k:
            return
    elif how == "bhsd":
        make = lambda h, s=None: torch.zeros(n, h, s or q, width, device="cuda", dtype=type_, requires_grad=grad)  # noqa: E731
    else:  # as projections leave them: the heads beside each other
        make = lambda h, s=None: torch.zeros(n, s or q, h, width, device="cuda", dtype=type_, requires_grad=grad).transpose(1, 2)  # noqa: E731
    query, key, value = (make(heads), make(few), make(few)) if how == "varlen" else (make(heads), make(few, k), make(few, k))
    mask = torch.zeros(n, 1, q, k, device="cuda", dtype=type_, requires_grad=how == "learnt-mask") if "mask" in how else None
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        y = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=0.1 if "dropout" in how else 0.0, is_causal="causal" in how and q == k, enable_gqa=few != heads)
    if grad:
        (y.values() if how == "varlen" else y).sum().backward()


def play_ctc(t, n, a, length):
    import torch

    x = torch.zeros(t, n, a, device="cuda").log_softmax(2).requires_grad_()
    torch.backends.cudnn.deterministic = False
    torch.nn.functional.ctc_loss(x, torch.ones(n * length, dtype=torch.int32), [t] * n, [length] * n).backward()


def play(path, share, shares, seconds):
    import torch

    torch.set_num_threads(1)
    end = time.monotonic() + float(seconds)
    tracer = ctypes.CDLL(None)
    say = getattr(tracer, "dry_workspaces_case", lambda text: None)
    players = {"norm": play_norm, "rnn": play_rnn, "sdpa": play_sdpa, "ctc": play_ctc}
    say(f"machine cudnn={torch.backends.cudnn.version()} torch={torch.__version__} card={torch.cuda.get_device_name()}".encode())
    played, failed = 0, collections.Counter()
    with open(path) as file:
        mine = [json.loads(line) for i, line in enumerate(file) if i % int(shares) == int(share)]
    for case in mine:
        if time.monotonic() > end:
            break
        say(json.dumps(case).encode())
        torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = False
        try:
            if case[0] in players:
                torch.backends.cudnn.allow_tf32 = True
                players[case[0]](*case[1:])
            else:
                play_convolution(*case)
            torch.cuda.synchronize()
        except Exception as error:  # what PyTorch or cuDNN refuses is a line of the log
            failed[(case[0], str(error).split("\n")[0][:80])] += 1
            say(f"refused {type(error).__name__}".encode())
        played += 1
        if torch.cuda.memory_reserved() > 6 << 30:
            torch.cuda.empty_cache()
    print(f"share {share}: {played} of {len(mine)} cases", dict(failed.most_common(6)), flush=True)


def own():
    """What the device holds beside PyTorch's memory, after each library's first call; nothing else may run meanwhile."""
    import torch

    say = getattr(ctypes.CDLL(None), "dry_workspaces_case", lambda text: None)
    before = torch.cuda.mem_get_info(0)[0]  # NVML's: no context yet would be better, but this call makes one

    def after(what):
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info(0)
        text = f"own {what} used={total - free - torch.cuda.memory_reserved()} since={before - free - torch.cuda.memory_reserved()}"
        print(text, flush=True)
        say(text.encode())

    after("context")
    x = torch.zeros(64, 64, device="cuda")
    after("tensor")
    x @ x
    after("matmul")
    for d in (torch.float32, torch.bfloat16):
        for n in (1, 2):
            y = torch.nn.functional.conv2d(torch.zeros(8, 64, 56, 56, device="cuda", dtype=d, requires_grad=True), torch.zeros(64, 64, 3, 3, device="cuda", dtype=d, requires_grad=True), padding=1)
            after(f"conv-{d}-{n}-forward")
            y.sum().backward()
            after(f"conv-{d}-{n}-backward")
    play_norm("", 8, (64, 56, 56), "f32", "nchw")
    after("norm")
    play_rnn("LSTM", 128, 256, 2, 0, 20, 35, "f32", "train")
    after("lstm")
    play_sdpa(4, 12, 12, 1024, 1024, 64, "bf16", "causal")
    after("sdpa")


# ---- the table ----


def settings(case):
    if not isinstance(case, list):
        return "?"
    tf32 = "ieee" if "f32-ieee" in case else "tf32"
    return tf32 + ("" if case[0] not in ("benchmark", "deterministic") else "-" + case[0])


def rows(log):
    """(what, settings, description, case, what was offered and taken) of each graph; of other functions their own lines."""
    case, graphs = None, {}
    for line in open(log, errors="replace"):
        what, *field = line.rstrip("\n").split("\t")
        if what == "case":
            yield from finished(graphs, case)
            graphs = {}
            case = json.loads(field[0]) if field[0].startswith("[") else field[0]
            if field[0].startswith(("machine", "own")):
                yield ("machine", "", field[0], "", "")
        elif what == "graph":
            graphs[field[0]] = {"text": field[1], "offer": [], "plan": [], "took": []}
        elif what in ("offer", "plan", "took"):
            if field[0] in graphs:
                graphs[field[0]][what].append(field[1:])
        else:
            yield (what, settings(case), "\t".join(field), "", "")
    yield from finished(graphs, case)


def first_of(offers, no_tensor_cores, deterministic):
    for _, engine, notes, size, _ in offers:
        if not (no_tensor_cores and "0" in notes.split(",")) and not (deterministic and "4" in notes.split(",")):
            return f"{engine}/{size}"
    return "-1/-1"


def finished(graphs, case):
    """A graph's row ends with engine/bytes of what PyTorch takes: as it is, without TF32, deterministic, both; and the most bytes of any offer."""
    for one in graphs.values():
        name = json.dumps(case[1]) if isinstance(case, list) else str(case)
        if one["offer"]:
            offers = one["offer"]
            tried = [first_of(offers, a, b) for b in (0, 1) for a in (0, 1)]
            took = "/".join(one["took"][0]) if one["took"] else ""
            yield ("graph", settings(case), one["text"], name, "\t".join([*tried, str(max(int(o[3]) for o in offers)), took]))


def table(out, logs):
    seen, machine = set(), set()
    with open(out, "w") as file:
        for log in logs:
            for what, how, text, case, tried in rows(log):
                if what == "machine":
                    machine.add(text)
                    continue
                key = (what, how, text)
                if key not in seen:
                    seen.add(key)
                    file.write("\t".join((what, how, text, case, tried)).rstrip("\t") + "\n")
        for text in sorted(machine):
            file.write(text + "\n")
    print(f"{len(seen)} rows, {os.path.getsize(out)} bytes")


if __name__ == "__main__":
    {"cases": cases, "own": own, "play": play, "table": lambda out, *logs: table(out, logs)}[sys.argv[1]](*sys.argv[2:])
