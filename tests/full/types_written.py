"""types_written.py MODEL WHAT LOG - trains a small MODEL of Hugging Face's whose attention is written in Python on the CPU, for
types_written.sh: base writes the element type and shape of each tensor that an operation gave to LOG; plain is the same without; bf16."""
import json
import sys
import time

import torch
import transformers as T
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

name, what, path = sys.argv[1:4]
rows, WIDTH, WORDS = [], 256, 3000
MODELS = {
    "bloom": lambda: T.BloomForCausalLM(T.BloomConfig(vocab_size=WORDS, hidden_size=WIDTH, n_layer=4, n_head=8)),
    "mpt": lambda: T.MptForCausalLM(T.MptConfig(vocab_size=WORDS, d_model=WIDTH, n_layers=4, n_heads=8, max_seq_len=512)),
    "bert": lambda: T.BertForMaskedLM(T.BertConfig(vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=4, num_attention_heads=8, intermediate_size=4 * WIDTH, attn_implementation="eager")),
    "llama": lambda: T.LlamaForCausalLM(T.LlamaConfig(vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=700, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=8,
                                                      attn_implementation="eager")),
    "gptj": lambda: T.GPTJForCausalLM(T.GPTJConfig(vocab_size=WORDS, n_embd=WIDTH, n_layer=4, n_head=8, rotary_dim=16, attn_implementation="eager")),
    "codegen": lambda: T.CodeGenForCausalLM(T.CodeGenConfig(vocab_size=WORDS, n_embd=WIDTH, n_layer=4, n_head=8, rotary_dim=16)),
}


class Log(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in tree_flatten(out)[0]:
            if isinstance(t, torch.Tensor) and t.layout == torch.strided and t.untyped_storage().nbytes() >= 1024:
                s = t.untyped_storage()
                rows.append((s.data_ptr(), time.time_ns(), str(t.dtype)[6:], list(t.shape), s.nbytes()))
        return out


def train():
    torch.manual_seed(0)
    net = MODELS[name]()
    net.config.use_cache = False
    net.train()
    if what == "bf16":
        net = net.bfloat16()
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
    for _ in range(3):
        ids = torch.randint(3, WORDS, (2, 320))
        loss = net(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss


if what == "base":
    with Log():
        train()
    with open(path, "w") as f:
        json.dump(rows, f)
else:
    train()
