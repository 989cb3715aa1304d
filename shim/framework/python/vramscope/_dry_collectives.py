"""_dry_collectives - what a job's only rank exchanges with itself, followed: it gets what it gave.  With more ranks _dry_ranks does it.

What another collective writes is not known any more.  Only with PyTorch from 2.9 on, where a kernel can be had from the dispatcher.
"""

import warnings

import torch

from ._dry_values import NoFunctions, alias, forget, is_capturing, is_small, mark_of, put, tensors, write

_library = None


def _give(out, source):
    mark = mark_of(source)
    if mark is None or not (is_small(out) and is_small(source)) or is_capturing() or not source.numel():
        return forget(out)
    write(out, alias(source).reshape(1, -1).expand(out.numel() // source.numel(), -1).reshape(out.size()), mark)


def _pairs(name, args):
    if name == "c10d::allgather_":
        return [(out, source) for outs, source in zip(args[0], args[1]) for out in outs]
    return [(args[0], args[1])] if name == "c10d::_allgather_base_" else []


def _stay(name, args):
    return list(tensors(args[:1])) if name in ("c10d::allreduce_", "c10d::broadcast_") else []


def _collective(name, call):
    def collective(keys, *args, **kwargs):
        out = call(keys, *args, **kwargs)
        with NoFunctions():
            pairs, stay = _pairs(name, args), _stay(name, args)
            for given, source in pairs:
                _give(given, source)
            for t in stay:
                if mark_of(t) is not None:
                    put(t, mark_of(t))
            if not (pairs or stay):
                for value in args:
                    for t in tensors(value if type(value) is list else (value,)):
                        if t.is_cuda:
                            forget(t)
        return out

    return collective


def install():
    global _library
    names = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
    if not hasattr(torch.library, "get_kernel"):
        return
    library = torch.library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            if name.startswith("c10d::"):
                library.impl(name[6:], _collective(name, torch.library.get_kernel(name, "CUDA").call_boxed), "CUDA", with_keyset=True)
    _library = library
