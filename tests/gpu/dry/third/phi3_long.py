"""Phi-3 on long rows, recomputed or not; the head sees each row's last part."""
import logging

import torch
from transformers import Phi3Config, Phi3ForCausalLM

from kit import memory, options

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("train")


def main():
    a = options(hidden=1280, layers=12, vocab=32_064, batch=2, seq=6000, answer=1100, recompute="plain")
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
        memory(step=step)


if __name__ == "__main__":
    main()
