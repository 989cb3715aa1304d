"""CLIP from its configuration: the text tower is frozen up to its last layers, a contrastive loss over the batch."""
import argparse
import json

import torch
from transformers import CLIPConfig, CLIPModel

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--batch", type=int, default=53)
p.add_argument("--image", type=int, default=224)
p.add_argument("--layers", type=int, default=12)
p.add_argument("--steps", type=int, default=3)
a = p.parse_args()
torch.manual_seed(31)
config = CLIPConfig(
    text_config=dict(hidden_size=512, intermediate_size=2048, num_hidden_layers=a.layers, num_attention_heads=8,
                     vocab_size=49_408, max_position_embeddings=77, eos_token_id=49_407),
    vision_config=dict(hidden_size=640, intermediate_size=2560, num_hidden_layers=a.layers, num_attention_heads=10,
                       image_size=a.image, patch_size=14), projection_dim=512)
model = CLIPModel(config).to(a.device)
for name, weight in model.text_model.named_parameters():
    if not any(f"layers.{i}." in name for i in (a.layers - 1, a.layers - 2)):
        weight.requires_grad = False
weights = [w for w in model.parameters() if w.requires_grad]
print(f"training {sum(w.numel() for w in weights)} of {sum(w.numel() for w in model.parameters())} parameters")
optimizer = torch.optim.AdamW(weights, lr=5e-4, betas=(0.9, 0.98), eps=1e-6)
for step in range(a.steps):
    pixels = torch.randn(a.batch, 3, a.image, a.image).to(a.device)
    words = torch.randint(0, 49_000, (a.batch, 77))
    words[:, -1] = 49_407
    with torch.autocast(a.device, dtype=torch.bfloat16):
        loss = model(input_ids=words.to(a.device), pixel_values=pixels, return_loss=True).loss
    loss.backward()
    optimizer.step()
    model.logit_scale.data.clamp_(0, 4.6052)
    optimizer.zero_grad()
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
