"""vramscope.cross_entropy_parts - the loss of an output layer whose rows several ranks hold: linear_cross_entropy(..., group=...).

Each rank makes its classes' partial result, 20 bytes a token; an all-gather over the group later all have the same loss and entropies, and
an all-reduce sums the shares of the input's gradient.  No rank ever holds the logits of more than a chunk.

With upstream gradients that are known (1, for a mean or a sum, or promised ones) it is one run of three products, in the forward: a chunk's
logits are kept until the other ranks' partial results are there.  Otherwise the backward computes the logits once more.

Gloo, which does not gather a GPU's memory, is served through the host's, which waits for the GPU.
"""

import torch
import torch.distributed as dist

from ._cross_entropy_library import (BROKEN_PARTS, ENTROPY, F32_ACCUMULATE, F32_LOGITS, FINISH, GRAD_BIAS, GRAD_INPUT, GRAD_WEIGHT, LOSS, PARTIAL,
                                     PARTIAL_NUMBERS, START, Parts, library_for, on, run)  # fmt: skip

from .cross_entropy import finished, refuse_second_derivative

MIB = 1 << 20
MOST_CHUNK, LEAST_CHUNK = 2048, 64


def _through_host(tensor, group):
    return tensor.is_cuda and dist.get_backend(group) == "gloo"


def _gather(own, to, group):
    """Begins to gather OWN, [n, ...], in TO, [ranks * n, ...]; returns what _finish takes."""
    here = own.cpu() if _through_host(own, group) else own
    there = to if here is own else torch.empty(to.shape, dtype=to.dtype)
    return dist.all_gather_into_tensor(there, here, group=group, async_op=True), there, to


def _finish(work, there, to):
    work.wait()  # of NCCL: the stream does
    if there is not to:
        to.copy_(there)


def _gathered(own, group):
    """OWN of all ranks of the group, [ranks, ...]."""
    gathered = own.new_empty((dist.get_world_size(group), *own.shape))
    _finish(*_gather(own, gathered.flatten(0, 1), group))
    return gathered


def _sum(share, group):
    """SHARE becomes the sum of all ranks'."""
    here = share.cpu() if _through_host(share, group) else share
    dist.all_reduce(here, group=group)
    if here is not share:
        share.copy_(here)


def _makes_up(ranges):
    """1 if the ranks' RANGES, [ranks, (first class, classes, all classes, ...)], are the vocabulary, rank after rank; else NaN,
    and check() says so: nothing waits for the GPU to find out."""
    begin, classes, total = ranges[:, 0], ranges[:, 1], ranges[:, 2]
    ends = classes.cumsum(0)
    wrong = ((begin + classes != ends) | (total != ends[-1])).any()
    with on(ranges.device):
        library_for(ranges.device).flag.bitwise_or_(wrong.to(torch.int32) * BROKEN_PARTS)
    return torch.where(wrong, float("nan"), 1.0)


class _Parallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, group, place, wants, options, *tensors):
        own = run(PARTIAL, options, *tensors, None, parts=Parts(*place, None))[4]
        head = torch.tensor([[place[0], tensors[1].size(0), place[1], *(0,) * (PARTIAL_NUMBERS - 3)]], dtype=torch.float32)
        gathered = _gathered(torch.cat((head.to(own.device, non_blocking=True), own)), group)
        partials = gathered[:, 1:].contiguous()
        loss, *_, entropy = run(wants, options, *tensors, None, parts=Parts(*place, partials))
        loss.mul_(_makes_up(gathered[:, 0]))
        ctx.set_materialize_grads(False)
        ctx.group, ctx.place, ctx.options = group, place, options
        ctx.save_for_backward(*tensors, partials)
        return loss, entropy

    @staticmethod
    def backward(ctx, upstream, above):
        nothing = (None,) * 9
        if upstream is None and above is None:
            return nothing
        refuse_second_derivative()
        *tensors, partials = ctx.saved_tensors
        needs = ctx.needs_input_grad[4:7]
        wants = sum(bit for bit, need in zip((GRAD_INPUT, GRAD_WEIGHT, GRAD_BIAS), needs) if need)
        if upstream is None:
            upstream = torch.zeros(tensors[3].shape if ctx.options.reduction == "none" else (), device=partials.device)
        gradients = run(wants, ctx.options, *tensors, upstream.float().contiguous(), None if above is None else above.float().contiguous(),
                        parts=Parts(*ctx.place, partials))[1:4]  # fmt: skip
        if needs[0]:
            _sum(gradients[0], ctx.group)
        return *(None,) * 4, *gradients, None, None


# ---- one run, with an exchange for each chunk ----


