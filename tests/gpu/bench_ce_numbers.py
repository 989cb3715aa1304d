"""What the linear cross-entropy is measured on, and how right an answer is.

`random`: normal hidden states, a nearly flat softmax. `peaked`: labels as frequent as words are (Zipf), hidden states that point at
their label's row by as much as makes the mean loss PEAKED_LOSS: nearly all of the gradient is in few places.
"""
import torch

SHAPES = {
    (8192, 4096, 128256): "Llama 3 8B",
    (8192, 2304, 256000): "Gemma 2 2B",
    (4096, 5120, 152064): "Qwen2.5 14B",
    (32768, 4096, 128256): "Llama 3 8B, 32768 tokens",
}
KINDS = "random", "peaked"
PEAKED_LOSS = 0.0024
SLAB = 1024  # tokens in fp64 at a time


IGNORED = -100  # the label of a token that does not count: every peer's default


def shape_name(shape):
    return "x".join(map(str, shape))


def read_shape(text):
    shape = tuple(int(part) for part in text.replace("x", ",").split(","))
    if len(shape) not in (3, 4) or min(shape[:3]) < 1 or not 0 <= (shape + (0,))[3] < 100:
        raise ValueError(f"{text}: a shape is TOKENS,HIDDEN,VOCABULARY, like 8192,4096,128256, and may end with the percentage of ignored tokens")
    return shape


def ignored(shape):
    """How many of the shape's tokens do not count."""
    return shape[0] * shape[3] // 100 if len(shape) == 4 else 0


def word_labels(n, v, device):
    """Labels with frequencies like those of words: the r-th most frequent one stands for 1 / (r + 3)."""
    frequency = 1 / (torch.arange(v, device=device, dtype=torch.float32) + 3)
    return torch.randperm(v, device=device)[torch.multinomial(frequency, n, replacement=True)]


def sharpness(noise, weight, labels):
    """S such that the mean loss of `noise + S weight[labels]` is PEAKED_LOSS, by bisection on some of the tokens."""
    rows = slice(0, min(512, len(labels)))
    label = labels[rows, None]
    flat = (noise[rows] @ weight.T).float()
    steep = (weight[labels[rows]] @ weight.T).float()
    low, high = 0.0, 1.0
    loss = lambda s: ((z := flat + s * steep).logsumexp(1) - z.gather(1, label)[:, 0]).mean().item()
    while loss(high) > PEAKED_LOSS and high < 1e6:
        high *= 2
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) > PEAKED_LOSS else (low, middle)
    return high


def make_inputs(shape, kind, device):
    x, weight, labels = all_counted(shape, kind, device)
    labels[torch.randperm(shape[0], device=device)[: ignored(shape)]] = IGNORED
    return x, weight, labels


def all_counted(shape, kind, device):
    n, h, v = shape[:3]
    torch.manual_seed(1)
    weight = torch.randn(v, h, device=device, dtype=torch.bfloat16) * 0.02
    x = torch.randn(n, h, device=device, dtype=torch.bfloat16)
    if kind == "random":
        return x, weight, torch.randint(0, v, (n,), device=device)
    labels = word_labels(n, v, device)
    x *= 0.3
    return x + sharpness(x, weight, labels) * weight[labels], weight, labels


def reference(x, w, labels):
    """Loss, dX and dW in fp64: sums over all tokens that count and the whole vocabulary, nothing left out."""
    counts = labels != IGNORED
    n, w = int(counts.sum()), w.double()
    loss, dx, dw = 0.0, torch.empty(x.shape, device=x.device, dtype=torch.float64), torch.zeros_like(w)
    for i in range(0, len(x), SLAB):
        part, counted = x[i : i + SLAB].double(), counts[i : i + SLAB, None]
        label = labels[i : i + SLAB, None].clamp(min=0)
        z = part @ w.T
        top = z.gather(1, label)
        lse = z.logsumexp(1, keepdim=True)
        loss += ((lse - top) * counted).sum().item()
        z.sub_(lse).exp_()
        z.scatter_add_(1, label, torch.full_like(top, -1.0))
        z *= counted / n
        torch.mm(z, w, out=dx[i : i + SLAB])
        dw.addmm_(z.T, part)
        del z
    return loss / n, dx, dw


def distance(got, want):
    """|got - want| / |want| in the 2-norm over all elements."""
    square = sum(((a.double() - b) ** 2).sum().item() for a, b in zip(got.split(8192), want.split(8192)))
    return square**0.5 / want.norm().item()


def errors(got, want):
    """Relative errors of loss, dX, dW."""
    return abs(got[0].item() - want[0]) / abs(want[0]), distance(got[1], want[1]), distance(got[2], want[2])
