"""Learning from samples: generate with a cache that grows, score, then a policy gradient against a frozen reference; rows end when they end."""
import argparse
import json
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--hidden", type=int, default=768)
parser.add_argument("--vocab", type=int, default=5003)
parser.add_argument("--rows", type=int, default=30)
parser.add_argument("--prompt", type=int, default=64)
parser.add_argument("--new", type=int, default=40)
parser.add_argument("--ends", type=int, default=150, help="how many of the words end a row")
args = parser.parse_args()
torch.manual_seed(23)
config = LlamaConfig(vocab_size=args.vocab, hidden_size=args.hidden, intermediate_size=2048, num_hidden_layers=args.layers,
                     num_attention_heads=12, num_key_value_heads=6, eos_token_id=list(range(args.ends)), pad_token_id=args.vocab - 1)
policy = LlamaForCausalLM(config).to(args.device)
reference = LlamaForCausalLM(config).to(args.device, torch.bfloat16).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)


def log_probability(model, ids, prompt):
    logits = model(ids, use_cache=False).logits[:, prompt - 1:-1].float()
    return logits.log_softmax(-1).gather(-1, ids[:, prompt:, None]).squeeze(-1)


for step in range(3):
    prompt = torch.randint(args.ends, args.vocab, (args.rows, args.prompt)).to(args.device)
    policy.eval()
    with torch.no_grad(), torch.autocast(args.device, dtype=torch.bfloat16):
        ids = policy.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=args.new, do_sample=True, top_k=0)
        base = log_probability(reference, ids, args.prompt)
    policy.train()
    reward = (ids[:, args.prompt:] % 7 == 0).float().mean(1)
    advantage = (reward - reward.mean()) / (reward.std() + 1e-4)
    with torch.autocast(args.device, dtype=torch.bfloat16):
        now = log_probability(policy, ids, args.prompt)
        ratio = base - now
        loss = (-(now - now.detach()).exp() * advantage[:, None] + 0.04 * (ratio.exp() - ratio - 1)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("generated", ids.shape[1] - args.prompt, "reward", reward.mean().item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
