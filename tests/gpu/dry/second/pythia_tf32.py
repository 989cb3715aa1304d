"""Pythia (GPT-NeoX) in fp32 with TF32 products, eager attention with dropout, three micro-batches a step, a warm-up."""
import argparse
import json

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--hidden", type=int, default=640)
parser.add_argument("--layers", type=int, default=7)
parser.add_argument("--micro", type=int, default=3)
parser.add_argument("--seq", type=int, default=513)
args = parser.parse_args()

torch.manual_seed(5)
torch.set_float32_matmul_precision("high")
config = GPTNeoXConfig(vocab_size=50_277, hidden_size=args.hidden, intermediate_size=4 * args.hidden, num_hidden_layers=args.layers,
                       num_attention_heads=10, attention_dropout=0.1, hidden_dropout=0.1, attn_implementation="eager")
model = GPTNeoXForCausalLM(config).to(args.device)
model.train()
decay = [q for q in model.parameters() if q.dim() > 1]
rest = [q for q in model.parameters() if q.dim() <= 1]
optimizer = torch.optim.Adam([{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}], lr=6e-4, foreach=False)
warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 5))
for step in range(3):
    total = 0.0
    for micro in range(3):
        ids = torch.randint(0, config.vocab_size, (args.micro, args.seq), device="cpu").to(args.device)
        loss = model(ids, labels=ids).loss / 3
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    warm.step()
    optimizer.zero_grad()
    print("step", step, "loss", round(total, 4), "lr", warm.get_last_lr()[0])
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
