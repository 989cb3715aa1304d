"""OLMo 2 whose matrices are trained by Muon and whose other weights by AdamW, bf16 autocast, built on the device."""
import argparse
import json

import torch
from transformers import Olmo2Config, Olmo2ForCausalLM

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--hidden", type=int, default=896)
p.add_argument("--layers", type=int, default=9)
p.add_argument("--batch", type=int, default=5)
p.add_argument("--seq", type=int, default=768)
a = p.parse_args()

torch.manual_seed(41)
with torch.device(a.device):
    model = Olmo2ForCausalLM(Olmo2Config(
        vocab_size=50_280, hidden_size=a.hidden, intermediate_size=a.hidden * 8 // 3, num_hidden_layers=a.layers,
        num_attention_heads=a.hidden // 64, num_key_value_heads=a.hidden // 64, max_position_embeddings=2048))
model.train()
matrices = [w for n, w in model.named_parameters() if w.ndim == 2 and "embed" not in n and "lm_head" not in n]
chosen = {id(w) for w in matrices}
others = [w for w in model.parameters() if id(w) not in chosen]
optimizers = [torch.optim.Muon(matrices, lr=0.02, momentum=0.95, weight_decay=0.1), torch.optim.AdamW(others, lr=3e-4, betas=(0.9, 0.95))]
schedules = [torch.optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 10) for o in optimizers]
for step in range(4):
    ids = torch.randint(0, 50_280, (a.batch, a.seq)).to(a.device, non_blocking=True)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer, schedule in zip(optimizers, schedules):
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
    print(f"step {step} loss {loss.item():.4f} norm {norm.item():.3f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
