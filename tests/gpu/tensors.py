#!/usr/bin/env python3
"""tensors.py train CASE LOG | check CASE NAME DB LOG - what each block was asked for as, against PyTorch's own word. Its memory
history has the bytes of each request, in the order of its allocator's lock, as the recording has.
"""
import gc
import json
import os
import sqlite3
import sys
import warnings

DEVICE = os.environ.get("TENSORS_DEVICE", "cuda")  # cpu: only to try the program


def llama(torch):
    from arena_train import Block

    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(nn.Embedding(8000, 512), *(Block(512, 8, 1536) for _ in range(4)), nn.RMSNorm(512), nn.Linear(512, 8000, bias=False))
    model = model.to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(i):
        tokens = torch.randint(0, 8000, (4, 128 + 64 * (i % 3)), device=DEVICE)
        loss = F.cross_entropy(model(tokens).float().flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=i % 2 == 0)
    return model, step


def cnn(torch):
    nn, F = torch.nn, torch.nn.functional
    layers, width = [], 3
    for out in (32, 64, 128):
        layers += [nn.Conv2d(width, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        width = out
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)).to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)

    def step(i):
        x = torch.randn(16, 3, 64, 64, device=DEVICE).to(memory_format=torch.channels_last)
        with torch.autocast(DEVICE, torch.float16 if DEVICE == "cuda" else torch.bfloat16):
            scores = model(x)
        F.cross_entropy(scores.float(), torch.randint(0, 1000, (16,), device=DEVICE)).backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.sort(torch.randn(100000, device=DEVICE))  # temporaries of CUB: raw
        torch.randn(1000, device=DEVICE).nonzero()
        out = torch.empty(0, device=DEVICE)
        torch.add(torch.ones(300, 7, device=DEVICE), 1, out=out)  # resizes a storage
        torch.randn(40, device=DEVICE).to(torch.complex64).angle()
    return model, step


def graph(torch):
    model, eager = llama(torch)
    eager(0)
    eager(1)
    if DEVICE == "cpu":
        return model, eager
    tokens = torch.randint(0, 8000, (2, 128), device=DEVICE)
    captured = torch.cuda.CUDAGraph()
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(tokens)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(captured):
            kept = model(tokens)

    def step(i, tokens=tokens):  # the graph reads them at each replay
        captured.replay()
        return kept.sum().item()
    return model, step


def out_of_memory(torch):
    """A request that is refused, and one after it that is not: the note of the first is nobody's."""
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(total, 2, dtype=torch.float16, device=DEVICE)
    except torch.OutOfMemoryError:
        return [total, 2]
    raise SystemExit("nothing was refused")


