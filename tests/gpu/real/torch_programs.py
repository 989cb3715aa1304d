"""torch_programs.py resnet|vit|gnn|workers FACTS - for programs.sh: a line a step with the loss to its last bit; PyTorch's counters go
to FACTS. workers sends tensors to another process and back. 77: the library is not installed.
"""
import json
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
import torch.nn.functional as F

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from verify import counters  # noqa: E402


def library(name):
    try:
        return __import__(name, fromlist=["x"])
    except ImportError:
        print(f"{name} is not installed")
        sys.exit(77)


def images(batch, size, generator):
    return torch.randn(batch, 3, size, size, generator=generator).cuda(), torch.randint(1000, (batch,), generator=generator).cuda()


def resnet(steps=8):
    models = library("torchvision.models")
    model = models.resnet50(weights=None).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler()
    data = torch.Generator().manual_seed(2)
    for step in range(1, steps + 1):
        x, y = images(32 if step % 3 else 48, 160, data)
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step} loss {loss.item()!r}")
        if step == steps // 2:
            model.eval()
            with torch.no_grad():
                print(f"evaluation {model(x).float().sum().item()!r}")
            model.train()


def vit(steps=6):
    models = library("torchvision.models")
    model = models.vit_b_16(weights=None).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.Generator().manual_seed(3)
    for step in range(1, steps + 1):
        x, y = images(32, 224, data)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.bfloat16()).float(), y)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item()!r}")


def gnn(steps=12):
    layers = library("torch_geometric.nn")
    model = layers.GraphSAGE(64, 256, num_layers=3, out_channels=40).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(4)
    for step in range(1, steps + 1):
        nodes = 20000 + 3000 * (step % 5)
        x = torch.randn(nodes, 64, generator=data).cuda()
        edges = torch.randint(nodes, (2, 8 * nodes), generator=data).cuda()
        y = torch.randint(40, (nodes,), generator=data).cuda()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edges), y)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item()!r}")


def double(tensors, answers):
    """In the other process: doubles each tensor where it lies."""
    while (x := tensors.get()) is not None:
        x.mul_(2)
        torch.cuda.synchronize()
        total = float(x.sum())
        del x
        answers.put(total)


def workers(steps=20):
    spawn = torch.multiprocessing.get_context("spawn")
    tensors, answers = spawn.Queue(), spawn.Queue()
    other = spawn.Process(target=double, args=(tensors, answers))
    other.start()
    kept = torch.ones(3 << 20, device="cuda")
    for step in range(1, steps + 1):
        x = kept[1000 * step : 1000 * step + 500] if step % 2 else torch.full((1 << 20,), float(step), device="cuda")
        tensors.put(x)
        theirs = answers.get(timeout=60)
        torch.cuda.synchronize()
        print(f"step {step} there {theirs!r} here {float(x.sum())!r}")
        del x
        torch.cuda.ipc_collect()
    tensors.put(None)
    other.join()
    print(f"the other process ended with {other.exitcode}")


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(1)
    {"resnet": resnet, "vit": vit, "gnn": gnn, "workers": workers}[sys.argv[1]]()
    with open(sys.argv[2], "w") as f:
        json.dump({"counters": counters()}, f)
