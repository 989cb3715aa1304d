"""_dry_triton - what Triton's kernels write is not known any more: their launches reach no kernel of PyTorch's that is wrapped (_dry_wrap).

Of a kernel that torch.compile made, its arguments' names say which it only reads; of any other its source: what a store or an atomic
operation gets, directly or through other names or another function, may be written.
"""

import ast
import functools
import textwrap

_READS = set("load range program_id num_programs cdiv arange where minimum maximum dot sum max min exp zeros full static_range static_assert multiple_of".split())


def _called(node):
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _names(node):
    """The names in an expression, but for where it only loads from."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Call) and _called(node) == "load":
        return set()
    return set().union(*map(_names, ast.iter_child_nodes(node)))


def _written(source):
    """The names that may lead to what a function of SOURCE writes."""
    tree = ast.parse(textwrap.dedent(source))
    written, assigned = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) not in _READS:
            method = isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name)
            for part in node.args + [keyword.value for keyword in node.keywords] + ([node.func.value] if method else []):
                written |= _names(part)
        elif isinstance(node, ast.Assign):
            assigned.append((set().union(*map(_names, node.targets)), node.value))
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            assigned.append((_names(node.target), node.value))
    before = -1
    while before != len(written):
        before = len(written)
        for targets, value in assigned:
            if targets & written:
                written |= _names(value)
    return written


@functools.lru_cache(None)
def _only_reads(function):
    """The names of FUNCTION's arguments that it reads at most."""
    try:
        return frozenset(set(function.arg_names) - _written(function.src))
    except Exception:
        return frozenset()


def _forget(names, args, kwargs, only_reads):
    from ._dry_values import Tensor, forget

    for name, value in [*zip(names, args), *kwargs.items()]:
        if isinstance(value, Tensor) and value.is_cuda and name not in only_reads:
            forget(value)


def _wrap(owner, only_reads):
    run = owner.run

    @functools.wraps(run)
    def launch(self, *args, **kwargs):
        function = getattr(self, "fn", self) if owner.__name__ != "JITFunction" else self
        names = getattr(function, "arg_names", ())
        if not kwargs.get("warmup"):
            _forget(list(names) + [""] * (len(args) - len(names)), args, kwargs, only_reads(self, function))
        return run(self, *args, **kwargs)

    owner.run = launch


def _of_inductor(launched, function):
    mutated = set(getattr(launched, "mutated_arg_names", None) or ())
    return {name for name in function.arg_names if name.startswith("in_ptr") and name not in mutated}


def install(module):
    """Called once, when triton, or the part of torch.compile that launches its kernels, has been imported."""
    from . import _dry
    import sys

    if module.__name__ == "triton":
        _wrap(module.JITFunction, lambda _, function: _only_reads(function))
    else:
        _wrap(module.CachingAutotuner, _of_inductor)
    _dry.keep_dynamo_from(sys.modules[__name__])
