"""torchvision's RAFT: motion refined again and again, a loss over all."""
import torch
import torchvision

from kit import memory, options

args = options(model="raft_small", batch=4, crop=[320, 448], updates=9, gamma=0.8)
torch.manual_seed(1024)
model = torchvision.models.get_model(args.model, weights=None).to(args.device)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=1e-4, eps=1e-8)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-4, total_steps=110, pct_start=0.05, cycle_momentum=False, anneal_strategy="linear")


def sequence_loss(guesses, flow, valid):
    """Later guesses count more; motions that are too large count not at all."""
    mask = (valid & (flow.square().sum(1).sqrt() < 400))[:, None].float()
    shares = args.gamma ** torch.arange(len(guesses) - 1, -1, -1, device=flow.device)
    errors = torch.stack([((guess - flow).abs() * mask).mean() for guess in guesses])
    return (shares * errors).sum()


for step in range(3):
    frames = torch.rand(2, args.batch, 3, *args.crop).mul(2).sub(1)
    first, second = frames[0].to(args.device), frames[1].to(args.device)
    flow = (torch.randn(args.batch, 2, *args.crop) * 8).to(args.device)
    valid = (torch.rand(args.batch, *args.crop) > 0.1).to(args.device)
    guesses = model(first, second, num_flow_updates=args.updates)
    loss = sequence_loss(guesses, flow, valid)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    with torch.no_grad():
        epe = (guesses[-1] - flow).square().sum(1).sqrt().mean().item()
    print(f"step {step} loss {loss.item():.3f} epe {epe:.3f}")
    memory(step=step)
