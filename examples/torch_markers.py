"""A PyTorch training loop with a phase marked for vramscope.

    vramscope run -o run.db -- python examples/torch_markers.py
    vramscope report run.db

Under `vramscope run` PyTorch's phases are found by themselves; mark your own where you know better, as "logits" here.
Without vramscope markers do nothing: leave them in.
"""

import torch
from torch import nn

try:
    import vramscope
except ImportError:  # not installed here: the same two names, doing nothing
    from contextlib import nullcontext
    from types import SimpleNamespace

    vramscope = SimpleNamespace(phase=lambda name: nullcontext(), step=lambda: None)

BATCH, LENGTH, WIDTH, VOCABULARY, STEPS = 8, 512, 512, 32000, 20


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 8, batch_first=True), 4),
    ).to(device)
    head = nn.Linear(WIDTH, VOCABULARY).to(device)
    optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=3e-4)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH), device=device)
    targets = torch.randint(VOCABULARY, (BATCH, LENGTH), device=device)

    for step in range(STEPS):
        with vramscope.phase("forward"):
            hidden = body(tokens)
        with vramscope.phase("logits"):
            loss = nn.functional.cross_entropy(head(hidden).flatten(0, 1), targets.flatten())
        with vramscope.phase("backward"):
            loss.backward()
        with vramscope.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        vramscope.step()
        print(f"step {step + 1:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
