"""Layers of PyTorch that call cuDNN, forward and backward; with "resnet" those of a ResNet-18 at a batch of 32."""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

done = 0


def train(module, *inputs):
    global done
    out = module(*inputs)
    out = out[0] if isinstance(out, tuple) else out
    (out.data if isinstance(out, nn.utils.rnn.PackedSequence) else out).float().sum().backward()
    done += 1


def convolutions():
    cudnn = torch.backends.cudnn
    for cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32 in ((False, False, True), (True, False, True), (False, True, True), (False, False, False)):
        for type_ in (torch.float32, torch.bfloat16, torch.float16):
            for layout in (torch.contiguous_format, torch.channels_last):
                net = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 96, 3, padding=1, groups=2), nn.Conv2d(96, 96, 3, groups=96), nn.ConvTranspose2d(96, 30, 4, 2, 1))
                train(net.to("cuda", type_).to(memory_format=layout), torch.randn(8, 3, 64, 64, device="cuda", dtype=type_).to(memory_format=layout))
            train(nn.Conv3d(3, 16, 3).to("cuda", type_), torch.randn(2, 3, 8, 16, 16, device="cuda", dtype=type_))
            train(nn.Conv1d(80, 384, 3, padding=1).to("cuda", type_), torch.randn(2, 80, 300, device="cuda", dtype=type_))
    cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32 = False, False, True


def recurrent():
    for type_ in (torch.float32, torch.float16):
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            for both in (False, True):
                net = kind(64, 128, 2, batch_first=True, bidirectional=both, dropout=0.1, **({"proj_size": 32} if kind is nn.LSTM and both else {})).to("cuda", type_)
                train(net, torch.randn(4, 20, 64, device="cuda", dtype=type_, requires_grad=True))
                net.flatten_parameters()
                net.eval()
                with torch.no_grad():
                    net(torch.randn(4, 20, 64, device="cuda", dtype=type_))
    train(nn.LSTM(64, 128, bias=False).cuda(), nn.utils.rnn.pack_padded_sequence(torch.randn(20, 4, 64, device="cuda"), [20, 10, 5, 1]))


def attention():
    def heads(n, length=512, width=64):
        return torch.randn(2, n, length, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
        for more in ({"is_causal": True}, {"dropout_p": 0.125}, {"enable_gqa": True}):
            if backend == SDPBackend.CUDNN_ATTENTION and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5):
                continue  # off there, also on a GPU
            if "enable_gqa" in more and (backend == SDPBackend.EFFICIENT_ATTENTION or tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5)):
                continue
            with sdpa_kernel(backend):
                few = 2 if "enable_gqa" in more else 8
                train(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **more), heads(8), heads(few), heads(few))  # noqa: B023


def others():
    x = torch.randn(50, 4, 20, device="cuda").log_softmax(2).requires_grad_()
    train(lambda: F.ctc_loss(x, torch.randint(1, 20, (40,), dtype=torch.int), [50] * 4, [10] * 4))
    train(lambda: F.grid_sample(torch.randn(2, 3, 8, 8, device="cuda", requires_grad=True), torch.rand(2, 8, 8, 2, device="cuda", requires_grad=True), align_corners=True))
    train(lambda: F.affine_grid(torch.randn(2, 2, 3, device="cuda", requires_grad=True), (2, 3, 8, 8), align_corners=True))


def resnet():
    for type_ in (torch.float32, torch.bfloat16):
        for n, c, side, k, kernel, step in ((32, 3, 224, 64, 7, 2), (32, 64, 56, 64, 3, 1), (32, 64, 56, 128, 3, 2), (32, 128, 28, 128, 3, 1), (32, 64, 56, 128, 1, 2), (32, 256, 14, 512, 3, 2), (32, 512, 7, 512, 3, 1)):
            train(nn.Conv2d(c, k, kernel, step, kernel // 2, bias=False).to("cuda", type_), torch.empty(n, c, side, side, device="cuda", dtype=type_, requires_grad=True))


if sys.argv[1:] == ["resnet"]:
    resnet()
else:
    assert torch.backends.cudnn.is_available()
    convolutions(), recurrent(), attention(), others()
torch.cuda.synchronize()
print(torch.backends.cudnn.version(), "is the version")
print(f"{done} layers")
