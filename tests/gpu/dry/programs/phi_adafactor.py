"""Phi (partial rotary, biases everywhere) with Adafactor, float32 with TF32 products."""
import argparse, json
import torch
from transformers import PhiConfig, PhiForCausalLM
from transformers.optimization import Adafactor

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--layers", type=int, default=6)
p.add_argument("--hidden", type=int, default=960)
p.add_argument("--batch", type=int, default=4)
p.add_argument("--seq", type=int, default=511)
a = p.parse_args()
torch.backends.cuda.matmul.allow_tf32 = True
torch.manual_seed(5)
m = PhiForCausalLM(PhiConfig(vocab_size=51200, hidden_size=a.hidden, intermediate_size=3800, num_hidden_layers=a.layers,
                             num_attention_heads=15, partial_rotary_factor=0.5, resid_pdrop=0.1)).to(a.device)
o = Adafactor(m.parameters(), scale_parameter=True, relative_step=True, warmup_init=True)
for s in range(3):
    x = torch.randint(0, 51200, (a.batch, a.seq + s)).to(a.device)
    logits = m(x[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), x[:, 1:].flatten(), label_smoothing=0.1)
    o.zero_grad()
    loss.backward()
    o.step()
    print(json.dumps({"step": s, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
