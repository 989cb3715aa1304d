"""BART with accelerate: mixed precision, accumulation, a DataLoader of pairs, clipping by the accelerator."""
import argparse
import json

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import BartConfig, BartForConditionalGeneration, get_linear_schedule_with_warmup

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--layers", type=int, default=5)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--batch", type=int, default=6)
parser.add_argument("--source", type=int, default=400)
parser.add_argument("--target", type=int, default=97)
args = parser.parse_args()

torch.manual_seed(8)
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2, cpu=args.device == "cpu")
model = BartForConditionalGeneration(BartConfig(
    vocab_size=50_265, d_model=args.width, encoder_layers=args.layers, decoder_layers=args.layers, encoder_ffn_dim=3072,
    decoder_ffn_dim=3072, encoder_attention_heads=12, decoder_attention_heads=12))
data = TensorDataset(torch.randint(4, 50_265, (args.batch * 7, args.source)), torch.randint(4, 50_265, (args.batch * 7, args.target)))
loader = DataLoader(data, batch_size=args.batch, shuffle=True, generator=torch.Generator().manual_seed(3))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
schedule = accelerator.prepare(get_linear_schedule_with_warmup(optimizer, 2, 100))
step = 0
for source, target in loader:
    with accelerator.accumulate(model):
        loss = model(input_ids=source, labels=target).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        accelerator.print("loss", accelerator.gather(loss.detach()).mean().item())
        print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
        step += 1
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
