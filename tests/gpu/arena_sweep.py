"""A sweep over sequence lengths: peaks of allocated and reserved memory, and the speed, of a Llama 3.2 1B in bf16 under each
allocator.

Allocators measure each point in turn. Two series: "reset" gives back the caches before each point, as a run of that length alone;
"kept" gives nothing back, in a random order of lengths, and its reserved only grows. scripts/arena_sweep_plot.sh draws
OUT/sweep.tsv.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from arena_worker import NAMES, folder, start  # noqa: E402

GIB = 1 << 30
LLAMA = dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
             head_dim=64, vocab_size=128256, max_position_embeddings=4096, rms_norm_eps=1e-5, tie_word_embeddings=True)
TINY = dict(LLAMA, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
            vocab_size=100)


# ---- the program ----


class PlainModel:
    """Stands in where transformers is not there: for a test of this script alone."""

    def __new__(cls, torch, sizes):
        model = torch.nn.Sequential(torch.nn.Embedding(sizes["vocab_size"], 32), torch.nn.Linear(32, sizes["vocab_size"]))
        model.loss_of = lambda ids: torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        return model


def new_model(torch, device):
    sizes = TINY if device == "cpu" else LLAMA
    torch.manual_seed(1)
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        if device != "cpu":
            raise
        return PlainModel(torch, sizes)
    with torch.device(device):
        model = LlamaForCausalLM(LlamaConfig(**sizes)).to(torch.bfloat16)  # its attention is sdpa unless told
    model.loss_of = lambda ids: model(input_ids=ids, labels=ids, use_cache=False).loss
    return model


def ask(function):
    """PyTorch's answer; None where its allocator has none."""
    try:
        return function()
    except Exception:
        return None


def iterate(torch, model, optimizer, ids):
    loss = model.loss_of(ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def point(torch, model, optimizer, a, length, reset):
    """The first iteration is not timed: caches fill, libraries choose their kernels."""
    cuda = a.device != "cpu"
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(1, 100, (a.batch, max(2, length)), generator=generator)[:, :max(2, length)].to(a.device)
    if cuda and reset:
        ask(torch.cuda.empty_cache)
    if cuda:
        ask(torch.cuda.reset_peak_memory_stats)
    window = time.monotonic_ns()
    loss = iterate(torch, model, optimizer, ids)
    begin = time.perf_counter()
    for _ in range(a.iterations - 1):
        loss = iterate(torch, model, optimizer, ids)
    seconds = time.perf_counter() - begin
    found = {"length": length, "rate": (a.iterations - 1) / seconds, "loss": loss, "window": [window, time.monotonic_ns()]}
    if cuda:
        found.update(allocated=ask(torch.cuda.max_memory_allocated), reserved=ask(torch.cuda.max_memory_reserved))
    return found


def work(a):
    import torch

    say = lambda what: print(json.dumps(what), flush=True)  # noqa: E731
    try:
        import transformers  # noqa: F401
    except ImportError:
        pass
    say({"ready": torch.__version__})
    model = None
    for line in sys.stdin:
        length, series = line.split()
        if model is None:
            model = new_model(torch, a.device)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=a.device != "cpu")
        say(point(torch, model, optimizer, a, int(length), series == "reset"))


# ---- the sweep ----


def ask_all(workers, length, series, measured):
    order = list(workers)
    random.Random(f"{length} {series}").shuffle(order)
    for name in order:
        found = workers[name].ask(f"{length} {series}", "length", 60)
        if found:
            measured.append(dict(found, name=name, series=series))


def write(path, measured):
    with open(path + ".part", "w") as out:
        for m in measured:
            print(m["name"], m["series"], m["length"], m.get("allocated") or 0, m.get("reserved") or 0, f"{m['rate']:.4f}", repr(m["loss"]),
                  sep="\t", file=out)
    os.replace(path + ".part", path)


def read_peaks(measured, name, database):
    """From the recording, where PyTorch had no answer."""
    from arena_recorded import between

    for m in measured:
        if m["name"] == name and not m.get("allocated") and os.path.exists(database):
            m["allocated"], m["reserved"] = between(database, *m["window"])


