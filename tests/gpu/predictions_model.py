"""predictions_model.py MODEL [EDIT[=VALUE]...] - trains MODEL, changed as the edits of `vramscope whatif --edit` say; prints PyTorch's
own peaks as JSON. MODEL: a name of TRANSFORMERS, VISION or own(), behind some "-autocast".
"""

import json
import sys
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

LENGTHS = (137, 512, 300, 768, 64, 431, 650, 222, 768, 90, 377, 512, 601, 245)

TRANSFORMERS = {  # config and model of the library, batch and length (None: one of LENGTHS), sizes
    "llama": ("Llama", "ForCausalLM", (4, 512), dict(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=6, num_attention_heads=16,
        num_key_value_heads=16, max_position_embeddings=4096)),
    "qwen": ("Qwen2", "ForCausalLM", (3, 1024), dict(vocab_size=50000, hidden_size=896, intermediate_size=4864, num_hidden_layers=5, num_attention_heads=14,
        num_key_value_heads=2, tie_word_embeddings=True, max_position_embeddings=4096)),
    "t5": ("T5", "ForConditionalGeneration", (9, 640), dict(vocab_size=32128, d_model=640, d_kv=64, d_ff=1712, num_layers=5, num_decoder_layers=6, num_heads=10,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0, use_cache=False)),
    "bart": ("Bart", "ForConditionalGeneration", (7, 480), dict(vocab_size=16000, d_model=576, encoder_layers=4, decoder_layers=5, encoder_attention_heads=9,
        decoder_attention_heads=9, encoder_ffn_dim=2000, decoder_ffn_dim=1700, max_position_embeddings=1024)),
    "bloom": ("Bloom", "ForCausalLM", (5, 610), dict(vocab_size=15000, hidden_size=640, n_layer=5, n_head=10)),
    "neox": ("GPTNeoX", "ForCausalLM", (7, 390), dict(vocab_size=21000, hidden_size=704, num_hidden_layers=5, num_attention_heads=11, intermediate_size=2500,
        max_position_embeddings=1024)),
    "roberta": ("Roberta", "ForMaskedLM", (9, 450), dict(vocab_size=17000, hidden_size=576, num_hidden_layers=6, num_attention_heads=9, intermediate_size=2100,
        max_position_embeddings=1026)),
    "pegasus": ("Pegasus", "ForConditionalGeneration", (8, 330), dict(vocab_size=19000, d_model=512, encoder_layers=4, decoder_layers=3,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=1800, decoder_ffn_dim=1500, max_position_embeddings=1024)),
    "mistral": ("Mistral", "ForCausalLM", (3, 900), dict(vocab_size=26000, hidden_size=768, intermediate_size=2200, num_hidden_layers=5, num_attention_heads=12,
        num_key_value_heads=4, max_position_embeddings=2048, sliding_window=None)),
    "qwen3": ("Qwen3", "ForCausalLM", (4, 720), dict(vocab_size=44000, hidden_size=640, intermediate_size=1900, num_hidden_layers=5, num_attention_heads=10,
        num_key_value_heads=5, head_dim=64, max_position_embeddings=2048)),
    "gpt2": ("GPT2", "LMHeadModel", (6, 480), dict(vocab_size=23000, n_embd=704, n_layer=5, n_head=11, n_positions=1024)),
    "mpt": ("Mpt", "ForCausalLM", (5, 590), dict(vocab_size=16000, d_model=640, n_layers=5, n_heads=10, max_seq_len=1024)),
    "codegen": ("CodeGen", "ForCausalLM", (6, 450), dict(vocab_size=18000, n_embd=704, n_layer=5, n_head=8, rotary_dim=32, n_positions=1024)),
    "gptneo": ("GPTNeo", "ForCausalLM", (5, 530), dict(vocab_size=17000, hidden_size=640, num_layers=6, num_heads=10, attention_types=[[["global", "local"],
        3]], max_position_embeddings=1024)),
    "deberta": ("DebertaV2", "ForMaskedLM", (6, 400), dict(vocab_size=19000, hidden_size=576, num_hidden_layers=6, num_attention_heads=9,
        intermediate_size=2100, max_position_embeddings=1024, relative_attention=True, pos_att_type=["p2c", "c2p"])),
    "gptj": ("GPTJ", "ForCausalLM", (4, 610), dict(vocab_size=15000, n_embd=640, n_layer=5, n_head=10, rotary_dim=32, n_positions=1024)),
    "opt": ("OPT", "ForCausalLM", (6, 530), dict(vocab_size=14000, hidden_size=672, word_embed_proj_dim=672, ffn_dim=2500, num_hidden_layers=5,
        num_attention_heads=12, max_position_embeddings=1024)),
    "whisper": ("Whisper", "ForConditionalGeneration", (5, 220), dict(vocab_size=11000, d_model=448, encoder_layers=4, decoder_layers=4,
        encoder_attention_heads=7, decoder_attention_heads=7, encoder_ffn_dim=1700, decoder_ffn_dim=1500, num_mel_bins=80, max_source_positions=750,
        decoder_start_token_id=1, pad_token_id=0, bos_token_id=1, eos_token_id=2)),
    "gemma": ("Gemma", "ForCausalLM", (4, 600), dict(vocab_size=18000, hidden_size=704, intermediate_size=2400, num_hidden_layers=5, num_attention_heads=8,
        num_key_value_heads=8, head_dim=88, max_position_embeddings=2048)),
    "phi": ("Phi", "ForCausalLM", (5, 560), dict(vocab_size=22000, hidden_size=832, intermediate_size=3100, num_hidden_layers=5, num_attention_heads=13,
        max_position_embeddings=1024)),
    "olmo": ("Olmo2", "ForCausalLM", (4, 650), dict(vocab_size=27000, hidden_size=768, intermediate_size=2300, num_hidden_layers=5, num_attention_heads=12,
        num_key_value_heads=6, max_position_embeddings=1024)),
    "granitemoe": ("GraniteMoe", "ForCausalLM", (5, 620), dict(vocab_size=20000, hidden_size=640, intermediate_size=1100, num_hidden_layers=4,
        num_attention_heads=10, num_key_value_heads=5, num_local_experts=7, num_experts_per_tok=2, max_position_embeddings=1024)),
    "mixtral": ("Mixtral", "ForCausalLM", (5, 700), dict(vocab_size=24000, hidden_size=640, intermediate_size=1600, num_hidden_layers=4, num_attention_heads=10,
        num_key_value_heads=5, num_local_experts=6, num_experts_per_tok=2, max_position_embeddings=2048)),
    "lengths": ("GPT2", "LMHeadModel", (6, None), dict(vocab_size=20000, n_embd=768, n_layer=6, n_head=12, n_positions=2048)),
    "bert-lengths": ("Bert", "ForMaskedLM", (12, None), dict(vocab_size=30522, hidden_size=512, num_hidden_layers=8, num_attention_heads=8,
        intermediate_size=2048, max_position_embeddings=2048)),
}
SHAPES = {name: row[2] for name, row in TRANSFORMERS.items()}
VISION = {  # torchvision's function, images of a batch, their side
    "cnn": ("resnet50", 32, 224), "vit": ("vit_b_32", 24, 384), "convnext": ("convnext_tiny", 20, 208), "swin": ("swin_t", 18, 224),
    "regnet": ("regnet_y_1_6gf", 30, 180), "mobilenet": ("mobilenet_v3_large", 44, 192), "efficientnet2": ("efficientnet_v2_s", 14, 224),
    "densenet": ("densenet121", 20, 184), "resnext": ("resnext50_32x4d", 18, 208), "efficientnet": ("efficientnet_b1", 28, 200),
}
LAYERS = {  # where the layers are, of which checkpoint=N recomputes each Nth
    "model.layers": "llama qwen mixtral gemma phi olmo granitemoe", "model.decoder.layers": "opt", "model.encoder.layers model.decoder.layers": "bart whisper",
    "encoder.block decoder.block": "t5", "layers.layers": "encoder encoder32", "layers": "unet lstm gru elman dunet", "transformer.h": "lengths",
    "bert.encoder.layer": "bert-lengths", "encoder.layers": "vit",
}
STAGES = {"features": "convnext efficientnet swin mobilenet efficientnet2", "trunk_output": "regnet"}


