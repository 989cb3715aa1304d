"""OPT on batches whose count and length change with every step, padded to a multiple of 8."""
import argparse
import json
import random

import torch
from transformers import OPTConfig, OPTForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--hidden", type=int, default=896)
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--longest", type=int, default=1400)
parser.add_argument("--tokens", type=int, default=5000)
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()


def batches(rng):
    while True:
        longest = rng.randint(args.longest // 10, args.longest)
        count = max(1, args.tokens // longest)
        lengths = [rng.randint(longest // 2, longest) for _ in range(count)]
        padded = (max(lengths) + 7) // 8 * 8
        ids = torch.ones(count, padded, dtype=torch.long)
        for row, n in enumerate(lengths):
            ids[row, :n] = torch.randint(4, 50_272, (n,))
        yield ids, (torch.arange(padded)[None] < torch.tensor(lengths)[:, None]).long()


torch.manual_seed(11)
config = OPTConfig(vocab_size=50_272, hidden_size=args.hidden, ffn_dim=3 * args.hidden, num_hidden_layers=args.layers,
                   num_attention_heads=14, word_embed_proj_dim=args.hidden)
model = OPTForCausalLM(config).to(args.device).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
stream = batches(random.Random(2024))
for step in range(args.steps):
    for _ in range(2):
        ids, mask = next(stream)
        print("batch", tuple(ids.shape))
        ids, mask = ids.to(args.device), mask.to(args.device)
        with torch.autocast(args.device, dtype=torch.bfloat16):
            loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
        (loss / 2).backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(),
                      "reserved": torch.cuda.max_memory_reserved()}), flush=True)
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