def sweep(a):
    scratch = folder(a.out, "sweep.work")
    program = [os.path.abspath(__file__), "--work", "--device", a.device, "--batch", str(a.batch), "--iterations", str(a.iterations)]
    workers = {name: start(a.tree, name, program, os.path.join(scratch, name)) for name in a.only.split(",")}
    for worker in workers.values():
        worker.answer("ready", 150)
    begin, kept, measured, tsv = time.monotonic(), a.values[:], [], os.path.join(a.out, "sweep.tsv")
    random.Random(7).shuffle(kept)
    for n, (series, length) in enumerate([("kept", v) for v in kept] + [("reset", v) for v in a.values]):
        if time.monotonic() - begin > a.seconds:
            print(f"MISS  no time was left for {2 * len(kept) - n} of {2 * len(kept)} points")
            break
        ask_all(workers, length, series, measured)
        write(tsv, measured)
    for name, worker in workers.items():
        worker.end()
        read_peaks(measured, name, os.path.join(scratch, name + ".db"))
        write(tsv, measured)
        if worker.failed:
            print(f"FAIL  sweep, {name}: {worker.failed}\n{worker.last_words()}", flush=True)
    shutil.rmtree(scratch, ignore_errors=True)
    print(f"{len(kept)} lengths, {a.iterations} iterations each, batch {a.batch}: {time.monotonic() - begin:.0f} s")


# ---- the table ----


def rows(path):
    """series -> length -> allocator -> (allocated, reserved, rate, loss)"""
    found = {}
    for line in open(path):
        name, series, length, allocated, reserved, rate, loss = line.rstrip("\n").split("\t")
        found.setdefault(series, {}).setdefault(int(length), {})[name] = (int(allocated), int(reserved), float(rate), loss)
    return found


def gib(size):
    return f"{size / GIB:8.3f}" if size else " unknown"


def points(of_length, names):
    lines = []
    for length in sorted(of_length):
        by = of_length[length]
        cells = [f"{gib(by[n][0])} {gib(by[n][1])} {by[n][2]:7.2f}" if n in by else " " * 25 for n in names]
        lines.append(f"{length:6} | " + " | ".join(cells))
    return lines


def sums(of_length, names):
    """Reserved over allocated, its greatest and its median; the rate against native's; whether losses are native's."""
    lines = []
    for name in names:
        have = [by for by in of_length.values() if name in by and "native" in by]
        ratios = [by[name][1] / by[name][0] for by in have if by[name][0]]
        rates = [by[name][2] / by["native"][2] for by in have]
        same = sum(by[name][3] == by["native"][3] for by in have)
        greatest = max((by[name][1] for by in have), default=0)
        ratio = f"median {statistics.median(ratios):.4f}, greatest {max(ratios):.4f}" if ratios else "unknown"
        rate = f"{statistics.median(rates):.4f}" if rates else "unknown"
        lines.append(f"{NAMES[name]:28} most reserved {greatest / GIB:8.3f} GiB; reserved/allocated {ratio}; "
                     f"rate against native {rate}; losses equal to native's {same} of {len(have)}")
    return lines


def table(path):
    lines = []
    for series, of_length in rows(path).items():
        names = [n for n in NAMES if any(n in by for by in of_length.values())]
        lines += [f"{series}: allocated GiB, reserved GiB, iterations a second", "length | " + " | ".join(f"{NAMES[n]:25}"[:25] for n in names)]
        lines += points(of_length, names) + sums(of_length, names) + [""]
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tree", nargs="?")
    p.add_argument("out", nargs="?")
    p.add_argument("--values", default=",".join(str(v) for v in range(1, 2002, 100)))
    p.add_argument("--only", default="native,expandable,arena")
    p.add_argument("--iterations", type=int, default=8)
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--seconds", type=float, default=180)
    p.add_argument("--device", default="cuda")
    p.add_argument("--work", action="store_true")
    p.add_argument("--table", metavar="TSV", help="only print the table of an earlier sweep")
    a = p.parse_args()
    a.values = [int(v) for v in a.values.split(",")]
    if a.work:
        return work(a)
    if not a.table:
        sweep(a)
    print(table(a.table or os.path.join(a.out, "sweep.tsv")))


if __name__ == "__main__":
    main()