def transformer(which):
    import transformers as T

    family, model, shape, sizes = TRANSFORMERS[which]
    return getattr(T, family + model)(getattr(T, family + "Config")(**sizes)), shape, sizes["vocab_size"]


def layers_of(net, which):
    for where, models in LAYERS.items():
        if which in models.split():
            return [layer for place in where.split() for layer in net.get_submodule(place)]
    for where, models in STAGES.items():
        if which in models.split():
            return blocks_of(net.get_submodule(where))
    if which == "densenet":
        return [part for name, part in net.features.named_children() if name[:-1] in ("denseblock", "transition")]
    return blocks_of((net.layer1, net.layer2, net.layer3, net.layer4))


def blocks_of(stages):
    """A stage's own blocks; a Sequential of single operations is a block itself."""
    blocks = []
    for stage in stages:
        is_stage = isinstance(stage, nn.Sequential) and any(len(list(block.children())) for block in stage)
        blocks += list(stage) if is_stage else [stage]
    return blocks


def vision(which):
    import torchvision

    function, batch, side = VISION[which]
    return getattr(torchvision.models, function)(**({"image_size": side} if which == "vit" else {})), (batch, side)


class Residual(nn.Module):
    """Two convolutions, between them what the step of the diffusion adds; attention over all places where HEADS."""

    def __init__(self, inner, outer, heads=0):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.GroupNorm(8, inner), nn.GroupNorm(8, outer), heads
        self.conv1, self.conv2 = nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)
        self.time, self.skip = nn.Linear(256, outer), nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()
        if heads:
            self.norm3, self.qkv, self.out = nn.GroupNorm(8, outer), nn.Conv2d(outer, 3 * outer, 1), nn.Conv2d(outer, outer, 1)

    def forward(self, x, t):
        y = self.conv1(nn.functional.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        y = self.skip(x) + self.conv2(nn.functional.silu(self.norm2(y)))
        if not self.heads:
            return y
        b, c, h, w = y.shape
        q, k, v = self.qkv(self.norm3(y)).view(b, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        return y + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, widths=(96, 192, 384)):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, widths[0], 3, padding=1), nn.Conv2d(widths[0], 3, 3, padding=1)
        down = [Residual(a, b, 4 * (b == widths[-1])) for a, b in zip((widths[0],) + widths, widths)]
        up = [Residual(2 * b, a, 4 * (b == widths[-1])) for a, b in zip((widths[0],) + widths, widths)]
        self.layers, self.depth = nn.ModuleList(down + up[::-1]), len(widths)

    def forward(self, x, t):
        x, kept = self.first(x), []
        for i in range(self.depth):
            x = self.layers[i](x, t)
            kept.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        for i in range(self.depth):
            x = nn.functional.interpolate(x, scale_factor=2)
            x = self.layers[self.depth + i](torch.cat((x, kept.pop()), 1), t)
        return self.last(x)


