"""LLaVA: the projector alone, then the language model, too; frozen vision tower."""
import torch
from transformers import CLIPVisionConfig, LlavaConfig, LlavaForConditionalGeneration, Qwen2Config

from kit import memory, options

a = options(hidden=896, layers=10, vision_width=768, vision_layers=12, image=224, vocab=50_000, batch=6, words=180)
torch.manual_seed(1014)
PATCH, IMAGE_TOKEN = 16, 5
vision = CLIPVisionConfig(hidden_size=a.vision_width, intermediate_size=4 * a.vision_width, num_hidden_layers=a.vision_layers,
                          num_attention_heads=a.vision_width // 64, image_size=a.image, patch_size=PATCH)
text = Qwen2Config(vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=a.hidden * 4, num_hidden_layers=a.layers,
                   num_attention_heads=a.hidden // 64, num_key_value_heads=a.hidden // 448 or 1, pad_token_id=0, bos_token_id=1, eos_token_id=2)
model = LlavaForConditionalGeneration(LlavaConfig(vision_config=vision, text_config=text, image_token_index=IMAGE_TOKEN)).to(a.device, torch.bfloat16)
tokens = (a.image // PATCH) ** 2


def train_only(*words):
    for name, weight in model.named_parameters():
        weight.requires_grad_(any(word in name for word in words))
    return [w for w in model.parameters() if w.requires_grad]


def batch(images):
    """Each row has its images' places first, then a question and an answer."""
    places = torch.full((a.batch, images * tokens), IMAGE_TOKEN)
    words = torch.randint(6, a.vocab, (a.batch, a.words))
    ids = torch.cat([places, words], 1)
    labels = ids.clone()
    labels[:, :images * tokens + a.words // 3] = -100
    pixels = torch.randn(a.batch * images, 3, a.image, a.image, dtype=torch.bfloat16)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels, "pixel_values": pixels}


step = 0
for stage, words, rate in ((1, ("multi_modal_projector",), 1e-3), (2, ("multi_modal_projector", "language_model", "lm_head"), 2e-5)):
    weights = train_only(*words)
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0)
    print(f"stage {stage}: {sum(w.numel() for w in weights) / 1e6:.1f} M of {model.num_parameters() / 1e6:.1f} M parameters")
    for _ in range(2):
        inputs = {k: v.to(a.device) for k, v in batch(stage).items()}
        loss = model(**inputs, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print("loss", loss.item())
        memory(step=step)
        step += 1
