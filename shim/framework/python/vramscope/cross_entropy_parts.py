"""vramscope.cross_entropy_parts - the loss of an output layer whose rows several ranks hold (vocabulary-parallel).

linear_cross_entropy(..., group=...) comes here.  In the forward each rank makes its classes' partial result, 20 bytes a
token; one all-gather over the group later all have the same loss and entropies.  The backward computes the logits once
more, the gradients of this rank's rows, and its share of the input's gradient, which an all-reduce sums.  Nothing else is
exchanged, and no rank ever holds the logits.

With the partial results goes a row that says which classes a rank has.  Where these do not make up the vocabulary, rank
after rank, the loss is NaN and check() says so; nothing waits for the GPU to find out.

Gloo, which does not gather a GPU's memory, is served through the host's, which waits for the GPU.
"""

import torch
import torch.distributed as dist

from ._cross_entropy_library import BROKEN_PARTS, ENTROPY, GRAD_BIAS, GRAD_INPUT, GRAD_WEIGHT, LOSS, PARTIAL, PARTIAL_NUMBERS, Error, Parts, library_for, on, run


def _through_host(tensor, group):
    return tensor.is_cuda and dist.get_backend(group) == "gloo"


def _gathered(own, group):
    """OWN of all ranks of the group, [ranks, ...]."""
    here = own.cpu() if _through_host(own, group) else own
    gathered = torch.empty((dist.get_world_size(group), *own.shape), dtype=own.dtype, device=here.device)
    dist.all_gather_into_tensor(gathered.flatten(0, 1), here, group=group)
    return gathered.to(own.device)


def _summed(share, group):
    """The sum of all ranks' SHARE, in its place or as another tensor."""
    here = share.cpu() if _through_host(share, group) else share
    dist.all_reduce(here, group=group)
    return here.to(share.device)


def _makes_up(ranges):
    """1 if the ranks' RANGES, [ranks, (first class, classes, all classes, ...)], are the vocabulary; else NaN."""
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
        if torch.is_grad_enabled():
            raise Error("linear_cross_entropy cannot be differentiated twice: leave out create_graph, or use F.cross_entropy")
        *tensors, partials = ctx.saved_tensors
        needs = ctx.needs_input_grad[4:7]
        wants = sum(bit for bit, need in zip((GRAD_INPUT, GRAD_WEIGHT, GRAD_BIAS), needs) if need)
        if upstream is None:
            upstream = torch.zeros(tensors[3].shape if ctx.options.reduction == "none" else (), device=partials.device)
        gradients = list(run(wants, ctx.options, *tensors, upstream.float().contiguous(), None if above is None else above.float().contiguous(),
                             parts=Parts(*ctx.place, partials))[1:4])  # fmt: skip
        if needs[0]:
            gradients[0] = _summed(gradients[0], ctx.group)
        return *(None,) * 4, *gradients, None, None


@torch.compiler.disable
def parallel(group, vocab_range, return_entropy, options, input, weight, bias, labels, class_weights):
    """(loss, entropies or None) of the vocabulary whose rows from vocab_range[0] on are WEIGHT's."""
    classes, ranks = weight.size(0), dist.get_world_size(group)
    begin, total = vocab_range or (dist.get_rank(group) * classes, ranks * classes)
    if class_weights is not None and class_weights.shape != (total,):
        raise ValueError(f"linear_cross_entropy: class_weights is {list(class_weights.shape)}; it must be of all classes, [{total}]")
    if total > 1 << 24:
        raise ValueError(f"linear_cross_entropy: {total} classes in all; at most {1 << 24} can be on several ranks")
    wants = LOSS | (ENTROPY if return_entropy else 0)
    return _Parallel.apply(group, (int(begin), int(total)), wants, options, input, weight, bias, labels, class_weights)
