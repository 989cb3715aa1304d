"""roles.py train CASE STEPS FACTS [--cpu] | check CASE DB FACTS [LEAST] - what blocks are for, by their accesses, against PyTorch
(parameters, gradients, optimizer states, buffers) and saved_tensors_hooks (activations). 1 where a role agrees for less than LEAST
(0.99) of the bytes at the peak. accumulate: four batches a step.
"""
import collections
import json
import os
import sqlite3
import sys
import time

ROLES = ("parameter", "gradient", "optimizer state", "buffer", "activation", "input")
UNTOLD = ("buffer", "input")  # accesses cannot tell a buffer from a frozen parameter, nor what a kernel of the program's made as its input


def decoder(torch, hidden, layers, recompute):
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.attn = nn.MultiheadAttention(hidden, max(1, hidden // 64), batch_first=True)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            y = self.norm1(x)
            x = x + self.attn(y, y, y, need_weights=False)[0]
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(8192, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.lm_head = nn.Linear(hidden, 8192, bias=False)
            self.register_buffer("scale", torch.ones(hidden, hidden))

        def forward(self, ids):
            x = self.tokens(ids) @ self.scale
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if recompute else block(x)
            return self.lm_head(x)

    return Decoder()


def cnn(torch):
    from torch import nn

    widths = (3, 64, 128, 256, 256)
    layers = [m for a, b in zip(widths, widths[1:])
              for m in (nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(256 * 16, 1000))


def make(torch, case, device, small):
    hidden, layers, batch, context = (64, 2, 2, 32) if small else (1024, 8, 4, 512)
    if case == "llama":
        import transformers

        config = transformers.LlamaConfig(vocab_size=8192, hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=layers,
                                          num_attention_heads=max(1, hidden // 64), num_key_value_heads=max(1, hidden // 64))
        model = transformers.LlamaForCausalLM(config).to(device)
        return model, lambda ids: model(input_ids=ids, labels=ids).loss, (batch, context)
    if case == "cnn":
        model = cnn(torch).to(device)
        return model, lambda x: torch.nn.functional.cross_entropy(model(x), torch.zeros(len(x), dtype=torch.long, device=device)), (batch * 16, 3, 64, 64)
    model = decoder(torch, hidden, layers, case == "checkpoint").to(device)

    def loss(ids):
        logits = model(ids)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())

    return model, loss, (batch, context)


def train(case, steps, facts, cpu):
    import torch

    device, rank = "cpu" if cpu else "cuda", int(os.environ.get("RANK", "0"))
    if case == "fsdp":
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard

        if not cpu:
            torch.cuda.set_device(rank)
        dist.init_process_group("gloo" if cpu else "nccl")
    if cpu:
        import ctypes

        torch.set_num_threads(1)
        driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        assert driver.cuInit(0) == driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == driver.cuCtxSetCurrent(context) == 0
    model, loss_of, shape = make(torch, case, device, cpu)
    if case == "fsdp":
        mesh = dist.device_mesh.init_device_mesh(device, (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    # a sharded parameter has no storage of its own, but that of this rank's shard
    shards = (p.to_local() if hasattr(p, "to_local") else p for p in model.parameters())
    parameters, saved, made = {shard.untyped_storage().data_ptr() for shard in shards}, [], 0

    def pack(tensor):
        address = tensor.untyped_storage().data_ptr() if type(tensor) is torch.Tensor else 0
        if address and address not in parameters:
            saved.append((address, time.monotonic_ns(), "input" if address == made else "activation"))
        return tensor

    for _ in range(steps):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            for _ in range(4 if case == "accumulate" else 1):
                x = torch.randn(shape, device=device) if case == "cnn" else torch.randint(0, 8192, shape, device=device)
                made = x.untyped_storage().data_ptr()
                loss_of(x).backward()
        optimizer.step()
        optimizer.zero_grad()
    if not cpu:
        torch.cuda.synchronize()
    with open(facts if case != "fsdp" else f"{facts}.{rank}", "w") as f:
        json.dump(saved, f)
    if case == "fsdp":
        dist.destroy_process_group()


def activations(db, saved):
    """Blocks that autograd saved, and whether each is the program's input: those that lived at each address when it was."""
    start = db.execute("SELECT value FROM meta WHERE key = 'start_monotonic_ns' AND process = 1").fetchone()[0]
    at = collections.defaultdict(list)
    for seq, address, born, freed in db.execute("SELECT alloc_seq, address, t_alloc_ns, t_free_ns FROM allocation WHERE op = 'block_alloc'"):
        at[address].append((born, freed, seq))
    return {seq: role for address, t, role in saved for born, freed, seq in at[address] if born <= t - int(start) and (freed is None or freed >= t - int(start))}


def check(case, path, facts, least):
    db = sqlite3.connect(path)
    with open(facts) as f:
        seen = activations(db, json.load(f))
    table, wrong, alone, called = collections.Counter(), collections.Counter(), 0, 0
    for seq, size, line in db.execute("SELECT alloc_seq, size_bytes, line FROM live_at_peak WHERE category = 'framework block'").fetchall():
        told = (db.execute("SELECT role FROM framework_says WHERE alloc_seq = ?", (seq,)).fetchone() or (None,))[0]
        found = (db.execute("SELECT role FROM access_role WHERE alloc_seq = ?", (seq,)).fetchone() or (None,))[0]
        called += size if found == "activation" else 0
        told = told or seen.get(seq)
        if told is None:
            alone += size
            continue
        same = found == told or (told == "activation" and found in ("output", "input", "recomputed activation"))  # saved, and more precisely called
        table[told, same] += size
        if not same:
            wrong[told, found, line] += size
    peak = db.execute("SELECT sum(size_bytes) FROM live_at_peak").fetchone()[0]
    bad = 0
    print(f"-- {case}: {peak} bytes at the peak, {alone} without a witness")
    for role in ROLES:
        agree, all_ = table[role, True], table[role, True] + table[role, False]
        if all_:
            told, good = role not in UNTOLD, agree >= least * all_
            bad += told and not good
            print(f"{('PASS' if good else 'FAIL') if told else 'NOTE'} {case} {role}: {agree / all_:.2%} of {all_} bytes")
    for (told, found, line), size in wrong.most_common(6):
        print(f"     {size} bytes of {told} are called {found}: {line}")
    if called and not table["activation", True] + table["activation", False]:
        print(f"FAIL {case}: {called} bytes are called activations, and none has a witness")
        bad += 1
    if not sum(table.values()):
        print(f"FAIL {case}: no witnessed bytes")
        bad += 1
    return bad > 0


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(sys.argv[2], int(sys.argv[3]), sys.argv[4], "--cpu" in sys.argv)
    else:
        sys.exit(check(*sys.argv[2:5], float(sys.argv[5]) if len(sys.argv) > 5 else 0.99))
