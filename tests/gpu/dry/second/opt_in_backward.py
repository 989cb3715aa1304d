"""OPT in pure bf16; each weight is updated as soon as its gradient is there, within backward, so that no gradients pile up."""
import argparse
import json

import torch
from transformers import OPTConfig, OPTForCausalLM

cli = argparse.ArgumentParser()
cli.add_argument("--device", default="cuda")
cli.add_argument("--hidden", type=int, default=1024)
cli.add_argument("--layers", type=int, default=14)
cli.add_argument("--batch", type=int, default=4)
cli.add_argument("--seq", type=int, default=1000)
cli = cli.parse_args()

torch.manual_seed(17)
torch.set_default_dtype(torch.bfloat16)
with torch.device(cli.device):
    model = OPTForCausalLM(OPTConfig(
        vocab_size=50_272, hidden_size=cli.hidden, ffn_dim=4 * cli.hidden, num_hidden_layers=cli.layers, num_attention_heads=16,
        word_embed_proj_dim=cli.hidden, max_position_embeddings=2048, dropout=0.0, attention_dropout=0.0))
torch.set_default_dtype(torch.float32)
owners = {w: torch.optim.AdamW([w], lr=1e-5) for w in model.parameters()}


def update(weight):
    owners[weight].step()
    owners[weight].zero_grad()


for weight in model.parameters():
    weight.register_post_accumulate_grad_hook(update)
for step in range(3):
    ids = torch.randint(0, 50_272, (cli.batch, cli.seq))
    mask = (torch.arange(cli.seq)[None] < torch.randint(cli.seq // 2, cli.seq, (cli.batch, 1))).long()
    labels = ids.masked_fill(mask == 0, -100)
    ids, mask, labels = (t.to(cli.device) for t in (ids, mask, labels))
    loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    loss.backward()
    print("loss", float(loss))
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
