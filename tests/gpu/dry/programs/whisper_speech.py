"""Whisper: log-mel frames to words, the encoder's convolutions frozen, 16-bit weights with a float32 copy for the optimizer."""
import argparse
import json
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

args = argparse.ArgumentParser()
args.add_argument("--device", default="cuda")
args.add_argument("--layers", type=int, default=6)
args.add_argument("--width", type=int, default=512)
args.add_argument("--batch", type=int, default=5)
args.add_argument("--frames", type=int, default=3000)
args.add_argument("--words", type=int, default=121)
args = args.parse_args()
torch.manual_seed(100)
config = WhisperConfig(d_model=args.width, encoder_layers=args.layers, decoder_layers=args.layers, encoder_attention_heads=8,
                       decoder_attention_heads=8, encoder_ffn_dim=4 * args.width, decoder_ffn_dim=4 * args.width,
                       max_source_positions=args.frames // 2, num_mel_bins=80)
model = WhisperForConditionalGeneration(config).to(args.device).to(torch.bfloat16)
model.model.encoder.conv1.requires_grad_(False)
model.model.encoder.conv2.requires_grad_(False)
half = [p for p in model.parameters() if p.requires_grad]
master = [p.detach().clone().float().requires_grad_() for p in half]
optimizer = torch.optim.AdamW(master, lr=1e-5)
for step in range(4):
    mel = torch.randn(args.batch, 80, args.frames).to(args.device, torch.bfloat16)
    words = torch.randint(0, 50_000, (args.batch, args.words + 3 * step)).to(args.device)
    loss = model(input_features=mel, labels=words).loss
    loss.backward()
    for m, h in zip(master, half):
        m.grad = h.grad.float()
        h.grad = None
    torch.nn.utils.clip_grad_norm_(master, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        torch._foreach_copy_(half, master)
    print("loss of step", step, "is", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
