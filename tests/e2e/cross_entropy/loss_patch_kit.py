"""loss_patch_kit.py - small Hugging Face models with random weights, text for them, and training, for the tests of patch_loss."""
import logging
import os
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here comes from anywhere
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("BINDING") or os.path.join(HERE, "../../../shim/framework/python"))
transformers.logging.set_verbosity_error()
logging.disable(logging.WARNING)
warnings.simplefilter("ignore")

SMALL = dict(vocab_size=307, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=256)  # fmt: skip
CAPPED = dict(final_logit_softcapping=5.0)
FAMILIES = {  # name: (configuration, model, what it has beside SMALL)
    "Llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "Llama, tied": ("LlamaConfig", "LlamaForCausalLM", dict(tie_word_embeddings=True)),
    "Mistral": ("MistralConfig", "MistralForCausalLM", {}),
    "Qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {}),
    "Qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {}),
    "Gemma": ("GemmaConfig", "GemmaForCausalLM", {}),
    "Gemma2": ("Gemma2Config", "Gemma2ForCausalLM", CAPPED),
    "Gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", CAPPED),
    "GPT2": ("GPT2Config", "GPT2LMHeadModel", dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, eos_token_id=0, bos_token_id=0)),
}


def make(name, dtype=torch.float32, device="cpu", **sizes):
    """The model NAME in training mode, the same weights each time."""
    config, model, more = FAMILIES[name]
    torch.manual_seed(0)
    config = getattr(transformers, config)(**{**SMALL, "pad_token_id": None, **more, **sizes})
    with torch.device(device):
        return getattr(transformers, model)(config).to(dtype).train()


def text(step, vocab=307, batch=2, length=16, device="cpu"):
    """Token ids in which most follow from the one before, and labels of which the first few are padding."""
    random = torch.Generator().manual_seed(step)
    ids = (torch.randint(vocab, (batch, 1), generator=random) + 7 * torch.arange(length)) % vocab
    noise = torch.rand(batch, length, generator=random) < 0.1
    ids = torch.where(noise, torch.randint(vocab, (batch, length), generator=random), ids)
    labels = ids.clone()
    labels[0, : length // 4] = -100
    return dict(input_ids=ids.to(device), labels=labels.to(device))


def train(model, steps, lr=1e-3, **batch):
    """The losses of STEPS steps of AdamW."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=lr), []
    for step in range(steps):
        loss = model(**text(step, **batch)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    return [float(loss) for loss in losses]


def furthest(a, b):
    return max(abs(x - y) / abs(x) for x, y in zip(a, b, strict=True))
