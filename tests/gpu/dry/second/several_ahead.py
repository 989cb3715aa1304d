"""A decoder that predicts several tokens ahead, with a head for each; products are kept, all else is recomputed (selective checkpointing)."""
import argparse
import functools
import json
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

ops = torch.ops.aten
KEPT = {ops.mm.default, ops.addmm.default, ops._scaled_dot_product_flash_attention.default, ops._scaled_dot_product_efficient_attention.default}


def policy(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


class Block(nn.Module):
    def __init__(self, w, heads):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(w), nn.LayerNorm(w)
        self.qkv, self.o, self.up, self.down = nn.Linear(w, 3 * w), nn.Linear(w, w), nn.Linear(w, 4 * w), nn.Linear(4 * w, w)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.relu(self.up(self.n2(x))).square())


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--w", type=int, default=1024)
p.add_argument("--depth", type=int, default=10)
p.add_argument("--ahead", type=int, default=3)
p.add_argument("--vocab", type=int, default=32_000)
p.add_argument("--batch", type=int, default=7)
p.add_argument("--length", type=int, default=600)
a = p.parse_args()
torch.manual_seed(13)
with torch.device("meta"):
    model = nn.ModuleDict({"embed": nn.Embedding(a.vocab, a.w), "trunk": nn.ModuleList(Block(a.w, 16) for _ in range(a.depth)),
                           "heads": nn.ModuleList(Block(a.w, 16) for _ in range(a.ahead)), "out": nn.Linear(a.w, a.vocab, bias=False)})
model.to_empty(device=a.device)
for module in model.modules():
    if hasattr(module, "reset_parameters"):
        module.reset_parameters()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
contexts = functools.partial(create_selective_checkpoint_contexts, policy)
for step in range(3):
    tokens = torch.randint(0, a.vocab, (a.batch, a.length + a.ahead)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        h = model["embed"](tokens[:, :a.length])
        for block in model["trunk"]:
            h = checkpoint(block, h, use_reentrant=False, context_fn=contexts)
    top, total = h.detach().requires_grad_(), 0.0
    for i, head in enumerate(model["heads"]):  # one head's logits at a time
        with torch.autocast(a.device, dtype=torch.bfloat16):
            loss = F.cross_entropy(model["out"](head(top)).flatten(0, 1), tokens[:, i + 1:i + 1 + a.length].flatten())
        loss.backward()
        total += loss.item()
    h.backward(top.grad)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, total)
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
