#!/usr/bin/env python3
"""checkpoint_lives.py BUILD MODEL... - measures why `whatif --edit=checkpoint` gives wide intervals of reserved.

Two things are not in a recording of a GPU: the requests of raw blocks (workspaces, which are no tensors), of which the native allocator reports rounded sizes
alone; and how long what a checkpoint no longer saves lives in the first forward.  This gives `whatif` the first, to see what it changes:

    record     MODEL trains on the CPU, as it is and with checkpoints; a preloaded library reports its tensors as blocks (cpu_blocks.c)
    enlarge    each recording is copied as if from a GPU: tensors with a batch get GROWTH times as large, workspaces of convolutions 0.6 to 2 times that, and
               each block has the place that PyTorch's native allocator would give it (class Allocator)
    compare    whatif's interval, once of a copy without the requests of raw blocks and once of one with them, and what the program with checkpoints reserves:
               a replay of its own requests, which are all known

MODEL: cnn, densenet, mobilenet or efficientnet2 (tests/gpu/predictions_model.py).  BUILD: a build folder.  TEST_PYTHON: a Python with PyTorch and torchvision.
This is no test: it takes some minutes a model.
"""
import bisect
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
SAMPLES, STEPS = 4, 4
SIDES = {"densenet": 96, "efficientnet2": 96}  # of an image; else 64
GROWTHS = (12, 16, 24, 32, 40, 64, 100)
EDITS = ("checkpoint=1", "checkpoint=2")
POLICIES = ("torch-native", "torch-expandable")


# ---- the program ----

def train(model, edit, log):
    """Trains MODEL; the file LOG gets address, time, element type and shape of each tensor that an operation returned."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten

    sys.path.insert(0, os.path.join(HERE, "..", "gpu"))
    import predictions_model

    rows = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for t in tree_flatten(out)[0]:
                if isinstance(t, torch.Tensor) and t.layout == torch.strided and t.untyped_storage().nbytes() >= 1024:
                    rows.append((t.untyped_storage().data_ptr(), time.time_ns(), str(t.dtype)[6:], list(t.shape)))
            return out

    torch.manual_seed(1)
    net, side = predictions_model.vision(model)[0], SIDES.get(model, 64)
    net.train()
    if edit:
        predictions_model.recompute(predictions_model.layers_of(net, model), int(edit.partition("=")[2]))
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
    with Log():
        for _ in range(STEPS):
            x, y = torch.randn(SAMPLES, 3, side, side), torch.randint(1000, (SAMPLES,))
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            del loss
            optimizer.step()
            optimizer.zero_grad()
    with open(log, "w") as f:
        json.dump(rows, f)


# ---- PyTorch's native allocator ----

class Allocator:
    """Which block a request gets: the smallest free one of its pool that is large enough, else one of a new segment; what is left of it is split off."""

    def __init__(self):
        self.free_blocks, self.end = [], 1 << 44  # (small pool?, size, address), sorted; where the next segment begins
        self.size, self.is_free, self.small, self.before, self.after = {}, {}, {}, {}, {}

    def place(self, address, size, small, before, after):
        self.size[address], self.is_free[address], self.small[address] = size, False, small
        self.before[address], self.after[address] = before, after

    def malloc(self, request):
        size = max(512, -(-request // 512) * 512)
        small = size <= MIB
        i = bisect.bisect_left(self.free_blocks, (small, size, 0))
        if i < len(self.free_blocks) and self.free_blocks[i][0] == small:
            address = self.free_blocks.pop(i)[2]
        else:
            address, segment = self.end, 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            self.end += segment + 64 * MIB
            self.place(address, segment, small, None, None)
        rest = self.size[address] - size
        if rest >= 512 if small else rest > MIB:
            self.place(address + size, rest, small, address, self.after[address])
            if self.after[address]:
                self.before[self.after[address]] = address + size
            self.size[address], self.after[address] = size, address + size
            self.put(address + size)
        self.is_free[address] = False
        return address, self.size[address]

    def put(self, address):
        self.is_free[address] = True
        bisect.insort(self.free_blocks, (self.small[address], self.size[address], address))

    def merge(self, first, second):
        self.size[first] += self.size.pop(second)
        self.after[first] = self.after[second]
        if self.after[first]:
            self.before[self.after[first]] = first

    def free(self, address):
        before, after = self.before[address], self.after[address]
        for other in (before, after):
            if other and self.is_free[other]:
                self.free_blocks.remove((self.small[other], self.size[other], other))
        if after and self.is_free[after]:
            self.merge(address, after)
        if before and self.is_free[before]:
            self.merge(before, address)
            address = before
        self.put(address)


# ---- from a recording of the CPU to one as of a GPU ----

def tensors_of(db, log):
    """Element type and shape of each block that is a tensor's, by the block's event: the last one at the tensor's address before its operation returned."""
    start, = db.execute("SELECT start_realtime_ns FROM process").fetchone()
    births, known = {}, {}
    for seq, t, address in db.execute("SELECT seq, t_ns, address FROM event WHERE op = 'block_alloc' ORDER BY seq"):
        births.setdefault(address, []).append((t, seq))
    with open(log) as f:
        for address, t, dtype, shape in json.load(f):
            of = births.get(address, [])
            i = bisect.bisect(of, (t - start, 1 << 62)) - 1
            if i >= 0:
                known.setdefault(of[i][1], (dtype, shape))
    return known


def raw_request(size, phase, layer, growth):
    """The request of a raw block once data are GROWTH times as large; a convolution's workspace gets another factor, by its size, and ends within a block."""
    if phase not in ("forward", "backward") or not layer or size < 4096:
        return size
    if "conv" not in layer:
        return size * growth
    n = int(hashlib.md5(str(size).encode()).hexdigest(), 16)
    return int(size * growth * (0.6 + 1.4 * (n % 1000) / 1000)) // 64 * 64 + n % 8 * 16


