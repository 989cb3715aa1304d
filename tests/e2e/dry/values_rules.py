"""values_rules.py: reads what only a GPU computes, and prints what it got; lines are in values_rules.sh."""
import torch

device = "cuda"
scores = torch.nn.Linear(8, 8, device=device)(torch.zeros(16, 8, device=device).normal_()).relu()
loss = scores.sum()

print("loss", loss.item(), torch.isfinite(loss).item(), bool(loss > 0.7), torch.isnan(scores).any().item())
keep = scores > 0.5
print("mask", tuple(scores[keep].shape), keep.sum().item(), (~keep).sum().item())

weights, experts = scores.softmax(-1).topk(2)
hits = torch.nn.functional.one_hot(experts, 8).sum((0, 1))
print("experts", sorted(hits.tolist()), [len(set(row)) for row in experts.tolist()] == [2] * 16)
print("routed", [len(torch.where(experts == expert)[0]) for expert in range(8)] == torch.bincount(experts.flatten(), minlength=8).tolist())

vocabulary = torch.nn.Linear(8, 50000, device=device)(scores[:1])
token = vocabulary.argmax(-1)
print("token", (token == 2).item(), torch.multinomial(vocabulary.softmax(-1), 3).unique().numel())

model = torch.nn.Linear(8, 8, device=device)
optimizer, scaler = torch.optim.SGD(model.parameters(), momentum=0.9), torch.amp.GradScaler("cuda", init_scale=1024.0)
stepped = []
for _ in range(3):
    scaler.scale(model(scores.detach()).sum()).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    stepped.append(len(optimizer.state))
print("scaler", stepped, scaler.get_scale())

turns = 0
while (scores.mean() > 0.7) == (scores.mean() > 0.6):
    turns += 1
print("loop", turns > 100)

places = torch.sparse_coo_tensor(scores.flatten().long()[None], torch.ones(128, device=device), (1000,))
print("coalesced", places.coalesce()._nnz())
torch.sparse.softmax(torch.sparse_coo_tensor(torch.tensor([[0, 1, 2], [0, 1, 0]], device=device), torch.ones(3, device=device), (4, 4)), 1)

others = torch.library.Library("others", "DEF")
others.define("keep(Tensor t) -> Tensor")
others.impl("keep", lambda t: torch.zeros_like(t, dtype=torch.bool).nonzero(), "CUDA")  # a kernel of its own would write between
torch.ops.load_library(next(line.split()[-1] for line in open("/proc/self/maps") if "/libc.so" in line))  # any
print("kept", len(torch.ops.others.keep(scores)))
big = torch.randn(3_000_000, device="cuda")  # more than what is computed: a gradient of a real model
checks = [(torch.isinf(big) | torch.isnan(big)).any(), torch.isfinite(big).all(), torch.isnan(big).sum() == 0, (big != big).any(), torch.isfinite(big)[10:20].all()]
overflow = torch.zeros(1, dtype=torch.bool, device="cuda")
overflow += torch.isinf(big).any()
spoiled = torch.isinf(big)
spoiled[3] = True
print("endless", *[bool(check) for check in checks], overflow.to(torch.uint8).item(), spoiled.any().item())

square = torch.ones(4, 4, device="cuda")
product = torch.zeros(4, 4, device="cuda")
torch.mm(square, square, out=product)
norm = torch.nn.BatchNorm1d(4, device="cuda")
norm(square)
print("written", product.sum().item(), norm.running_mean.sum().item())
best, improved = float("inf"), 0
for _ in range(3):
    error = scores.std().item()
    improved += error < best
    best = min(best, error)
print("improved", improved)
