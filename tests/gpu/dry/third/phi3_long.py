"""Phi-3 (fused projections) on long rows in bf16, with recomputed layers where asked for; the head sees only the last part of each row."""
import argparse
import json
import logging

import torch
from transformers import Phi3Config, Phi3ForCausalLM

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("train")


def main():
    p = argparse.ArgumentParser(description="fine-tuning on long rows")
    p.add_argument("--device", default="cuda")
    p.add_argument("--hidden", type=int, default=1280)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--vocab", type=int, default=32_064)
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--seq", type=int, default=6000)
    p.add_argument("--answer", type=int, default=1100)
    p.add_argument("--recompute", choices=("none", "reentrant", "plain"), default="plain")
    a = p.parse_args()
    torch.manual_seed(1003)
    config = Phi3Config(vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=a.hidden * 5 // 2, num_hidden_layers=a.layers,
                        num_attention_heads=a.hidden // 80, num_key_value_heads=a.hidden // 160, max_position_embeddings=8192,
                        original_max_position_embeddings=8192, pad_token_id=0, eos_token_id=1, bos_token_id=2, resid_pdrop=0.05)
    model = Phi3ForCausalLM(config).to(device=a.device, dtype=torch.bfloat16)
    model.train()
    if a.recompute != "none":
        model.gradient_checkpointing_enable({"use_reentrant": a.recompute == "reentrant"})
        model.enable_input_require_grads()
    log.info("%d parameters", model.num_parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-5, total_steps=50)
    for step in range(3):
        rows = torch.randint(3, a.vocab, (a.batch, a.seq)).to(a.device)
        logits = model(input_ids=rows, use_cache=False, logits_to_keep=a.answer + 1).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), rows[:, -a.answer:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=True)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        log.info("step %d loss %.4f norm %.3f", step, loss.item(), norm.item())
        print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}), flush=True)
    print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    main()
