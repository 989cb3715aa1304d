"""A large graph by samples: neighbours drawn on the host, gathered by layer."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Sage(nn.Module):
    def __init__(self, i, o, how):
        super().__init__()
        self.own, self.others, self.how = nn.Linear(i, o), nn.Linear(i, o, bias=False), how
        self.before = nn.Linear(i, i) if how == "max" else None

    def forward(self, x, count, source, target):
        if self.how == "max":
            values = F.relu(self.before(x))[source]
            index = target[:, None].expand_as(values)
            gathered = torch.zeros(count, values.shape[1], device=x.device).scatter_reduce(0, index, values, "amax", include_self=True)
        else:
            gathered = torch.zeros(count, x.shape[1], device=x.device).index_add(0, target, x[source])
            gathered = gathered / torch.bincount(target, minlength=count).clamp(min=1)[:, None]
        return self.own(x[:count]) + self.others(gathered)


class Net(nn.Module):
    def __init__(self, sizes, how):
        super().__init__()
        self.layers = nn.ModuleList(Sage(i, o, how) for i, o in zip(sizes, sizes[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm1d(o) for o in sizes[1:-1])

    def forward(self, x, blocks):
        for k, (layer, (count, source, target)) in enumerate(zip(self.layers, blocks)):
            x = layer(x, count, source, target)
            if k < len(self.norms):
                x = F.dropout(F.relu(self.norms[k](x)), 0.5, self.training)
        return x


def sample(seeds, starts, neighbours, fans):
    """Blocks from the outermost to the seeds; in each, the first nodes are those of the next one."""
    nodes, blocks = seeds, []
    for fan in fans:
        degree = starts[nodes + 1] - starts[nodes]
        chosen = neighbours[starts[nodes][:, None] + (torch.rand(len(nodes), fan) * degree[:, None]).long()].flatten()
        fresh = torch.unique(chosen)
        fresh = fresh[~torch.isin(fresh, nodes)]
        everything = torch.cat([nodes, fresh])
        order = everything.argsort()
        source = order[torch.searchsorted(everything[order], chosen)]
        blocks.insert(0, (len(nodes), source, torch.arange(len(nodes)).repeat_interleave(fan)))
        nodes = everything
    return nodes, blocks


def main():
    a = options(aggregate="mean", nodes=200_000, features=300, hidden=384, classes=47, seeds=1500, fans=[5, 8, 12])
    torch.manual_seed(1043)
    degrees = (torch.rand(a.nodes).pow(3) * 60).long() + 1
    starts = F.pad(degrees.cumsum(0), (1, 0))
    neighbours, features, labels = torch.randint(0, a.nodes, (int(starts[-1]),)), torch.randn(a.nodes, a.features), torch.randint(0, a.classes, (a.nodes,))
    model = Net([a.features] + [a.hidden] * (len(a.fans) - 1) + [a.classes], a.aggregate).to(a.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=5e-4)
    order = torch.randperm(a.nodes)
    for step in range(5):
        seeds = order[step * a.seeds:(step + 1) * a.seeds]
        nodes, blocks = sample(seeds, starts, neighbours, a.fans)
        x = features[nodes].to(a.device)
        blocks = [(count, source.to(a.device), target.to(a.device)) for count, source, target in blocks]
        loss = F.cross_entropy(model(x, blocks), labels[seeds].to(a.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"Batch {step} nodes {len(nodes)} loss {loss.item():.4f}")
        memory(step=step)


main()