def chunk_for(tokens, hidden, classes, dtype, options, biased, gpu):
    """The tokens of a chunk with CLASSES on each rank: that of the fast mode, or of the lean one where the budget is less
    than the fast one takes.  All ranks must come to the same without asking each other: so it is that of equal parts, from
    sizes and options that all have, and a rank with more classes takes as much more memory."""
    element = dtype.itemsize if gpu else 4  # the CPU computes in fp32
    logit = 4 if options.flags & F32_LOGITS else element
    logits = logit * (-(-classes // 64) * 64)  # of a token
    rows = (element + 4) * hidden  # of the input, and of dinput's sum, which unequal parts may need
    fixed = 64 * 1024 + 32 * tokens + 4 * classes * biased  # states, losses, sums of rows, 256 bytes here and there
    if not gpu:
        fixed += 512 * hidden  # rows of the weight and its gradient, widened
    each = logits + (rows if not gpu or options.max_counted or classes % 8 else 0)
    lean = _chunk_within(128 * MIB - fixed, each, tokens)
    if options.mode == "lean":
        return lean
    fast = _chunk_within(512 * MIB - fixed, each, tokens)
    if options.flags & F32_ACCUMULATE and options.grad_dtype != torch.float32:
        fixed += 4 * classes * hidden
    return lean if 0 < options.budget < fixed + fast * (logits + rows) else fast


def _chunk_within(room, each, tokens):
    """The longest even chunk of tokens that take EACH bytes, at most MOST_CHUNK long; two of the shortest may take more than ROOM."""
    most = min(MOST_CHUNK, tokens, max(room // each, 2 * LEAST_CHUNK))
    if most == tokens:
        return tokens
    step = 256 if most >= 256 else LEAST_CHUNK
    even = -(-tokens // -(-tokens // (most // step * step)))
    return -(-even // step) * step


class _Exchange:
    """What a run asks for: partial results gathered chunk by chunk.

    Nothing runs beside products, and the shares of dinput are summed at the end: kernels of NCCL would wait there for those of
    other ranks, on multiprocessors that the products lack, and begin when these leave one free.
    """

    def __init__(self, group, chunk, budget, head):
        self.group, self.ranks, self.chunk, self.budget, self.head = group, dist.get_world_size(group), chunk, budget, head

    def begin(self, own, all_ranks):
        self.own, self.all = own, all_ranks

    def step(self, step, first, count):
        if step == START:
            self.gather = _gather(self.own[first : first + count], self.all[self.ranks * first : self.ranks * (first + count)], self.group)
            if first == 0:  # beside what the stream has to do for the first chunk
                head = torch.tensor([self.head], dtype=torch.float32).to(self.own.device, non_blocking=True)
                self.heads = _gather(head, head.new_empty((self.ranks, len(self.head))), self.group)
        elif step == FINISH:
            _finish(*self.gather)

    def ranges(self):
        """The heads of all ranks."""
        _finish(*self.heads)
        return self.heads[2]


class _InOneRun(torch.autograd.Function):
    @staticmethod
    def forward(ctx, group, place, wants, options, chunk, budget, promises, *tensors):
        exchange = _Exchange(group, chunk, budget, (place[0], tensors[1].size(0), place[1]))
        loss, *gradients, entropy = run(wants, options, *tensors, *promises, parts=Parts(*place, None, exchange))
        loss.mul_(_makes_up(exchange.ranges()))
        if wants & GRAD_INPUT:
            _sum(gradients[0], group)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*promises, *gradients)
        return loss, entropy

    @staticmethod
    def backward(ctx, upstream, above):
        if upstream is None and above is None:
            return (None,) * 12
        refuse_second_derivative()
        promises, gradients = ctx.saved_tensors[:2], ctx.saved_tensors[2:]
        return *(None,) * 7, *finished(gradients, (upstream, above), promises), None, None


@torch.compiler.disable
def parallel(group, vocab_range, wants, return_entropy, options, promises, known, input, weight, bias, labels, class_weights):
    """(loss, entropies or None) of the vocabulary whose rows from vocab_range[0] on are WEIGHT's; WANTS: with the loss
    the gradients.  KNOWN: whether the upstream gradients are, 1 or those of PROMISES: of the loss and of the entropies."""
    classes, ranks = weight.size(0), dist.get_world_size(group)
    begin, total = vocab_range or (dist.get_rank(group) * classes, ranks * classes)
    if class_weights is not None and class_weights.shape != (total,):
        raise ValueError(f"linear_cross_entropy: class_weights is {list(class_weights.shape)}; it must be of all classes, [{total}]")
    if total > 1 << 24:
        raise ValueError(f"linear_cross_entropy: {total} classes in all; at most {1 << 24} can be on several ranks")
    tensors, equal, place = (input, weight, bias, labels, class_weights), -(-total // ranks), (int(begin), int(total))
    entropies = ENTROPY if return_entropy else 0
    if wants != LOSS and known:
        chunk = chunk_for(labels.numel(), weight.size(1), equal, input.dtype, options, bias is not None, input.is_cuda)
        if chunk:
            budget = -(-options.budget * max(classes, equal) // equal)
            return _InOneRun.apply(group, place, wants | entropies, options, chunk, budget, promises, *tensors)
    return _Parallel.apply(group, place, LOSS | entropies, options, *tensors)