def history(torch):
    """Blocks in order: address, bytes requested; and those that live, by address: bytes requested, bytes held."""
    snapshot = torch.cuda.memory._snapshot()
    made = [[e["addr"], e["size"]] for e in snapshot["device_traces"][0] if e["action"] == "alloc"]
    live = {b["address"]: [b["requested_size"], b["size"]] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"}
    return made, live


def alive(torch, model):
    """Of each storage on the device one tensor that is all of it: address, bytes, element type, shape, and whether the shape
    is that of its birth: parameters' and buffers' are; a gradient may be made transposed."""
    own = {id(t) for t in list(model.parameters()) + list(model.buffers())}
    found = {}
    warnings.simplefilter("ignore")  # of what isinstance touches
    for t in gc.get_objects() + [p.grad for p in model.parameters() if p.grad is not None]:
        if not isinstance(t, torch.Tensor) or t.device.type != DEVICE or not t.numel() or t.layout != torch.strided:
            continue
        storage = t.untyped_storage()
        if storage.nbytes() != t.numel() * t.element_size():
            continue
        known = found.get(storage.data_ptr())
        if known is None or id(t) in own:
            found[storage.data_ptr()] = [storage.nbytes(), str(t.dtype).removeprefix("torch."), str(list(t.shape)), id(t) in own]
    return found


def train(case, log):
    import torch
    gpu = DEVICE == "cuda" and not os.environ.get("TENSORS_PLUGGED")
    if gpu:
        torch.cuda.memory._record_memory_history(context=None, max_entries=1 << 22)
    torch.manual_seed(1)
    model, step = {"llama": llama, "cnn": cnn, "graph": graph}[case](torch)
    for i in range(6):
        step(i)
    refused = out_of_memory(torch) if gpu else None
    keep = torch.empty(3, 5, 7, dtype=torch.bfloat16, device=DEVICE)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    tensors = alive(torch, model)
    made, live = history(torch) if gpu else ([], {})
    with open(log, "w") as f:
        json.dump({"made": made, "live": live, "tensors": tensors, "refused": refused, "version": torch.__version__, "keep": keep.data_ptr()}, f)


def check(case, name, path, log):
    db, said, failed = sqlite3.connect(path), json.load(open(log)), []

    def claim(good, text):
        print(f"{'PASS' if good else 'FAIL'} {name}: {text}")
        if not good:
            failed.append(text)

    blocks = db.execute("SELECT address, size_bytes, made_for, request_bytes, element_type, shape, line FROM allocation WHERE op = 'block_alloc' ORDER BY alloc_seq").fetchall()
    kinds = {}
    for b in blocks:
        kinds[b[2]] = kinds.get(b[2], 0) + 1
    print(f"     {name}: torch {said['version']}, {len(blocks)} blocks: " + ", ".join(f"{n} {k or 'not known'}" for k, n in sorted(kinds.items(), key=lambda x: -x[1])))
    claim(not kinds.get(None), "what every block was asked for as is known")
    if said["made"]:
        claim([b[0] for b in blocks] == [m[0] for m in said["made"]], f"the blocks are those of PyTorch's history ({len(said['made'])})")
        wrong = [(b, m) for b, m in zip(blocks, said["made"]) if b[2] in ("tensor", "storage") and (b[0], b[3]) != tuple(m)]
        claim(not wrong, f"the request of each tensor and storage is PyTorch's ({len(wrong)} are not: {wrong[:2]})")
        raw = [(m[1], b[6]) for b, m in zip(blocks, said["made"]) if b[2] == "raw"]
        print(f"     {name}: raw, the largest: {sorted(set(raw), reverse=True, key=lambda r: r[0])[:4]}")
    # The program looked when its last block had just been made; at its end it gives all of them back.
    (last,) = db.execute("SELECT max(alloc_seq) FROM allocation WHERE op = 'block_alloc'").fetchone()
    living = {b[0]: b for b in db.execute("SELECT address, size_bytes, made_for, request_bytes, element_type, shape FROM allocation"
                                          " WHERE op = 'block_alloc' AND (free_seq IS NULL OR free_seq > ?)", (last,))}
    wrong, shapes, types = [], [], []
    seen = 0
    for address, (nbytes, dtype, shape, own) in said["tensors"].items():
        b = living.get(int(address))
        if b is None:
            wrong.append((address, "no such block"))
            continue
        seen += 1
        if b[2] in ("tensor", "storage") and b[3] != nbytes:
            wrong.append((b, nbytes))
        if b[2] == "tensor" and b[4] != dtype:
            types.append((b, dtype))
        if own and b[2:6:3] != ("tensor", shape):
            shapes.append((b, shape))
    claim(seen >= 20 and not wrong, f"{seen} tensors alive have the bytes that were requested ({wrong[:2]})")
    claim(seen >= 20 and not types, f"and their element types ({types[:2]})")
    claim(seen >= 20 and not shapes, f"parameters and buffers their shapes ({shapes[:2]})")
    keep = living.get(said["keep"])
    claim(keep and keep[2:] == ("tensor", 210, "bfloat16", "[3, 5, 7]"), f"the tensor after the refused one has a note of its own ({keep})")
    if said["refused"]:
        rows = db.execute("SELECT made_for, element_type, shape FROM oom JOIN tensor_text t ON t.id = oom.tensor").fetchall()
        claim(("tensor", "float16", str(said["refused"])) in rows, f"the refused tensor is named ({rows})")
    events = db.execute("SELECT count(*) FROM ev").fetchone()[0]
    print(f"     {name}: {os.path.getsize(path) / events:.1f} bytes an event of {events}, {db.execute('SELECT count(*) FROM tensor').fetchone()[0]} different tensors")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(train(*sys.argv[2:]) if sys.argv[1] == "train" else check(*sys.argv[2:]))
