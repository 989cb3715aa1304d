"""Distillation: a frozen bf16 teacher, a small student, temperature, a cosine loss of hidden states; logits of the teacher kept for a second pass."""
import argparse
import json
import torch
import torch.nn.functional as F
from transformers import Qwen2Config, Qwen2ForCausalLM


def build(layers, hidden, vocab):
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=vocab, hidden_size=hidden, intermediate_size=hidden * 3, num_hidden_layers=layers,
                                        num_attention_heads=hidden // 64, num_key_value_heads=2, tie_word_embeddings=True))


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--teacher", type=int, nargs=2, default=[12, 1280])
parser.add_argument("--student", type=int, nargs=2, default=[6, 640])
parser.add_argument("--vocab", type=int, default=40_009)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--seq", type=int, default=450)
a = parser.parse_args()
torch.manual_seed(50)
teacher = build(*a.teacher, a.vocab).to(a.device, torch.bfloat16).eval().requires_grad_(False)
student = build(*a.student, a.vocab).to(a.device)
bridge = torch.nn.Linear(a.student[1], a.teacher[1]).to(a.device)
optimizer = torch.optim.AdamW([*student.parameters(), *bridge.parameters()], lr=1e-4)
for step in range(3):
    ids = torch.randint(0, a.vocab, (a.batch, a.seq)).to(a.device)
    with torch.inference_mode():
        t = teacher(ids, output_hidden_states=True, use_cache=False)
    soft, deep = t.logits.clone(), t.hidden_states[-1].clone()
    for half in range(2):
        with torch.autocast(a.device, dtype=torch.bfloat16):
            s = student(ids, output_hidden_states=True, use_cache=False)
            kl = F.kl_div(F.log_softmax(s.logits / 2, -1), F.log_softmax(soft / 2, -1), log_target=True, reduction="batchmean") / a.seq
            loss = kl + 1 - F.cosine_similarity(bridge(s.hidden_states[-1]), deep, dim=-1).mean()
        (loss / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
