"""predictions_model.py MODEL [EDIT[=VALUE]...] - trains MODEL for some steps, changed as the edits say; prints PyTorch's own peaks as JSON.

What `vramscope whatif --edit` predicts of a recording of MODEL alone, this program does: predictions.sh holds one against the other.

MODEL: llama, cnn, lengths (a GPT-2 whose batches have other lengths each time); qwen (tied embeddings, grouped heads), vit, bert-lengths, on which no rule was
made up to 2026-11-22; and since then t5 (an encoder and a decoder of other lengths), unet (skip connections, attention at its coarsest), mixtral (experts that a
router chooses), lstm (cuDNN's); and after 2026-11-23 bart (an encoder and a decoder again), gemma (norms and a loss of its own kind), gru (both directions, and an
LSTM that is projected), convnext (convolutions by channel), efficientnet (those and gates), dunet (a deeper UNet of other sizes), and then swin (attention in windows), regnet (grouped convolutions), opt, whisper (convolutions of sound, an encoder
and a decoder), elman (plain recurrent layers);
and for checkpoints of stages mobilenet, efficientnet2, densenet (whose blocks grow) and resnext; and for types and fused losses bloom, neox, roberta, pegasus, mistral, qwen3,
gpt2 (behind some "-autocast": as it is under autocast), mpt, codegen, gptneo, deberta and gptj, whose attention is written in Python; and for refusals.sh and
predictions_zero.sh phi, olmo and granitemoe; and encoder and encoder32, whose line that calls the loss takes its logits as they are, or in fp32.  EDIT: the names of
`vramscope whatif --edit`.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

SHAPES = {"llama": (4, 512), "qwen": (3, 1024), "mixtral": (5, 700), "bart": (7, 480), "gemma": (4, 600), "opt": (6, 530), "whisper": (5, 220),
          "bloom": (5, 610), "neox": (7, 390), "roberta": (9, 450), "pegasus": (8, 330), "mistral": (3, 900), "qwen3": (4, 720), "gpt2": (6, 480),
          "mpt": (5, 590), "codegen": (6, 450), "gptneo": (5, 530), "deberta": (6, 400), "gptj": (4, 610), "phi": (5, 560), "granitemoe": (5, 620), "olmo": (4, 650)}  # of a batch
LENGTHS = (137, 512, 300, 768, 64, 431, 650, 222, 768, 90, 377, 512, 601, 245)


def transformer(which):
    import transformers as T

    if which == "llama":
        c = T.LlamaConfig(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=6, num_attention_heads=16,
                          num_key_value_heads=16, max_position_embeddings=4096)
        return T.LlamaForCausalLM(c), SHAPES[which], 32000
    if which == "qwen":
        c = T.Qwen2Config(vocab_size=50000, hidden_size=896, intermediate_size=4864, num_hidden_layers=5, num_attention_heads=14,
                          num_key_value_heads=2, tie_word_embeddings=True, max_position_embeddings=4096)
        return T.Qwen2ForCausalLM(c), SHAPES[which], 50000
    if which == "t5":
        c = T.T5Config(vocab_size=32128, d_model=640, d_kv=64, d_ff=1712, num_layers=5, num_decoder_layers=6, num_heads=10,
                       feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0, use_cache=False)
        return T.T5ForConditionalGeneration(c), (9, 640), 32128
    if which == "bart":
        c = T.BartConfig(vocab_size=16000, d_model=576, encoder_layers=4, decoder_layers=5, encoder_attention_heads=9, decoder_attention_heads=9, encoder_ffn_dim=2000,
                         decoder_ffn_dim=1700, max_position_embeddings=1024)
        return T.BartForConditionalGeneration(c), SHAPES[which], 16000
    if which == "bloom":
        c = T.BloomConfig(vocab_size=15000, hidden_size=640, n_layer=5, n_head=10)
        return T.BloomForCausalLM(c), SHAPES[which], 15000
    if which == "neox":
        c = T.GPTNeoXConfig(vocab_size=21000, hidden_size=704, num_hidden_layers=5, num_attention_heads=11, intermediate_size=2500, max_position_embeddings=1024)
        return T.GPTNeoXForCausalLM(c), SHAPES[which], 21000
    if which == "roberta":
        c = T.RobertaConfig(vocab_size=17000, hidden_size=576, num_hidden_layers=6, num_attention_heads=9, intermediate_size=2100, max_position_embeddings=1026)
        return T.RobertaForMaskedLM(c), SHAPES[which], 17000
    if which == "pegasus":
        c = T.PegasusConfig(vocab_size=19000, d_model=512, encoder_layers=4, decoder_layers=3, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=1800,
                            decoder_ffn_dim=1500, max_position_embeddings=1024)
        return T.PegasusForConditionalGeneration(c), SHAPES[which], 19000
    if which == "mistral":
        c = T.MistralConfig(vocab_size=26000, hidden_size=768, intermediate_size=2200, num_hidden_layers=5, num_attention_heads=12, num_key_value_heads=4,
                            max_position_embeddings=2048, sliding_window=None)
        return T.MistralForCausalLM(c), SHAPES[which], 26000
    if which == "qwen3":
        c = T.Qwen3Config(vocab_size=44000, hidden_size=640, intermediate_size=1900, num_hidden_layers=5, num_attention_heads=10, num_key_value_heads=5, head_dim=64,
                          max_position_embeddings=2048)
        return T.Qwen3ForCausalLM(c), SHAPES[which], 44000
    if which == "gpt2":
        c = T.GPT2Config(vocab_size=23000, n_embd=704, n_layer=5, n_head=11, n_positions=1024)
        return T.GPT2LMHeadModel(c), SHAPES[which], 23000
    if which == "mpt":
        c = T.MptConfig(vocab_size=16000, d_model=640, n_layers=5, n_heads=10, max_seq_len=1024)
        return T.MptForCausalLM(c), SHAPES[which], 16000
    if which == "codegen":
        c = T.CodeGenConfig(vocab_size=18000, n_embd=704, n_layer=5, n_head=8, rotary_dim=32, n_positions=1024)
        return T.CodeGenForCausalLM(c), SHAPES[which], 18000
    if which == "gptneo":
        c = T.GPTNeoConfig(vocab_size=17000, hidden_size=640, num_layers=6, num_heads=10, attention_types=[[["global", "local"], 3]], max_position_embeddings=1024)
        return T.GPTNeoForCausalLM(c), SHAPES[which], 17000
    if which == "deberta":
        c = T.DebertaV2Config(vocab_size=19000, hidden_size=576, num_hidden_layers=6, num_attention_heads=9, intermediate_size=2100, max_position_embeddings=1024, relative_attention=True,
                              pos_att_type=["p2c", "c2p"])
        return T.DebertaV2ForMaskedLM(c), SHAPES[which], 19000
    if which == "gptj":
        c = T.GPTJConfig(vocab_size=15000, n_embd=640, n_layer=5, n_head=10, rotary_dim=32, n_positions=1024)
        return T.GPTJForCausalLM(c), SHAPES[which], 15000
    if which == "opt":
        c = T.OPTConfig(vocab_size=14000, hidden_size=672, word_embed_proj_dim=672, ffn_dim=2500, num_hidden_layers=5, num_attention_heads=12, max_position_embeddings=1024)
        return T.OPTForCausalLM(c), SHAPES[which], 14000
    if which == "whisper":
        c = T.WhisperConfig(vocab_size=11000, d_model=448, encoder_layers=4, decoder_layers=4, encoder_attention_heads=7, decoder_attention_heads=7, encoder_ffn_dim=1700,
                            decoder_ffn_dim=1500, num_mel_bins=80, max_source_positions=750, decoder_start_token_id=1, pad_token_id=0, bos_token_id=1, eos_token_id=2)
        return T.WhisperForConditionalGeneration(c), SHAPES[which], 11000
    if which == "gemma":
        c = T.GemmaConfig(vocab_size=18000, hidden_size=704, intermediate_size=2400, num_hidden_layers=5, num_attention_heads=8, num_key_value_heads=8, head_dim=88,
                          max_position_embeddings=2048)
        return T.GemmaForCausalLM(c), SHAPES[which], 18000
    if which == "phi":
        c = T.PhiConfig(vocab_size=22000, hidden_size=832, intermediate_size=3100, num_hidden_layers=5, num_attention_heads=13, max_position_embeddings=1024)
        return T.PhiForCausalLM(c), SHAPES[which], 22000
    if which == "olmo":
        c = T.Olmo2Config(vocab_size=27000, hidden_size=768, intermediate_size=2300, num_hidden_layers=5, num_attention_heads=12, num_key_value_heads=6,
                          max_position_embeddings=1024)
        return T.Olmo2ForCausalLM(c), SHAPES[which], 27000
    if which == "granitemoe":
        c = T.GraniteMoeConfig(vocab_size=20000, hidden_size=640, intermediate_size=1100, num_hidden_layers=4, num_attention_heads=10, num_key_value_heads=5,
                               num_local_experts=7, num_experts_per_tok=2, max_position_embeddings=1024)
        return T.GraniteMoeForCausalLM(c), SHAPES[which], 20000
    if which == "mixtral":
        c = T.MixtralConfig(vocab_size=24000, hidden_size=640, intermediate_size=1600, num_hidden_layers=4, num_attention_heads=10, num_key_value_heads=5,
                            num_local_experts=6, num_experts_per_tok=2, max_position_embeddings=2048)
        return T.MixtralForCausalLM(c), SHAPES[which], 24000
    if which == "lengths":
        c = T.GPT2Config(vocab_size=20000, n_embd=768, n_layer=6, n_head=12, n_positions=2048)
        return T.GPT2LMHeadModel(c), (6, None), 20000
    c = T.BertConfig(vocab_size=30522, hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048,
                     max_position_embeddings=2048)
    return T.BertForMaskedLM(c), (12, None), 30522


def layers_of(net, which):
    if which in ("llama", "qwen", "mixtral", "gemma", "phi", "olmo", "granitemoe"):
        return list(net.model.layers)
    if which == "opt":
        return list(net.model.decoder.layers)
    if which in ("bart", "whisper"):
        return list(net.model.encoder.layers) + list(net.model.decoder.layers)
    if which in ("convnext", "efficientnet", "swin", "mobilenet", "efficientnet2"):
        return blocks_of(net.features)
    if which == "densenet":
        return [part for name, part in net.features.named_children() if name[:-1] in ("denseblock", "transition")]
    if which == "regnet":
        return blocks_of(net.trunk_output)
    if which == "t5":
        return list(net.encoder.block) + list(net.decoder.block)
    if which in ("encoder", "encoder32"):
        return list(net.layers.layers)
    if which in ("unet", "lstm", "gru", "elman", "dunet"):
        return list(net.layers)
    if which == "lengths":
        return list(net.transformer.h)
    if which == "bert-lengths":
        return list(net.bert.encoder.layer)
    if which == "vit":
        return list(net.encoder.layers)
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

    if which == "cnn":
        return torchvision.models.resnet50(), (32, 224)
    if which == "convnext":
        return torchvision.models.convnext_tiny(), (20, 208)
    if which == "swin":
        return torchvision.models.swin_t(), (18, 224)
    if which == "regnet":
        return torchvision.models.regnet_y_1_6gf(), (30, 180)
    if which == "mobilenet":
        return torchvision.models.mobilenet_v3_large(), (44, 192)
    if which == "efficientnet2":
        return torchvision.models.efficientnet_v2_s(), (14, 224)
    if which == "densenet":
        return torchvision.models.densenet121(), (20, 184)
    if which == "resnext":
        return torchvision.models.resnext50_32x4d(), (18, 208)
    if which == "efficientnet":
        return torchvision.models.efficientnet_b1(), (28, 200)
    return torchvision.models.vit_b_32(image_size=384), (24, 384)


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


def filling(batch, length, dtype, device, wide):
    net = Encoder().to(device=device, dtype=dtype).train()

    def loss(step):
        ids = torch.randint(13000, (batch, length), device=device)
        y = net(ids).flatten(0, 1)
        return nn.functional.cross_entropy(y.float() if wide else y, ids.flatten())

    return net, loss


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


def following(batch, length, dtype, device):
    net = Elman().to(device=device, dtype=dtype).train()

    def loss(step):
        x = torch.randn(batch, length + 1, 24, device=device, dtype=dtype)
        return nn.functional.mse_loss(net(x[:, :-1]), x[:, 1:])

    return net, loss


def tagging(batch, length, dtype, device):
    net = Tagger().to(device=device, dtype=dtype).train()

    def loss(step):
        ids = torch.randint(9000, (batch, length), device=device)
        return nn.functional.cross_entropy(net(ids).flatten(0, 1), (ids % 40).flatten())

    return net, loss


def denoising(batch, dtype, device, widths=(96, 192, 384), size=128):
    """A step of a diffusion model's training: the noise is what is to be found."""
    net = UNet(widths).to(device=device, dtype=dtype).train()

    def loss(step):
        x, t = torch.randn(batch, 3, size, size, device=device, dtype=dtype), torch.rand(batch, 256, device=device, dtype=dtype)
        noise = torch.randn_like(x)
        return nn.functional.mse_loss(net(x + noise, t), noise)

    return net, loss


