"""An encoder that drops tokens by a learned score and stops for rows that are sure; fp16 with a scaler that begins too high."""
import argparse
import json
import torch
import torch.nn as nn
import torch.nn.functional as F

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=640)
p.add_argument("--layers", type=int, default=8)
p.add_argument("--batch", type=int, default=40)
p.add_argument("--seq", type=int, default=160)
a = p.parse_args()
torch.manual_seed(88)


class Exit(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(w, 10, 4 * w, 0.1, "gelu", batch_first=True, norm_first=True)
        self.sure, self.out = nn.Linear(w, 1), nn.Linear(w, 5)


stem = nn.Embedding(30_000, a.width)
exits = nn.ModuleList(Exit(a.width) for _ in range(a.layers))
model = nn.ModuleList([stem, exits]).to(a.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler(a.device, init_scale=2.0 ** 22, enabled=a.device == "cuda")
for step in range(5):
    ids, y = torch.randint(0, 30_000, (a.batch, a.seq)).to(a.device), torch.randint(0, 5, (a.batch,)).to(a.device)
    total = 0.0
    with torch.autocast(a.device, dtype=torch.float16 if a.device == "cuda" else torch.bfloat16):
        x = stem(ids)
        for e in exits:
            x = e.layer(x)
            total = total + F.cross_entropy(e.out(x.mean(1)), y)
            stay = e.sure(x.mean(1)).squeeze(1).sigmoid() < 0.6
            x, y = x[stay], y[stay]
            if len(y) == 0:
                break
    optimizer.zero_grad()
    scaler.scale(total).backward()
    scaler.step(optimizer)
    scaler.update()
    print("left at the end:", len(y), "scale:", scaler.get_scale())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
