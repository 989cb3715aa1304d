"""host.py - tensors on the host that are larger than the machine: a model that is built, trained with its states there, and pinned memory; says what memory it took."""
import resource

import torch

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
WIDTH, LAYERS = 16384, 24  # 24 GiB, and three times that of gradients and states

net = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
optimizer = torch.optim.AdamW(net.parameters())
for p in net.parameters():
    p.grad = torch.zeros_like(p)
for _ in range(2):
    optimizer.step()
whole = torch.cat([p.detach().flatten() for p in net.parameters()][:4]).to(torch.bfloat16)
pinned = [torch.empty(1 << 32, dtype=torch.uint8, pin_memory=True).view(torch.float32) for _ in range(8)]
for p in pinned:
    p.copy_(torch.zeros(WIDTH // 16, WIDTH * 64).flatten()[: p.numel()])
with torch.no_grad():
    on_gpu = [p.cuda() for p in net.parameters()][0]
    list(net.parameters())[1].copy_(on_gpu)
small = torch.ones(1000) * 3 + 1
assert small.sum().item() == 4000  # what is small is computed
assert (torch.arange(1 << 22) + 1)[-1].item() == 1 << 22  # and so are whole numbers


def after(fill, elements, dtype, generator):
    """What is drawn after so many elements; where they are large, nobody makes them."""
    if generator is None:
        torch.manual_seed(7)
    else:
        generator.manual_seed(7)
    for part in torch.empty(elements, dtype=dtype).split(16 << 10 if generator is not None else elements):
        getattr(part, fill)(generator=generator)
    return torch.rand(5, generator=generator).tolist()


for fill in ("normal_", "uniform_", "exponential_"):
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for elements in ((1 << 21), (1 << 21) + 37):  # all at once, and in pieces that are small enough to be made
            assert after(fill, elements, dtype, None) == after(fill, elements, dtype, torch.Generator()), (fill, dtype, elements)
took = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(f"{took >> 10} MiB of the host", flush=True)
assert took < 1 << 20, took
print("good", flush=True)
