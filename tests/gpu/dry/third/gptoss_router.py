"""GPT-OSS: sinks in attention, windows, experts; the router a group of its own."""
import torch
from transformers import GptOssConfig, GptOssForCausalLM

from kit import memory, options

a = options(hidden=640, layers=6, experts=8, vocab=40_000, batch=3, seq=512)
torch.manual_seed(1048)
model = GptOssForCausalLM(GptOssConfig(
    vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=a.hidden, num_hidden_layers=a.layers, num_local_experts=a.experts,
    num_experts_per_tok=2, head_dim=64, num_attention_heads=a.hidden // 64, num_key_value_heads=a.hidden // 320 or 1, sliding_window=128,
    max_position_embeddings=2048, output_router_logits=True, router_aux_loss_coef=0.02, pad_token_id=0, eos_token_id=1,
    rope_parameters={"rope_type": "default", "rope_theta": 150_000.0})).to(a.device, torch.bfloat16)
model.train()
routers = [w for n, w in model.named_parameters() if ".router." in n]
chosen = {id(w) for w in routers}
optimizer = torch.optim.AdamW([{"params": routers, "lr": 1e-5}, {"params": [w for w in model.parameters() if id(w) not in chosen]}], lr=1e-4)
schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, 0.3, 2)
for step in range(3):
    ids = torch.randint(2, a.vocab, (a.batch, a.seq)).to(a.device)
    out = model(input_ids=ids, labels=ids, use_cache=False)
    out.loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    print(f"step {step} loss {out.loss.item():.4f} balance {float(out.aux_loss):.4f} norm {norm.item():.3f}")
    memory(step=step)
