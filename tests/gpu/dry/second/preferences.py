"""Preference training (DPO): a policy in fp32 under autocast, a frozen reference in bf16, chosen and rejected answers in one batch."""
import argparse
import copy
import json

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--hidden", type=int, default=576)
p.add_argument("--layers", type=int, default=15)
p.add_argument("--vocab", type=int, default=49_152)
p.add_argument("--pairs", type=int, default=4)
p.add_argument("--longest", type=int, default=640)
a = p.parse_args()

torch.manual_seed(83)
policy = LlamaForCausalLM(LlamaConfig(
    vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=a.hidden * 8 // 3, num_hidden_layers=a.layers,
    num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True)).to(a.device)
reference = copy.deepcopy(policy).to(torch.bfloat16).eval().requires_grad_(False)
optimizer = torch.optim.RMSprop(policy.parameters(), lr=5e-7)


def log_probabilities(model, ids, mask, answer):
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    each = torch.gather(logits.log_softmax(-1), 2, ids[:, 1:, None]).squeeze(2)
    return (each * answer[:, 1:]).sum(1)


for step in range(4):
    prompt, lengths = a.longest // 4, torch.randint(a.longest // 3, a.longest + 1, (2 * a.pairs,))
    t = int(lengths.max())
    ids, places = torch.randint(5, a.vocab, (2 * a.pairs, t)), torch.arange(t)[None]
    mask = (places < lengths[:, None]).long()
    answer = mask * (places >= prompt)
    ids, mask, answer = ids.to(a.device), mask.to(a.device), answer.to(a.device)
    with torch.no_grad(), torch.autocast(a.device, dtype=torch.bfloat16):
        before = log_probabilities(reference, ids, mask, answer)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        now = log_probabilities(policy, ids, mask, answer)
    chosen, rejected = (now - before).chunk(2)
    loss = -F.logsigmoid(0.1 * (chosen - rejected)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item(), "accuracy", (chosen > rejected).float().mean().item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
