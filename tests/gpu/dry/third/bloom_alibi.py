"""BLOOM on blocks of a stream: a smaller last batch, perplexities in between."""
import math

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BloomConfig, BloomForCausalLM, get_cosine_schedule_with_warmup

from kit import memory, options


def blocks(count, args, seed):
    ids = torch.randint(0, args.vocab, (count, args.block), generator=torch.Generator().manual_seed(seed))
    return TensorDataset(ids)


@torch.no_grad()
def perplexity(model, loader, args):
    model.eval()
    losses = []
    for (ids,) in loader:
        ids = ids.to(args.device)
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            losses.append(model(ids, labels=ids, use_cache=False).loss.float())
    model.train()
    return math.exp(min(20.0, torch.stack(losses).mean().item()))


def main():
    args = options(hidden=1024, layers=9, vocab=60_000, batch=5, block=512, precision="bf16")
    torch.manual_seed(1001)
    torch.set_float32_matmul_precision("high" if args.precision == "tf32" else "highest")
    model = BloomForCausalLM(BloomConfig(vocab_size=args.vocab, hidden_size=args.hidden, n_layer=args.layers, n_head=args.hidden // 64,
                                         hidden_dropout=0.1, attention_dropout=0.1)).to(args.device)
    model.train()
    decay = [w for w in model.parameters() if w.ndim > 1]
    rest = [w for w in model.parameters() if w.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=6e-4, betas=(0.9, 0.95))
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, 100)
    train = DataLoader(blocks(4 * args.batch + 2, args, 1), args.batch, shuffle=True, generator=torch.Generator().manual_seed(7))
    valid = DataLoader(blocks(2 * args.batch - 1, args, 2), args.batch + 1)
    for step, (ids,) in enumerate(train):
        ids = ids.to(args.device)
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = model(ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.3f} lr {schedule.get_last_lr()[0]:.2e}")
        if step % 2:
            print("perplexity", perplexity(model, valid, args))
        memory(step=step)


main()
