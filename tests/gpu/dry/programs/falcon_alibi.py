"""Falcon with ALiBi in fp16: autocast and a GradScaler, SGD with momentum; the first layers are frozen."""
import argparse
import json

import torch
from transformers import FalconConfig, FalconForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--hidden", type=int, default=1024)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--seq", type=int, default=700)
parser.add_argument("--freeze", type=int, default=2)
args = parser.parse_args()

torch.manual_seed(3)
device = torch.device(args.device)
config = FalconConfig(vocab_size=65024, hidden_size=args.hidden, num_hidden_layers=args.layers, num_attention_heads=16,
                      alibi=True, new_decoder_architecture=False, multi_query=True, parallel_attn=True, bias=False)
model = FalconForCausalLM(config).to(device)
for block in model.transformer.h[:args.freeze]:
    block.requires_grad_(False)
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(trainable, lr=0.01, momentum=0.9, nesterov=True)
scaler = torch.amp.GradScaler(args.device, init_scale=1024.0)
for step in range(4):
    batch = torch.randint(0, 65024, (args.batch, args.seq))
    mask = torch.ones_like(batch)
    mask[0, args.seq // 2:] = 0
    batch, mask = batch.to(device), mask.to(device)
    optimizer.zero_grad()
    with torch.autocast(args.device, dtype=torch.float16):
        loss = model(input_ids=batch, attention_mask=mask, labels=batch.masked_fill(mask == 0, -100)).loss
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(trainable, 0.5)
    scaler.step(optimizer)
    scaler.update()
    print(f"[{step}] loss={loss.item():.4f} scale={scaler.get_scale()}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0,
                      "reserved": torch.cuda.max_memory_reserved(device) if device.type == "cuda" else 0}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
