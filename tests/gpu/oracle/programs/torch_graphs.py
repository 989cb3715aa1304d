"""CUDA graphs. Under backend:cudaMallocAsync the captured allocations are memory nodes of the graph."""
import torch

import truth
from model import Block


def captured_step(x):
    """A whole forward and backward in one graph, in a pool of its own."""
    block = Block(256, 4).cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            block(x).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    block.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = block(x).sum()
        y.backward()
    values = []
    for _ in range(5):
        graph.replay()
        torch.cuda.synchronize()
        values.append(round(y.item(), 2))
    return graph, values, y


def two_graphs_one_pool(x):
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    pool = torch.cuda.graph_pool_handle()
    with torch.cuda.graph(first, pool=pool):
        a = (x @ x.transpose(1, 2)).relu()
    with torch.cuda.graph(second, pool=pool):
        b = (x * 2).sum()
    first.replay()
    second.replay()
    torch.cuda.synchronize()
    return round(a.sum().item()), round(b.item(), 2)


def graphed_callable(x):
    block = Block(256, 4).cuda()
    graphed = torch.cuda.make_graphed_callables(block, (x.clone().requires_grad_(),))
    optimizer = torch.optim.SGD(block.parameters(), lr=0.01)
    values = []
    for _ in range(4):
        out = graphed(x.clone().requires_grad_()).square().mean()
        out.backward()
        optimizer.step()
        optimizer.zero_grad()
        values.append(round(out.item(), 4))
    return values


def main():
    torch.manual_seed(0)
    backend = torch.cuda.get_allocator_backend()
    x = torch.randn(4, 128, 256, device="cuda")
    graph, values, y = captured_step(x)
    shared = two_graphs_one_pool(x)
    callables = graphed_callable(x) if backend == "native" else None
    counters = truth.torch_counters(torch)
    truth.mark(**counters)
    del y
    graph.reset()
    del graph
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    truth.report(values=values, shared=shared, callables=callables, backend=backend,
                 after=torch.cuda.memory_allocated() if backend == "native" else None)


main()
