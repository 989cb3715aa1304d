"""The models whose training steps are timed or recorded: make() gives the function that trains one step.

    gpt     a decoder like nanoGPT's, bf16: the GPU is what takes the time
    small   a smaller decoder, fp32: the host is
    cnn     separable convolutions, whose images have another size in every step: blocks that never fit what is cached
    vit, gpt2      torchvision's and transformers'; nothing was tuned on these and the next two
    cells, unet    many small operations
    ddp, fsdp      the decoder of `small` over the ranks that the environment names
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + F.dropout(self.out(a.transpose(1, 2).flatten(2)), self.dropout, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.dropout, self.training)


class Decoder(nn.Module):
    def __init__(self, layers, width, heads, vocab, context, dropout=0.0):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.words(ids) + self.places.weight[: ids.shape[1]])))


def decoder_step(device, batch, context, vocab, half, **shape):
    torch.manual_seed(1)
    model = Decoder(vocab=vocab, context=context, **shape).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device != "cpu")
    ids = torch.randint(vocab, (8, batch, context + 1), device=device)

    def step(number):
        x, y = ids[number % 8, :, :-1], ids[number % 8, :, 1:]
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=half):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def gpt(device, tiny):
    size = dict(layers=2, width=64, heads=2, batch=2, context=32, vocab=100) if tiny else dict(
        layers=12, width=768, heads=12, batch=8, context=1024, vocab=50304)
    return decoder_step(device, half=True, dropout=0.1, **size)


def small(device, tiny):
    size = dict(layers=2, width=64, heads=2, batch=2, context=16, vocab=100) if tiny else dict(
        layers=8, width=512, heads=8, batch=4, context=128, vocab=8192)
    return decoder_step(device, half=False, **size)


class Separable(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.deep = nn.Conv2d(channels, channels, 5, padding=2, groups=channels)
        self.flat, self.norm = nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels)

    def forward(self, x):
        return x + F.silu(self.norm(self.flat(self.deep(x))))


def cnn(device, tiny):
    channels, depth, batch, base = (16, 3, 2, 8) if tiny else (160, 24, 16, 20)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, channels, 3), *(Separable(channels) for _ in range(depth)), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(channels, 1000)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    labels = torch.randint(1000, (batch,), device=device)

    def step(number):
        side = base + number * 7 % 10  # all ten sizes in ten steps: turns of ten steps are alike
        loss = F.cross_entropy(model(torch.randn(batch, 3, side, side, device=device)), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


MODELS = {"gpt": gpt, "small": small, "cnn": cnn}


def trained(model, loss_of, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)  # the default: foreach

    def step(number):
        loss_of(number).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def vit(device, tiny):
    from torchvision.models import VisionTransformer

    torch.manual_seed(1)
    shape = dict(num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64) if tiny else dict(num_layers=8, num_heads=6, hidden_dim=384, mlp_dim=1536)
    model = VisionTransformer(image_size=64, patch_size=8, num_classes=100, **shape).to(device)
    images, labels = torch.randn(8, 3, 64, 64, device=device), torch.randint(100, (8,), device=device)
    return trained(model, lambda number: F.cross_entropy(model(images), labels), device)


def gpt2(device, tiny):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    size = dict(n_layer=2, n_embd=32, n_head=2, vocab_size=100) if tiny else dict(n_layer=8, n_embd=512, n_head=8, vocab_size=8192)
    model = GPT2LMHeadModel(GPT2Config(n_positions=64, **size)).to(device)
    model.train()
    ids = torch.randint(100, (8, 4, 64), device=device)
    return trained(model, lambda number: model(input_ids=ids[number % 8], labels=ids[number % 8]).loss, device)


class Cells(nn.Module):
    def __init__(self, width, vocab):
        super().__init__()
        self.words, self.cells = nn.Embedding(vocab, width), nn.ModuleList(nn.LSTMCell(width, width) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab)

    def forward(self, ids):
        states, out = [None, None], []
        for x in self.words(ids).unbind(1):
            for i, cell in enumerate(self.cells):
                states[i] = cell(x, states[i])
                x = states[i][0]
            out.append(x)
        return self.head(self.norm(torch.stack(out, 1)))


def cells(device, tiny):
    torch.manual_seed(1)
    model, loss = Cells(*((16, 100) if tiny else (256, 2000))).to(device), nn.CrossEntropyLoss()
    ids = torch.randint(100, (8, 16, 25), device=device)
    return trained(model, lambda number: loss(model(ids[number % 8, :, :-1]).flatten(0, 1), ids[number % 8, :, 1:].flatten()), device)


class Swished(nn.Sequential):
    def __init__(self, before, behind):
        layers = (nn.Conv2d(before, behind, 3, padding=1), nn.GroupNorm(4, behind), nn.SiLU())
        super().__init__(*layers, nn.Conv2d(behind, behind, 3, padding=1), nn.GroupNorm(4, behind), nn.SiLU())


class UNet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.into, self.out = nn.Conv2d(3, channels[0], 3, padding=1), nn.Conv2d(channels[0], 3, 1)
        pairs = list(zip(channels, channels[1:]))
        self.down = nn.ModuleList(Swished(a, b) for a, b in pairs)
        self.up = nn.ModuleList(Swished(2 * b, a) for a, b in reversed(pairs))
        self.middle = Swished(channels[-1], channels[-1])

    def forward(self, x):
        x, kept = self.into(x), []
        for part in self.down:
            kept.append(part(x))
            x = F.avg_pool2d(kept[-1], 2)
        x = self.middle(x)
        for part in self.up:
            x = part(torch.cat((F.interpolate(x, scale_factor=2), kept.pop()), 1))
        return self.out(x)


def unet(device, tiny):
    torch.manual_seed(1)
    model, loss = UNet((8, 8, 16) if tiny else (16, 32, 64, 64)).to(device), nn.MSELoss()
    images = torch.randn(4, 3, 32, 32, device=device)
    return trained(model, lambda number: loss(model(images), images), device)


def ranked(device, tiny, spread):
    import os

    gpus = device != "cpu"
    torch.distributed.init_process_group("nccl" if gpus else "gloo")
    if gpus:
        torch.cuda.set_device(int(os.environ["RANK"]))
    torch.manual_seed(1)
    size = dict(layers=2, width=64, heads=2, vocab=100, context=16) if tiny else dict(layers=8, width=512, heads=8, vocab=8192, context=128)
    model = spread(Decoder(**size).to(device))
    ids = torch.randint(size["vocab"], (8, 4, size["context"] + 1), device=device)
    return trained(model, lambda number: F.cross_entropy(model(ids[number % 8, :, :-1]).flatten(0, 1), ids[number % 8, :, 1:].flatten()), device)


def ddp(device, tiny):
    return ranked(device, tiny, torch.nn.parallel.DistributedDataParallel)


def fsdp(device, tiny):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def sharded(model):
        mesh = init_device_mesh("cpu" if device == "cpu" else "cuda", (torch.distributed.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    return ranked(device, tiny, sharded)


def make(name, device, tiny):
    return {**MODELS, "vit": vit, "gpt2": gpt2, "cells": cells, "unet": unet, "ddp": ddp, "fsdp": fsdp}[name](device, tiny)
