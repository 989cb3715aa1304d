"""A residual network of plain layers in fp16 whose GradScaler begins far too high, so that the first updates are left out."""
import argparse
import json
import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=3000)
p.add_argument("--depth", type=int, default=8)
p.add_argument("--batch", type=int, default=4096)
a = p.parse_args()
torch.manual_seed(173)


class Residual(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(w), nn.Linear(w, w), nn.GELU(), nn.Dropout(0.1), nn.Linear(w, w))

    def forward(self, x):
        return x + self.body(x)


model = nn.Sequential(nn.Linear(211, a.width), *(Residual(a.width) for _ in range(a.depth)), nn.LayerNorm(a.width), nn.Linear(a.width, 1)).to(a.device)
optimizer = torch.optim.RAdam(model.parameters(), lr=1e-3, weight_decay=1e-5)
scaler = torch.amp.GradScaler(a.device, init_scale=2.0 ** 40, backoff_factor=2.0 ** -10)
for step in range(5):
    x, y = torch.randn(a.batch, 211).to(a.device), torch.randn(a.batch).to(a.device)
    with torch.autocast(a.device, dtype=torch.float16):
        loss = nn.functional.smooth_l1_loss(model(x).squeeze(1).float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(step, loss.item(), scaler.get_scale())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
