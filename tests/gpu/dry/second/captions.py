"""Captions of images: a ViT encoder whose first layers are frozen, a GPT-2 decoder with cross attention, accelerate without precision."""
import argparse
import json

import torch
from accelerate import Accelerator
from transformers import GPT2Config, VisionEncoderDecoderConfig, VisionEncoderDecoderModel, ViTConfig

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=384)
p.add_argument("--layers", type=int, default=8)
p.add_argument("--image", type=int, default=224)
p.add_argument("--batch", type=int, default=19)
p.add_argument("--words", type=int, default=43)
a = p.parse_args()
torch.manual_seed(53)
accelerator = Accelerator(cpu=a.device == "cpu")
encoder = ViTConfig(hidden_size=a.width, num_hidden_layers=a.layers, num_attention_heads=6, intermediate_size=4 * a.width, image_size=a.image)
decoder = GPT2Config(n_embd=a.width, n_layer=a.layers, n_head=6, add_cross_attention=True, is_decoder=True)
config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
config.decoder_start_token_id, config.pad_token_id = 50_256, 50_256
model = VisionEncoderDecoderModel(config)
for name, weight in model.encoder.named_parameters():
    if "embeddings" in name or any(f"layer.{i}." in name or f"layers.{i}." in name for i in range(a.layers // 3)):
        weight.requires_grad_(False)
optimizer = torch.optim.AdamW([w for w in model.parameters() if w.requires_grad], lr=5e-5, weight_decay=0.01)
model, optimizer = accelerator.prepare(model, optimizer)
for step in range(3):
    pixels = torch.randn(a.batch, 3, a.image, a.image).to(accelerator.device)
    labels = torch.randint(0, 50_256, (a.batch, a.words)).to(accelerator.device)
    loss = model(pixel_values=pixels, labels=labels).loss
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.print(step, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