def words(batch, length, dtype, device):
    net = Recurrent().to(device=device, dtype=dtype).train()

    def loss(step):
        ids = torch.randint(20000, (batch, length), device=device)
        return nn.functional.cross_entropy(net(ids).flatten(0, 1), ids.flatten())

    return net, loss


def workload(which, batch_scale, sequence_scale, dtype, device):
    """The model, its layers, and a function that gives the loss of a step."""
    if which in ("cnn", "vit", "convnext", "efficientnet", "swin", "regnet", "mobilenet", "efficientnet2", "densenet", "resnext"):
        net, (batch, size) = vision(which)
        batch = int(batch * batch_scale)
        net = net.to(device=device, dtype=dtype).train()

        def loss(step):
            x = torch.randn(batch, 3, size, size, device=device, dtype=dtype)
            y = torch.randint(1000, (batch,), device=device)
            return nn.functional.cross_entropy(net(x), y)

        return net, loss
    if which == "unet":
        return denoising(int(16 * batch_scale), dtype, device)
    if which == "dunet":
        return denoising(int(12 * batch_scale), dtype, device, (64, 128, 320, 448), 160)
    if which == "elman":
        return following(int(36 * batch_scale), int(420 * sequence_scale), dtype, device)
    if which == "gru":
        return tagging(int(40 * batch_scale), int(300 * sequence_scale), dtype, device)
    if which == "lstm":
        return words(int(24 * batch_scale), int(250 * sequence_scale), dtype, device)
    if which in ("encoder", "encoder32"):
        return filling(int(10 * batch_scale), int(410 * sequence_scale), dtype, device, which == "encoder32")
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

    def __init__(self, params):
        self.optimizers = {p: torch.optim.AdamW([p], foreach=False) for p in params}
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


def train(which, edits, steps, device="cuda"):
    torch.manual_seed(1)
    dtype = torch.bfloat16 if edits.get("types") == "bf16" else torch.float32
    net, loss = workload(which, float(edits.get("batch", 1)), float(edits.get("sequence", 1)), dtype, device)
    if "checkpoint" in edits:
        recompute(layers_of(net, which), int(edits["checkpoint"] or 1))
    if "loss" in edits:
        import vramscope

        vramscope.patch_loss(net)
    optimizer = optimizer_of(net, edits)
    keep = edits.get("set_to_none") == "no"
    for step in range(steps):
        for part in range(int(edits.get("accumulate", 1))):
            with torch.autocast(device, torch.bfloat16, enabled=which.endswith("-autocast") and dtype == torch.float32):
                out = loss(step)
            out.backward()
            del out
        optimizer.step()
        optimizer.zero_grad(set_to_none=not keep)


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
