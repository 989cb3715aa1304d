"""A recommender: large embedding bags with sparse gradients, dense towers, two optimizers, feature crosses, a negative sampled by the host."""
import argparse
import json

import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--rows", type=int, nargs="+", default=[900_001, 300_000, 77_777, 1001, 13])
p.add_argument("--dim", type=int, default=48)
p.add_argument("--batch", type=int, default=12_345)
p.add_argument("--bag", type=int, default=9)
a = p.parse_args()


class Model(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(n, dim, mode="sum", sparse=True) for n in rows)
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, dim), nn.ReLU())
        pairs = (len(rows) + 1) * len(rows) // 2
        self.top = nn.Sequential(nn.Linear(dim + pairs, 1024), nn.ReLU(), nn.Dropout(0.1), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense, sparse):
        d = self.bottom(dense)
        all_ = torch.stack([d] + [bag(ids, offsets) for bag, (ids, offsets) in zip(self.bags, sparse)], 1)
        cross = all_ @ all_.transpose(1, 2)
        i, j = torch.tril_indices(all_.shape[1], all_.shape[1], -1, device=d.device)
        return self.top(torch.cat([d, cross[:, i, j]], 1)).squeeze(1)


torch.manual_seed(123)
model = Model(a.rows, a.dim).to(a.device)
sparse_optimizer = torch.optim.SparseAdam(list(model.bags.parameters()), lr=1e-3)
dense_optimizer = torch.optim.Adagrad(list(model.bottom.parameters()) + list(model.top.parameters()), lr=1e-2)
for step in range(4):
    sparse = []
    for n in a.rows:
        lengths = torch.randint(0, a.bag + 1, (a.batch,))
        sparse.append((torch.randint(0, n, (int(lengths.sum()),)).to(a.device), (lengths.cumsum(0) - lengths).to(a.device)))
    click = (torch.rand(a.batch) < 0.03).float().to(a.device)
    loss = nn.functional.binary_cross_entropy_with_logits(model(torch.rand(a.batch, 13).to(a.device), sparse), click)
    sparse_optimizer.zero_grad()
    dense_optimizer.zero_grad()
    loss.backward()
    sparse_optimizer.step()
    dense_optimizer.step()
    print("logloss", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