class Recurrent(nn.Module):
    def __init__(self, vocabulary=20000, width=768, depth=3):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(depth))
        self.drop = nn.Dropout(0.1)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = self.drop(layer(x)[0])
        return self.head(x)


class Tagger(nn.Module):
    """A word for each place, of both directions."""

    def __init__(self, vocabulary=9000, width=448, tags=40):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(2 * width, tags)
        self.layers = nn.ModuleList([nn.GRU(width, width, 2, bidirectional=True, dropout=0.1, batch_first=True),
                                     nn.LSTM(2 * width, 3 * width, proj_size=2 * width, batch_first=True)])

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)[0]
        return self.head(x)


class Encoder(nn.Module):
    """PyTorch's own layers, and a line of ours that calls the loss."""

    def __init__(self, vocabulary=13000, width=480):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 8, 1700, batch_first=True), 6)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids)))


class Elman(nn.Module):
    """The next value of a signal."""

    def __init__(self, width=900):
        super().__init__()
        self.first, self.last = nn.Linear(24, width), nn.Linear(width, 24)
        self.layers = nn.ModuleList([nn.RNN(width, width, 3, batch_first=True), nn.GRU(width, width, batch_first=True)])

    def forward(self, x):
        y = self.first(x)
        for layer in self.layers:
            y = y + layer(y)[0]
        return self.last(y)


# ---- a model and the loss of a step ----


def own(which, batch_scale, sequence_scale, dtype, device):
    """The classes above: the model, a batch as it is without an edit, and the loss of it."""
    def noise(net, batch, length):  # a step of a diffusion model's training: the noise is what is to be found
        side = 160 if which == "dunet" else 128
        x, t = torch.randn(batch, 3, side, side, device=device, dtype=dtype), torch.rand(batch, 256, device=device, dtype=dtype)
        noise = torch.randn_like(x)
        return nn.functional.mse_loss(net(x + noise, t), noise)

    def signal(net, batch, length):
        x = torch.randn(batch, length + 1, 24, device=device, dtype=dtype)
        return nn.functional.mse_loss(net(x[:, :-1]), x[:, 1:])

    def words(net, batch, length):
        ids = torch.randint(net.embed.num_embeddings, (batch, length), device=device)
        y = net(ids).flatten(0, 1)
        return nn.functional.cross_entropy(y.float() if which == "encoder32" else y, (ids % 40 if which == "gru" else ids).flatten())

    make, batch, length, loss = {"unet": (UNet, 16, 0, noise), "dunet": (lambda: UNet((64, 128, 320, 448)), 12, 0, noise), "elman": (Elman, 36, 420, signal),
                                 "gru": (Tagger, 40, 300, words), "lstm": (Recurrent, 24, 250, words)}.get(which, (Encoder, 10, 410, words))
    net = make().to(device=device, dtype=dtype).train()
    return net, lambda step: loss(net, int(batch * batch_scale), int(length * sequence_scale))


