"""What torch.compile and torch.profiler say of a model (torch_tools.sh): lines that begin with "=" are the same with and without vramscope."""
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


class Super(nn.Linear):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), Super(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        x = self.second(self.first(x))
        return nn.Module.__call__(self.third, self.third.__call__(x))


def compiled(module, *args):
    torch._dynamo.reset()
    try:
        return "ok", torch.equal(torch.compile(module, backend="eager", fullgraph=True)(*args), module(*args))
    except torch._dynamo.exc.Unsupported as e:
        return type(e).__name__, str(e).splitlines()[0]


def events(tree):
    for event in tree:
        yield event
        yield from events(event.children)


torch.manual_seed(0)
model, x = Model(), torch.randn(4, 8)
for _ in range(3):
    model(x).sum().backward()
print("= compiled", compiled(model, x))
print("= symbolic", len(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(8, 8), nn.ReLU())).graph.nodes))
with profile(activities=[ProfilerActivity.CPU], with_stack=True, profile_memory=True, record_shapes=True) as p:
    model(x).sum().backward()
print("= modules", sorted(e.name for e in events(p.profiler.kineto_results.experimental_event_tree()) if e.name.startswith("nn.Module")))
totals = {}
for _, action, (tensor, version), size in p._memory_profile().timeline:
    category = p._memory_profile()._categories.get(tensor, version)
    totals[str(category)] = totals.get(str(category), 0) + size
print("= memory", sorted(totals.items()))
