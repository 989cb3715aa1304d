"""One of two ranks on one GPU, of which rank 1 keeps something more.

    rank_cause.py train [--cpu]      RANK says which; they need no communication
    rank_cause.py check DIR VRAMSCOPE    the report of the directory names rank 1, the line and layer that keeps, and the shared GPU
"""
import json
import os
import subprocess
import sys

KEPT = 24  # blocks of 16 MiB


def train(cpu):
    import torch
    from torch import nn

    class Memory(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.kept = nn.Linear(1024, 4096), []

        def forward(self, x):
            y = self.up(x).relu()
            if os.environ["RANK"] == "1" and len(self.kept) < KEPT:
                self.kept.append(y.detach() * 2)  # KEEPS
            return y.mean(-1, keepdim=True) + x

    device = "cpu" if cpu else "cuda"
    model = nn.Sequential(nn.Linear(1024, 1024), Memory(), nn.Linear(1024, 1024)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(40):
        model(torch.randn(1024, 1024, device=device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    if not cpu:
        torch.cuda.synchronize()


def check(folder, vramscope):
    text = subprocess.run([vramscope, "report", "--all", folder], capture_output=True, text=True, env=dict(os.environ, COLUMNS="300")).stdout
    print("\n".join(text.split("\n")[:22]))
    (job,) = json.loads(subprocess.run([vramscope, "report", "--json", folder], capture_output=True, text=True).stdout)["jobs"]
    line = next(i for i, l in enumerate(open(__file__), 1) if l.rstrip().endswith("# KEEPS"))
    over, wanted = job["max_over_min"], KEPT * 16 << 20
    bad = []
    if job["peak_allocated"]["max_rank"] != 1 or not 0.95 * wanted <= over["size_bytes"] <= 1.1 * wanted:
        bad.append(f"rank {job['peak_allocated']['max_rank']} by {over['size_bytes']} instead of rank 1 by {wanted}")
    if f"rank_cause.py:{line}" not in (over["line"] or "") or not 0.95 * wanted <= over["line_bytes"] <= 1.1 * wanted:
        bad.append(f"line {over['line']}, {over['line_bytes']}")
    if not (over["layer"] or "").startswith("Sequential"):
        bad.append(f"layer {over['layer']}")
    if len(job["shared_gpus"]) != 1 or len(job["shared_gpus"][0]["others"]) != 1 or job["shared_gpus"][0]["rank"] != 1:
        bad.append(f"shared GPUs {job['shared_gpus']}")
    print("FAIL " + "; ".join(bad) if bad else f"PASS rank 1 is higher by {over['size_bytes'] >> 20} MiB: {over['line']}, {over['layer']}, {over['what']}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(train("--cpu" in sys.argv) if sys.argv[1] == "train" else check(sys.argv[2], sys.argv[3]))