def workload(which, batch_scale, sequence_scale, dtype, device):
    """The model, and a function that gives the loss of a step."""
    if which in VISION:
        net, (batch, size) = vision(which)
        batch = int(batch * batch_scale)
        net = net.to(device=device, dtype=dtype).train()

        def loss(step):
            x = torch.randn(batch, 3, size, size, device=device, dtype=dtype)
            y = torch.randint(1000, (batch,), device=device)
            return nn.functional.cross_entropy(net(x), y)

        return net, loss
    if which.removesuffix("-autocast") not in TRANSFORMERS:
        return own(which, batch_scale, sequence_scale, dtype, device)
    net, (batch, length), vocabulary = transformer(which.removesuffix("-autocast"))
    batch = int(batch * batch_scale)
    net.config.use_cache = False  # a cache of keys and values is of no use in training
    net = net.to(device=device, dtype=dtype).train()

    def loss(step):
        s = int((length or LENGTHS[step % len(LENGTHS)]) * sequence_scale)
        ids = torch.randint(vocabulary, (batch, s), device=device)
        if which == "whisper":
            return net(input_features=torch.randn(batch, 80, 1500, device=device, dtype=dtype), labels=ids).loss
        if which in ("t5", "bart", "pegasus"):
            return net(input_ids=ids, labels=ids[:, : s // 3].contiguous()).loss
        return net(input_ids=ids, labels=ids).loss

    return net, loss


def recompute(layers, every):
    for i, layer in enumerate(layers):
        if i % every == 0:
            def forward(*args, _was=layer.forward, **kwargs):
                return checkpoint(_was, *args, use_reentrant=False, **kwargs)
            layer.forward = forward


# ---- optimizers: states of fewer bytes by a kernel that needs no temporaries, states on the host, one in backward ----


def small_kernel():
    import triton
    import triton.language as tl

    @triton.jit
    def adam(p, g, m, v, ms, vs, n, lr, BYTES: tl.constexpr):
        i = tl.program_id(0)
        at = i * 256 + tl.arange(0, 256)
        live = at < n
        grad = tl.load(g + at, live, 0).to(tl.float32)
        if BYTES == 1:
            a = tl.load(m + at, live, 0).to(tl.float32) * tl.load(ms + i)
            b = tl.load(v + at, live, 0).to(tl.float32) * tl.load(vs + i)
        else:
            a = tl.load(m + at, live, 0).to(tl.float32)
            b = tl.load(v + at, live, 0).to(tl.float32)
        a = 0.9 * a + 0.1 * grad
        b = 0.999 * b + 0.001 * grad * grad
        x = tl.load(p + at, live, 0).to(tl.float32)
        tl.store(p + at, (x - lr * a / (tl.sqrt(b) + 1e-8)), live)
        if BYTES == 1:
            x, y = tl.max(tl.abs(a)) / 127 + 1e-30, tl.max(b) / 127 + 1e-30
            tl.store(ms + i, x)
            tl.store(vs + i, y)
            tl.store(m + at, (a / x).to(tl.int8), live)
            tl.store(v + at, (b / y).to(tl.int8), live)
        else:
            tl.store(m + at, a, live)
            tl.store(v + at, b, live)

    return adam


class SmallStates(torch.optim.Optimizer):
    """Adam whose states are bf16, or 8 bits with a scale per 256 (tensors below 4096 elements stay fp32), as bitsandbytes has them."""

    def __init__(self, params, bytes_each):
        super().__init__(list(params), {})
        self.each, self.kernel = bytes_each, small_kernel() if self.param_groups[0]["params"][0].is_cuda else None

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                s, n = self.state[p], p.numel()
                tiny = self.each == 1 and n < 4096
                if not s:
                    dtype = torch.float32 if tiny else torch.int8 if self.each == 1 else torch.bfloat16
                    for name in "mv":  # each is there before the next one is asked for
                        s[name] = torch.zeros(p.shape, dtype=dtype, device=p.device)
                    if self.each == 1 and not tiny:
                        s["ms"], s["vs"] = (torch.zeros((n + 255) // 256, device=p.device) for _ in range(2))
                if self.kernel is None:  # on a CPU nothing but the states is of interest
                    continue
                self.kernel[((n + 255) // 256,)](p, p.grad.contiguous(), s["m"], s["v"], s.get("ms", p), s.get("vs", p), n, 1e-4,
                                                 BYTES=1 if self.each == 1 and not tiny else 2)


class OnHost(torch.optim.Optimizer):
    """The states, a copy of the parameters and the update are the host's."""

    def __init__(self, params):
        super().__init__(list(params), {})
        self.device_params = [p for g in self.param_groups for p in g["params"]]
        if not self.device_params[0].is_cuda:  # on a CPU nothing is the host's
            self.device_params = []
        self.host = [torch.nn.Parameter(p.detach().cpu()) for p in self.device_params] or [torch.nn.Parameter(torch.zeros(1))]
        self.inner = torch.optim.AdamW(self.host)

    @torch.no_grad()
    def step(self, closure=None):
        for p, h in zip(self.device_params, self.host):
            h.grad = None if p.grad is None else p.grad.cpu()
        self.inner.step()
        for p, h in zip(self.device_params, self.host):
            p.copy_(h)


class InBackward:
    """An optimizer for each parameter, which steps as soon as its gradient is there, and frees that."""

    def __init__(self, params, make=lambda params: torch.optim.AdamW(params, foreach=False)):
        self.optimizers = {p: make([p]) for p in params}
        for p in self.optimizers:
            p.register_post_accumulate_grad_hook(self.now)

    def now(self, p):
        self.optimizers[p].step()
        p.grad = None

    def step(self):
        pass

    def zero_grad(self, set_to_none=True):
        pass


def optimizer_of(net, edits):
    params = list(net.parameters())
    if "gradients" in edits:
        return InBackward(params)
    if edits.get("states") in ("bf16", "8bit"):
        return SmallStates(params, 1 if edits["states"] == "8bit" else 2)
    if edits.get("states") == "host":
        return OnHost(params)
    if "optimizer" in edits:
        return torch.optim.AdamW(params, fused=True)
    return torch.optim.AdamW(params, foreach=False if "foreach" in edits else None)


def train(which, edits, steps, device="cuda", base=(1, 1), at=None):
    """BASE: factors of the model's shape, before any edit.  AT: a dictionary that gets where it is, and the model with its optimizer."""
    at = {} if at is None else at
    torch.manual_seed(1)
    dtype = torch.bfloat16 if edits.get("types") == "bf16" else torch.float32
    net, loss = workload(which, base[0] * float(edits.get("batch", 1)), base[1] * float(edits.get("sequence", 1)), dtype, device)
    if "checkpoint" in edits:
        recompute(layers_of(net, which), int(edits["checkpoint"] or 1))
    if "loss" in edits:
        import vramscope

        vramscope.patch_loss(net)
    optimizer = optimizer_of(net, edits)
    at["trained"] = net, optimizer
    for step in range(steps):
        for part in range(int(edits.get("accumulate", 1))):
            at.update(step=step + 1, place="forward")
            with torch.autocast(device, torch.bfloat16, enabled=which.endswith("-autocast") and dtype == torch.float32):
                out = loss(step)
            at["place"] = "backward"
            out.backward()
            del out
        at["place"] = "optimizer"
        optimizer.step()
        optimizer.zero_grad()


def main(which, *changes):
    begun = time.time()
    edits = {c.partition("=")[0]: c.partition("=")[2] for c in changes}
    refused = None
    if "limit" in edits:  # MiB; the run is to end there
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(float(edits["limit"]) * 2**20 / total)
    try:
        train(which, edits, int(edits.get("steps", len(LENGTHS) if "lengths" in which else 5)))
        torch.cuda.synchronize()
    except torch.OutOfMemoryError as error:
        refused = str(error)[:400]
    try:
        peaks = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    except Exception:  # an allocator that does not count
        peaks = {}
    print(json.dumps({"model": which, "edits": edits, "refused": refused, "seconds": round(time.time() - begun, 1), **peaks}))


if __name__ == "__main__":
    main(*sys.argv[1:])
