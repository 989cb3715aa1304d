"""types_dry.py KIND WHAT VOCAB LAYERS WIDTH TOKENS - trains three steps for types_dry.sh: KIND llama, qwen, gpt2 (Hugging Face's, loss in fp32), wide
or narrow (a loss in fp32 or in the logits' type); WHAT fp32, autocast or bf16."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

kind, what, (V, L, H, N) = *sys.argv[1:3], map(int, sys.argv[3:7])
dtype = torch.bfloat16 if what == "bf16" else torch.float32


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(V, H), nn.Linear(H, V, bias=False)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(H, 8, 4 * H, 0.0, batch_first=True, norm_first=True) for _ in range(L))

    def forward(self, input_ids, labels):
        h = self.embed(input_ids)
        for block in self.blocks:
            h = block(h)
        logits = self.head(h).view(-1, V)
        return F.cross_entropy(logits.float() if kind == "wide" else logits, labels.view(-1)), logits


def make():
    if kind in ("wide", "narrow"):
        return Decoder()
    import transformers as t
    if kind == "gpt2":
        return t.GPT2LMHeadModel(t.GPT2Config(n_embd=H, n_layer=L, n_head=8, vocab_size=V, n_positions=N, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    sizes = {"hidden_size": H, "intermediate_size": 3 * H, "num_hidden_layers": L, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": V}
    return t.LlamaForCausalLM(t.LlamaConfig(**sizes)) if kind == "llama" else t.Qwen2ForCausalLM(t.Qwen2Config(**sizes, tie_word_embeddings=True))


model = make().to("cuda", dtype)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
tokens = torch.zeros(2, N // 2, dtype=torch.long, device="cuda")
for _ in range(3):
    with torch.autocast("cuda", torch.bfloat16, enabled=what == "autocast"):
        loss = model(input_ids=tokens, labels=tokens)[0]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
