"""How much memory a training step of examples/torch_llama.py takes, from formulas alone; nothing is measured or fitted.

    16 bytes a parameter       mixed-precision Adam: 2 weight + 2 gradient + 4 master + 4 + 4 moments (ZeRO, 1910.02054)
    2 b s h a layer            the input that gradient checkpointing keeps (Korthikanti et al., 2205.05198)
    3 x 4 b s V                an eager loss in fp32: log-softmax, its gradient, the logits' gradient; in the forward 2 + 4 + 4
    cuBLAS                     32 MiB a handle of PyTorch's and 32 of cuBLAS's own, for each of two threads (H200, PyTorch 2.11)

Sizes in bytes; N tokens, H hidden, F ffn, V vocabulary.
"""

from dataclasses import dataclass

MIB = 1 << 20
CUBLAS = 2 * (32 + 32) * MIB


@dataclass(frozen=True)
class Shape:
    tokens: int
    batch: int = 4
    layers: int = 2
    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    ffn: int = 14336
    vocab: int = 128256
    tied: bool = False
    state_dtype: str = "bf16"

    @property
    def kv(self):
        return self.hidden // self.heads * self.kv_heads


# ---- formulas that are in use everywhere ----


def adam(parameters, each=16, shards=1):
    """Weights, gradients and optimizer states: 16 bytes a parameter, or as a report has it."""
    return parameters * each // shards


def checkpoints(tokens, layers, hidden):
    return 2 * tokens * layers * hidden


def logits(tokens, vocab, each):
    """One copy of the logits, EACH bytes an element."""
    return tokens * vocab * each


def eager_forward(tokens, vocab):
    return logits(tokens, vocab, 2) + 2 * logits(tokens, vocab, 4)


def eager_backward(tokens, vocab):
    return 3 * logits(tokens, vocab, 4)


# ---- this model ----


def layer_parameters(s):
    return 2 * s.hidden**2 + 2 * s.hidden * s.kv + 3 * s.hidden * s.ffn + 2 * s.hidden


def head_parameters(s):
    return s.vocab * s.hidden


def parameters(s):
    return s.layers * layer_parameters(s) + s.hidden + head_parameters(s) * (1 if s.tied else 2)


def static(s):
    """Weights and optimizer states, and the small things that stay: rotary tables, token ids, labels."""
    each = {"bf16": 2 + 2 + 2, "fp32": 2 + 4 + 4 + 4}[s.state_dtype]
    return parameters(s) * each + 2 * 2 * (s.tokens // s.batch) * (s.hidden // s.heads) + 2 * 8 * s.tokens


def kept_by_norm(s):
    """The input in fp32, 1 / rms, the normalized input in bf16."""
    return 4 * s.hidden + 4 + 2 * s.hidden


def kept_by_layer(s):
    """For a token, between forward and backward.  Each norm's output is kept by the products that read it."""
    norms = 2 * (kept_by_norm(s) + 2 * s.hidden)
    attention = 2 * s.hidden + 2 * 2 * s.kv + 2 * s.hidden + 4 * s.heads  # q, k and v, output, log-sum-exp
    mlp = 4 * 2 * s.ffn  # gate, silu(gate), up, their product
    return norms + attention + mlp


def mlp_backward(s):
    """For a token, beyond what the layer keeps: the gradient by its output; those by silu(gate) and by up, made from the
    one by their product, for which the product itself has gone."""
    return 2 * s.hidden + 2 * 2 * s.ffn


def norm_backward(s):
    """For a token, at the square's gradient, which is the norm's highest point: the input in fp32 and its gradient so far;
    the mean's gradient; x^1, 2 x^1, and their product with it.  Each in fp32."""
    return 6 * 4 * s.hidden


def layers_backward(s):
    """The peaks of the layers' backward, without what is static: as many as there are layers, the last layer first."""
    n, gradients = s.tokens, 2 * head_parameters(s)
    down = 2 * s.hidden * s.ffn  # of the gradients of its weights a layer then has one
    for done in range(s.layers):
        kept = (s.layers - done) * kept_by_layer(s)
        yield gradients + done * 2 * layer_parameters(s) + n * (kept + mlp_backward(s)) + down


def optimizer(s):
    """All gradients; the fp32 optimizer has two pieces of 2^24 elements in fp32 besides."""
    most = min(1 << 24, max(head_parameters(s), s.hidden * s.ffn))
    return 2 * parameters(s) + (2 * 4 * most if s.state_dtype == "fp32" else 0)


def moments(s, loss, workspace=0):
    """Name to bytes: the moments of a step of which one is the peak.  LOSS: eager or fused.  WORKSPACE: of the fused loss."""
    n, base = s.tokens, static(s) + CUBLAS
    head = 2 * head_parameters(s)
    kept = n * (s.layers * kept_by_layer(s) + kept_by_norm(s))
    output = 2 * n * s.hidden  # of the last norm, and likewise the gradient by it
    if loss == "eager":
        yield "logits", base + kept + output + eager_forward(n, s.vocab)
        yield "backward", base + kept + output + eager_backward(n, s.vocab)
        yield "backward", base + kept + 2 * output + logits(n, s.vocab, 2) + head
    else:
        yield "logits", base + kept + 2 * output + head + workspace
    yield "backward", base + n * (s.layers * kept_by_layer(s) + norm_backward(s)) + head
    for level in layers_backward(s):
        yield "backward", base + level
    # at the end the embedding's gradient; where the weights are tied, before the output layer's is added to it
    yield "backward", base + 2 * parameters(s) + output + (head if s.tied else 0)
    yield "optimizer", base + optimizer(s)


def phases(s, loss, workspace=0):
    """Phase to its peak."""
    peaks = {}
    for phase, level in moments(s, loss, workspace):
        peaks[phase] = max(level, peaks.get(phase, 0))
    return peaks


def peak(s, loss, workspace=0):
    return max(phases(s, loss, workspace).values())
