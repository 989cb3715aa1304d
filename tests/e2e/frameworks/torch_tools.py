"""What torch.compile, torch.profiler and others say of a model: lines that begin with "=" are the same with and without vramscope.

"direct" says that the library calls modules past the wrapper's code here (shim/framework/calls.c).
"""
import copy
import inspect
import pickle
import sys

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


class Starts(nn.Module):
    """Calls a module, begins to profile, and calls it again."""

    def __init__(self):
        super().__init__()
        self.inner, self.start = nn.Linear(8, 8), None

    def forward(self, x):
        x = self.inner(x)
        if self.start:
            self.start()
        return self.inner(x)


def profiled_from_within():
    model, p = Starts(), profile(activities=[ProfilerActivity.CPU], with_stack=True)
    for _ in range(3):
        model(torch.zeros(1, 8))
    model.start = p.__enter__
    model(torch.zeros(1, 8))
    p.__exit__(None, None, None)
    return modules_of(p)


def traced():
    """The functions of torch/nn/modules/module.py that a trace function sees in a call of Model."""
    seen = {}

    def trace(frame, event, _):
        if frame.f_code.co_filename.endswith("torch/nn/modules/module.py"):
            seen[frame.f_code.co_name] = seen.get(frame.f_code.co_name, 0) + 1

    sys.settrace(trace)
    model(x)
    sys.settrace(None)
    return sorted(seen.items())


def hooked():
    calls, handles = [], [torch.nn.modules.module.register_module_forward_pre_hook(lambda m, _: calls.append(type(m).__name__))]
    handles.append(model.third.register_forward_hook(lambda *_: calls.append("after")))
    model(x)
    for handle in handles:
        handle.remove()
    return calls


def compiled(module, *args):
    torch._dynamo.reset()
    try:
        return "ok", torch.equal(torch.compile(module, backend="eager", fullgraph=True)(*args), module(*args))
    except torch._dynamo.exc.Unsupported as e:
        return type(e).__name__, str(e).splitlines()[0]


def modules_of(p):
    return sorted(e.name for e in events(p.profiler.kineto_results.experimental_event_tree()) if e.name.startswith("nn.Module"))


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
print("= modules", modules_of(p))
totals = {}
for _, action, (tensor, version), size in p._memory_profile().timeline:
    category = p._memory_profile()._categories.get(tensor, version)
    totals[str(category)] = totals.get(str(category), 0) + size
print("= memory", sorted(totals.items()))
print("= profiled from within", profiled_from_within())
with profile(activities=[ProfilerActivity.CPU], with_modules=True) as p:
    model(x)
print("= with modules", len(p.events()) > 0)
print("= traced", traced())
print("= hooked", hooked())
call = nn.Module.__call__
with torch.no_grad():
    scripted, jit = torch.jit.trace(model.first, x), torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
print("= jit", torch.equal(scripted(x), model.first(x)), len(scripted.graph_for(x).str()) > 0 if hasattr(scripted.graph_for(x), "str") else True, jit(x).shape)
print("= function", inspect.isfunction(call), inspect.signature(call), call.__name__, nn.Module.__call__ is call, model.first.__call__.__func__ is call)
same = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
print("= copies", [torch.equal(m(x), model(x)) for m in same], [torch.equal(m(x), model(x)) for m in same])
if "vramscope._torch" in sys.modules:
    print("direct", sys.modules["vramscope._torch"]._direct)
