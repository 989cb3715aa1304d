"""ModernBERT on masked words: padded batches, the sparse head."""
import random

import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

from kit import memory, options

args = options(hidden=768, layers=13, vocab=50_368, batch=20, longest=512)
random.seed(3)
torch.manual_seed(1010)

config = ModernBertConfig(vocab_size=args.vocab, hidden_size=args.hidden, intermediate_size=args.hidden * 3 // 2, num_hidden_layers=args.layers,
                          num_attention_heads=args.hidden // 64, global_attn_every_n_layers=3, local_attention=128, pad_token_id=0,
                          bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, mlp_dropout=0.1, sparse_prediction=True)
model = ModernBertForMaskedLM(config).to(args.device)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=8e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=1e-5)
WARM, FLAT, DOWN = 2, 3, 4
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda s: (s + 1) / WARM if s < WARM else 1.0 if s < WARM + FLAT else max(0.0, 1 - (s - WARM - FLAT) / DOWN))


def batch():
    """Sentences as a tokenizer pads them; 30 % of the words are hidden and are the labels."""
    lengths = torch.tensor([random.randint(args.longest // 4, args.longest) for _ in range(args.batch)])
    t = int(lengths.max())
    mask = torch.arange(t)[None] < lengths[:, None]
    ids = torch.randint(4, args.vocab, (args.batch, t)).masked_fill(~mask, 0)
    hidden = (torch.rand(args.batch, t) < 0.3) & mask
    labels = ids.masked_fill(~hidden, -100)
    return {"input_ids": ids.masked_fill(hidden, 3), "attention_mask": mask.long(), "labels": labels}


for step in range(5):
    inputs = {k: v.to(args.device, non_blocking=True) for k, v in batch().items()}
    with torch.autocast(args.device, dtype=torch.bfloat16):
        loss = model(**inputs).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    print("step", step, "length", inputs["input_ids"].shape[1], "loss", loss.item(), "lr", optimizer.param_groups[0]["lr"])
    memory(step=step)
