"""Gemma 2: a large vocabulary, soft caps (eager attention), sliding windows; gradient checkpointing."""
import argparse
import json
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

ap = argparse.ArgumentParser()
ap.add_argument("--device", default="cuda")
ap.add_argument("--layers", type=int, default=6)
ap.add_argument("--width", type=int, default=896)
ap.add_argument("--vocab", type=int, default=64_507)
ap.add_argument("--bs", type=int, default=3)
ap.add_argument("--len", type=int, default=601)
ap.add_argument("--steps", type=int, default=3)
opt = ap.parse_args()
torch.manual_seed(42)
cfg = Gemma2Config(vocab_size=opt.vocab, hidden_size=opt.width, intermediate_size=4 * opt.width, head_dim=64,
                   num_hidden_layers=opt.layers, num_attention_heads=14, num_key_value_heads=7, sliding_window=256,
                   attn_implementation="eager")
net = Gemma2ForCausalLM(cfg).to(opt.device)
net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
net.train()
adam = torch.optim.Adam(net.parameters(), lr=1e-4, betas=(0.9, 0.95), foreach=True)
for i in range(opt.steps):
    tokens = torch.randint(1, opt.vocab, (opt.bs, opt.len), generator=torch.Generator().manual_seed(i))
    tokens = tokens.to(opt.device)
    with torch.autocast(opt.device, torch.bfloat16):
        out = net(tokens, attention_mask=torch.ones_like(tokens), labels=tokens, use_cache=False)
    out.loss.backward()
    adam.step()
    adam.zero_grad()
    print("iter", i, "loss", round(out.loss.item(), 4))
    print(json.dumps(dict(step=i, allocated=torch.cuda.max_memory_allocated(),
                          reserved=torch.cuda.max_memory_reserved())))
print(json.dumps(dict(allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved())))
