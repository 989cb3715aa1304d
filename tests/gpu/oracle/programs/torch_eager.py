"""Plain training; beside the steps what makes, splits and frees segments, and a request that the device cannot serve."""
import torch

import truth
from model import Model, batches, loss_of


def too_much():
    try:
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return True
    return False


def main():
    torch.manual_seed(0)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for i, tokens in enumerate(batches(6, "cuda")):
        loss = loss_of(model, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(round(loss.item(), 3))
        if i == 3:
            torch.cuda.empty_cache()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        aside = [torch.ones(n * 100_000, device="cuda") for n in range(1, 40)]
        total = sum(float(x.sum()) for x in aside)
    pinned = torch.ones(5_000_000).pin_memory()
    back = pinned.to("cuda", non_blocking=True).sum().item()
    refused = too_much()
    del aside
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    counters = truth.torch_counters(torch)
    backend = torch.cuda.get_allocator_backend()
    # what the driver's pool holds depends on the moment: only PyTorch's own allocator counts the same each time
    same = counters if backend == "native" else {}
    truth.report(losses=losses, total=total, back=back, refused=refused, backend=backend, **same)
    truth.mark(**counters)


main()