def as_on_a_gpu(path, log, out, growth, requests):
    """Copies the recording PATH to OUT, enlarged; with REQUESTS it has those of raw blocks, too."""
    shutil.copy(path, out)
    db, allocator, living, allocated, tensors, made = sqlite3.connect(out), Allocator(), {}, 0, {}, {}
    known = tensors_of(db, log)
    types = dict(db.execute("SELECT name, id FROM element_type"))
    kinds = {row[0]: row[1:] for row in db.execute("SELECT * FROM kind")}
    layers = dict(db.execute("SELECT alloc_seq, layer FROM allocation WHERE op = 'block_alloc'"))
    db.execute("DELETE FROM tensor")
    for seq, op, kind, mate, size, phase in db.execute(
            "SELECT e.seq, e.op, e.kind, e.mate, v.size_bytes, p.name FROM ev e JOIN event v ON v.seq = e.seq LEFT JOIN phase p ON p.id = e.phase "
            "WHERE e.op IN (20, 21) ORDER BY e.seq").fetchall():
        if op == 21 and mate not in living:
            continue
        if op == 21:
            address, bytes_ = living.pop(mate)
            allocator.free(address)
            allocated -= bytes_
        else:
            if seq in known:
                dtype, shape = known[seq]
                data = bool(shape) and shape[0] == SAMPLES
                request = size * growth if data else size
                asked = 1, types[dtype], request, str([shape[0] * growth] + shape[1:] if data else shape).replace(" ", "")
            else:
                request = raw_request(size, phase, layers.get(seq), growth)
                asked = 3, None, request if requests else None, None
            address, bytes_ = living[seq] = allocator.malloc(request)
            allocated += bytes_
            if asked not in tensors:
                tensors[asked] = len(tensors) + 1
                db.execute("INSERT INTO tensor VALUES (?, ?, ?, ?, ?)", (tensors[asked], *asked))
            if (kind, asked) not in made:
                made[kind, asked] = max(kinds) + len(made) + 1
                db.execute("INSERT INTO kind VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (made[kind, asked], *kinds[kind][:-1], tensors[asked]))
            db.execute("UPDATE ev SET kind = ? WHERE seq = ?", (made[kind, asked], seq))
        db.execute("UPDATE ev SET address = ?, size = ?, framework = ? WHERE seq = ?", (address // 512, bytes_ // 512, allocated // 512, seq))
    db.commit()
    db.close()


# ---- figures ----

def reserved(vramscope, db, edit, policy):
    """Both ends of what whatif says of EDIT; without EDIT of the program as it is, which the answer to any edit has, too."""
    said = subprocess.run([vramscope, "whatif", "--json", "--policy=" + policy, "--edit=" + (edit or "foreach=no"), db], capture_output=True, text=True, check=True)
    row = next(r for r in json.loads(said.stdout)["devices"][0]["edits"] if bool(r["edit"]) == bool(edit))
    return next((p["reserved_low_bytes"], p["reserved_high_bytes"]) for p in row["policies"] if p["policy"] == policy)


def record(vramscope, model, edit, name):
    subprocess.run([vramscope, "run", "--simulated", "-q", "-o", name + ".db", "--", os.environ.get("TEST_PYTHON", "python3"), os.path.join(HERE, "checkpoint_lives.py"), "--train", model, edit,
                    name + ".json"], check=True, capture_output=True, env=dict(os.environ, LD_PRELOAD=os.path.abspath("cpu_blocks.so")))


def compare(vramscope, model, figures):
    names = {edit: f"{model}-{edit}" for edit in ("", *EDITS)}
    for edit, name in names.items():
        record(vramscope, model, edit, name)
    for growth in GROWTHS:
        for lacks in (True, False):
            as_on_a_gpu(names[""] + ".db", names[""] + ".json", f"base-{lacks}.db", growth, not lacks)
        for edit in EDITS:
            as_on_a_gpu(names[edit] + ".db", names[edit] + ".json", "changed.db", growth, True)
            for policy in POLICIES:
                true, _ = reserved(vramscope, "changed.db", "", policy)
                text = f"{model}, data {growth} times, {edit}, {policy}: {true / MIB:.0f} MiB"
                for lacks, name in (True, "requests missing"), (False, "all requests"):
                    low, high = reserved(vramscope, f"base-{lacks}.db", edit, policy)
                    beside = max(low - true, true - high, 0)
                    figures.setdefault((policy, name), []).append((100 * (high - low) / true, 100 * beside / true))
                    text += f"; {name}: {low / MIB:.0f} to {high / MIB:.0f}, {100 * (high - low) / true:.1f} % wide{', beside' if beside else ''}"
                print(text, flush=True)


def main(build, *models):
    vramscope, figures = os.path.abspath(os.path.join(build, "bin", "vramscope")), {}
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", "cpu_blocks.so", os.path.join(HERE, "..", "e2e", "frameworks", "cpu_blocks.c")], check=True)
        for model in models:
            compare(vramscope, model, figures)
    for (policy, name), of in figures.items():
        widths, beside = [w for w, _ in of], [b for _, b in of]
        print(f"{policy}, {name}: {len(of)} intervals, {sum(widths) / len(of):.1f} % wide in the mean and {max(widths):.1f} at most, {sum(w > 10 for w in widths)} of more than 10; "
              f"{sum(b > 0 for b in beside)} beside, by {max(beside):.1f} % at most")


if __name__ == "__main__":
    if sys.argv[1] == "--train":
        train(*sys.argv[2:5])
    else:
        main(*sys.argv[1:])
