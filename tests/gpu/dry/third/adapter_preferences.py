"""bf16 GLM with LoRA, which switched off is the reference; recomputed layers."""
import torch
from peft import LoraConfig, get_peft_model
from transformers import GlmConfig, GlmForCausalLM

from kit import memory, options


def answers(a):
    """Rows of one length for the side, prompts on the left, and which places are answers."""
    lengths = torch.randint(a.longest // 2, a.longest + 1, (a.pairs,))
    place = torch.arange(int(lengths.max()))[None]
    mask = place < lengths[:, None]
    ids = torch.randint(10, a.vocab, mask.shape).masked_fill(~mask, 0)
    return ids.to(a.device), mask.long().to(a.device), (mask & (place >= a.longest // 5)).to(a.device)


def mean_log(model, ids, mask, answer):
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1].float()
    picked = logits.gather(2, ids[:, 1:, None]).squeeze(2) - logits.logsumexp(2)
    return (picked * answer[:, 1:]).sum(1) / answer[:, 1:].sum(1)


def main():
    a = options(hidden=1536, layers=14, vocab=59_000, rank=32, pairs=3, longest=512, beta=0.1)
    torch.manual_seed(1046)
    base = GlmForCausalLM(GlmConfig(
        vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=a.hidden * 3, num_hidden_layers=a.layers, head_dim=64,
        num_attention_heads=a.hidden // 64, num_key_value_heads=max(1, a.hidden // 512), pad_token_id=0, eos_token_id=1, bos_token_id=2)).to(torch.bfloat16)
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    base.enable_input_require_grads()
    model = get_peft_model(base, LoraConfig(r=a.rank, lora_alpha=2 * a.rank, lora_dropout=0.05, use_rslora=True,
                                            target_modules=["q_proj", "v_proj", "o_proj", "gate_up_proj"])).to(a.device)
    model.train()
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW([w for w in model.parameters() if w.requires_grad], lr=5e-6)
    for step in range(3):
        chosen, rejected = answers(a), answers(a)
        with torch.no_grad(), model.disable_adapter():
            before = [mean_log(model, *side) for side in (chosen, rejected)]
        with torch.autocast(a.device, dtype=torch.bfloat16):
            now = [mean_log(model, *side) for side in (chosen, rejected)]
        margin = (now[0] - before[0]) - (now[1] - before[1])
        loss = (margin - 1 / (2 * a.beta)).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
        print({"loss": round(loss.item(), 4), "accuracy": (margin > 0).float().mean().item()})
        memory(step=step)


main()
