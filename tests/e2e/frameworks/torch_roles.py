"""torch_roles.py FACTS - trainings that know their storages: FACTS gets address, bytes and role of each in the last step."""
import json
import sys
import warnings

import torch
from torch import nn

warnings.filterwarnings("error", message=".*leaf Tensor.*")
torch.set_default_device("cuda")
facts, kept = [], []
import vramscope  # noqa: E402
from vramscope import _roles as vramscope_roles  # noqa: E402

vramscope_roles.ALWAYS = 1000


def note(case, tensor, role):
    facts.append((case, tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes(), role))


class Loud(torch.Tensor):
    """Says when anything of it is asked for."""

    asked = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Loud.asked += 1
        return super().__torch_function__(func, types, args, kwargs or {})


def train(case, model, optimizer, shape, last=3):
    for step in range(last + 1):
        model(torch.ones(shape)).square().mean().backward()
        with torch.device("cpu"):  # where an optimizer's counts are
            optimizer.step()
        if step == last:
            break
        optimizer.zero_grad()
    parameters = {id(p): p for group in optimizer.param_groups for p in group["params"]} | {id(p): p for p in model.parameters()}
    for p in parameters.values():
        note(case, p, "parameter")
        if p.grad is not None:
            note(case, p.grad, "gradient")
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.is_cuda:
                note(case, value, "optimizer state")
    for b in model.buffers():
        note(case, b, "buffer")
    kept.append((model, optimizer))


class Frozen(nn.Module):
    """A frozen layer, a buffer, and a parameter twice."""

    def __init__(self):
        super().__init__()
        self.first, self.tied = nn.Linear(64, 64), nn.Linear(64, 64)
        self.tied.weight = self.first.weight
        self.frozen = nn.Linear(64, 64).requires_grad_(False)
        self.register_buffer("table", torch.zeros(64, 64))

    def forward(self, x):
        return self.tied(self.frozen(self.first(x))) @ self.table


class Flat(nn.Module):
    """Parameters that are pieces of one storage."""

    def __init__(self):
        super().__init__()
        flat = torch.zeros(2, 64, 64)
        self.a, self.b = nn.Parameter(flat[0]), nn.Parameter(flat[1])

    def forward(self, x):
        return x @ self.a @ self.b


model = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.Linear(256, 64))
train("adam", model, torch.optim.AdamW(model.parameters()), (8, 64))
frozen = Frozen()
train("frozen", frozen, torch.optim.SGD([p for p in frozen.parameters() if p.requires_grad], momentum=0.9), (8, 64))
flat = Flat()
train("flat", flat, torch.optim.Adagrad(flat.parameters()), (8, 64))
loud = nn.Linear(64, 64)
loud.weight = nn.Parameter(loud.weight.detach().as_subclass(Loud))
optimizer = torch.optim.SGD(loud.parameters())
loud(torch.ones(8, 64)).sum().backward()
optimizer.step()
asked = Loud.asked
looks = vramscope_roles._looks
vramscope_roles.look(torch, optimizer)
assert Loud.asked == asked, "a subclass was asked"
assert vramscope_roles._looks == looks + 1
# models that are gone, sparse and meta tensors, states of any kind: nothing breaks
gone = nn.Linear(64, 64)
gone(torch.ones(1, 64))
del gone
odd = torch.optim.SGD([nn.Parameter(torch.zeros(4, 4))], momentum=0.9)
odd.state[odd.param_groups[0]["params"][0]] = {"a": [torch.zeros(512), {"b": torch.zeros(512)}], "c": torch.zeros(4, device="meta"),
                                              "d": torch.sparse_coo_tensor([[0]], [1.0], (3,), check_invariants=True), "e": None, "f": "text"}
looks = vramscope_roles._looks
vramscope_roles.look(torch, odd)
assert vramscope_roles._looks == looks + 1
for value in (odd.state[odd.param_groups[0]["params"][0]]["a"][0], odd.state[odd.param_groups[0]["params"][0]]["a"][1]["b"]):
    note("odd", value, "optimizer state")
assert len(vramscope_roles._models) <= 5, "models are kept"
# cost is bounded: a look that took long has none behind it for long
vramscope_roles._spent, vramscope_roles.ALWAYS, looks = 3600.0, 3, vramscope_roles._looks
vramscope_roles.look(torch, odd)
assert vramscope_roles._looks == looks, "it looked again at once"
vramscope.mark("facts")  # what lives now
with open(sys.argv[1], "w") as f:
    json.dump(facts, f)
