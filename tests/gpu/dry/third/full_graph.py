"""A graph network on a whole graph: a sparse matrix times features."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Layer(nn.Module):
    def __init__(self, d, strength, drop):
        super().__init__()
        self.weight, self.strength, self.drop = nn.Linear(d, d, bias=False), strength, drop

    def forward(self, x, first, adjacency):
        x = F.dropout(x, self.drop, self.training)
        mixed = 0.9 * torch.sparse.mm(adjacency, x) + 0.1 * first
        return F.relu((1 - self.strength) * mixed + self.strength * self.weight(mixed))


class Net(nn.Module):
    def __init__(self, i, d, layers, classes):
        super().__init__()
        self.into, self.out = nn.Linear(i, d), nn.Linear(d, classes)
        self.layers = nn.ModuleList(Layer(d, 0.5 / (k + 1), 0.4) for k in range(layers))

    def forward(self, x, adjacency):
        x = first = F.relu(self.into(F.dropout(x, 0.4, self.training)))
        for layer in self.layers:
            x = layer(x, first, adjacency)
        return self.out(x)


def normalized(nodes, edges):
    """Both directions and every node with itself, each edge weighed by its ends' degrees."""
    pairs = torch.randint(0, nodes, (2, edges))
    loops = torch.arange(nodes).expand(2, -1)
    pairs = torch.cat([pairs, pairs.flip(0), loops], 1)
    keys = torch.unique(pairs[0] * nodes + pairs[1])
    pairs = torch.stack([keys // nodes, keys % nodes])
    degrees = torch.bincount(pairs[0], minlength=nodes).float().rsqrt()
    return torch.sparse_coo_tensor(pairs, degrees[pairs[0]] * degrees[pairs[1]], (nodes, nodes)).coalesce()


def main():
    a = options(nodes=90_000, edges=600_000, features=128, d=256, layers=6, classes=40)
    torch.manual_seed(1044)
    adjacency = normalized(a.nodes, a.edges).to(a.device)
    x, y = torch.randn(a.nodes, a.features).to(a.device), torch.randint(0, a.classes, (a.nodes,)).to(a.device)
    train, valid = (i.to(a.device) for i in torch.randperm(a.nodes)[:a.nodes * 3 // 4].split([a.nodes // 2, a.nodes * 3 // 4 - a.nodes // 2]))
    model = Net(a.features, a.d, a.layers, a.classes).to(a.device)
    optimizer = torch.optim.Adam([{"params": model.layers.parameters(), "weight_decay": 0.01}, {"params": [*model.into.parameters(), *model.out.parameters()]}], lr=0.01)
    for step in range(5):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, adjacency)[train], y[train])
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(x, adjacency)[valid].argmax(1) == y[valid]).float().mean().item()
        print(f"epoch {step} loss {loss.item():.4f} valid {right:.4f}")
        memory(step=step)


main()
