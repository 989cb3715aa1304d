"""A micro-batch is one CUDA graph, the optimizer's step a second one in the same pool."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Cross(nn.Module):
    """Low-rank crosses of all features with the first ones, and a plain network beside it."""
    def __init__(self, rows, dim, dense, rank, crosses, widths):
        super().__init__()
        self.tables, n = nn.ModuleList(nn.Embedding(r, dim) for r in rows), len(rows) * dim + dense
        self.down, self.up = (nn.ModuleList(nn.Linear(*size) for _ in range(crosses)) for size in ((n, rank), (rank, n)))
        layers, i = [nn.BatchNorm1d(n)], n
        for o in widths:
            layers += [nn.Linear(i, o), nn.ReLU(), nn.Dropout(0.1)]
            i = o
        self.deep, self.out = nn.Sequential(*layers), nn.Linear(n + i, 1)

    def forward(self, numbers, kinds):
        first = torch.cat([numbers] + [table(kinds[:, i]) for i, table in enumerate(self.tables)], 1)
        x = first
        for down, up in zip(self.down, self.up):
            x = first * up(down(x)) + x
        return self.out(torch.cat([x, self.deep(first)], 1)).squeeze(1)


def main():
    a = options(rows=[400_000, 250_000, 90_000, 30_000, 30_000, 12_000, 4000, 900, 120, 24] * 2, dim=48, batch=3000, micros=3, width=1500)
    torch.manual_seed(1033)
    model = Cross(a.rows, a.dim, 13, 256, 3, [a.width, a.width, a.width // 2]).to(a.device)
    cuda = a.device == "cuda"
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=cuda)
    numbers = torch.zeros(a.batch, 13, device=a.device)
    kinds, clicks = torch.zeros(a.batch, len(a.rows), dtype=torch.long, device=a.device), torch.zeros(a.batch, device=a.device)
    total = torch.zeros((), device=a.device)

    def passes():
        with torch.autocast(a.device, dtype=torch.bfloat16, cache_enabled=False):
            guess = model(numbers, kinds)
        loss = F.binary_cross_entropy_with_logits(guess.float(), clicks) / a.micros
        loss.backward()
        total.add_(loss.detach())

    def update():
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    if cuda:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                passes()
                update()
        torch.cuda.current_stream().wait_stream(side)
        graphs = [torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()]
        with torch.cuda.graph(graphs[0]):
            passes()
        with torch.cuda.graph(graphs[1], pool=graphs[0].pool()):
            update()
        passes, update = graphs[0].replay, graphs[1].replay
    limits = torch.tensor(a.rows).float()
    for step in range(5):
        total.zero_()
        for _ in range(a.micros):
            numbers.copy_(torch.rand(a.batch, 13).log1p())
            kinds.copy_((torch.rand(a.batch, len(a.rows)) * limits).long())
            clicks.copy_((torch.rand(a.batch) < 0.2).float())
            passes()
        update()
        print(f"step {step}: logloss {total.item():.4f}")
        memory(step=step)


main()
