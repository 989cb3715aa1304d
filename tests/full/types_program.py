"""types_program.py MODEL WHAT LOG - trains MODEL on the CPU for types_predicted.sh: base, under autocast, in bf16, or plain, which is base without
LOG.  LOG gets the element type and shape of each tensor that an operation gave in base and autocast.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

name, what, path = sys.argv[1:4]
rows, WIDTH, WORDS = [], 256, 3000


class Log(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in tree_flatten(out)[0]:
            if isinstance(t, torch.Tensor) and t.layout == torch.strided and t.untyped_storage().nbytes() >= 1024:
                s = t.untyped_storage()
                rows.append((s.data_ptr(), time.time_ns(), str(t.dtype)[6:], list(t.shape), s.nbytes()))
        return out


class Block(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.qkv, self.o = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, 4, h // 4).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, h)
        x = x + self.o(a)
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self, h=256, v=4096):
        super().__init__()
        self.emb, self.layers = nn.Embedding(v, h), nn.ModuleList(Block(h) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(h), nn.Linear(h, v, bias=False)

    def forward(self, x):
        x = self.emb(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


# A CPU without AVX-512 has no kernel of oneDNN's for convolutions in 16 bits.  PyTorch's own then unfolds the data of all samples at once,
# nine times a layer's input for 3 x 3, and in fp32 never more than one sample's: no recording in fp32 shows that.  1 x 1 needs no unfolding.
KERNEL = 3 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else 1


class CNN(nn.Module):
    def __init__(self, c=(3, 32, 64, 128)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, KERNEL, padding=KERNEL // 2), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)) for a, b in zip(c, c[1:]))
        self.head = nn.Linear(128 * 8 * 8, 1000)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.flatten(1))


class MLP(nn.Module):
    def __init__(self, h=512):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(h), nn.Linear(h, 3 * h), nn.GELU(), nn.Dropout(0.1), nn.Linear(3 * h, h)) for _ in range(5))
        self.head = nn.Linear(h, 100)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def written():
    """Models of Hugging Face's whose attention is written in Python."""
    import transformers as T

    eager = {"attn_implementation": "eager"}
    return {
        "bloom": lambda: T.BloomForCausalLM(T.BloomConfig(vocab_size=WORDS, hidden_size=WIDTH, n_layer=4, n_head=8)),
        "mpt": lambda: T.MptForCausalLM(T.MptConfig(vocab_size=WORDS, d_model=WIDTH, n_layers=4, n_heads=8, max_seq_len=512)),
        "bert": lambda: T.BertForMaskedLM(T.BertConfig(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=4, num_attention_heads=8, intermediate_size=4 * WIDTH, **eager)),
        "llama": lambda: T.LlamaForCausalLM(T.LlamaConfig(vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=700, num_hidden_layers=4, num_attention_heads=8,
                                                          num_key_value_heads=8, **eager)),
        "gptj": lambda: T.GPTJForCausalLM(T.GPTJConfig(vocab_size=WORDS, n_embd=WIDTH, n_layer=4, n_head=8, rotary_dim=16, **eager)),
        "codegen": lambda: T.CodeGenForCausalLM(T.CodeGenConfig(vocab_size=WORDS, n_embd=WIDTH, n_layer=4, n_head=8, rotary_dim=16)),
    }[name]()


def make():
    if name in ("gpt", "cnn", "mlp"):
        return {"gpt": GPT, "cnn": CNN, "mlp": MLP}[name]()
    net = written()
    net.config.use_cache = False
    return net.train()


def data():
    if name == "gpt":
        return torch.randint(0, 4096, (8, 256)), torch.randint(0, 4096, (8, 256))
    if name == "cnn":
        return torch.randn(32, 3, 64, 64), torch.randint(0, 1000, (32,))
    return torch.randn(4096, 512), torch.randint(0, 100, (4096,))


def loss_of(net):
    if hasattr(net, "config"):
        ids = torch.randint(3, WORDS, (2, 320))
        return net(input_ids=ids, labels=ids).loss
    x, y = data()
    x = x.bfloat16() if what == "bf16" and x.is_floating_point() else x
    with torch.autocast("cpu", torch.bfloat16, enabled=what == "autocast"):
        out = net(x)
    return F.cross_entropy(out.flatten(0, -2).float(), y.flatten())


def train():
    torch.manual_seed(0)
    net = make()
    if what == "bf16":
        net = net.bfloat16()
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
    for _ in range(3):
        loss = loss_of(net)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss


if what in ("bf16", "plain"):
    train()
else:
    with Log():
        train()
    with open(path, "w") as f:
        json.dump(rows, f)
