"""_dry - what a dry run (`vramscope fit`) does within PyTorch.

A dry run's kernels compute nothing, and the memory of its device is the host's, at the same addresses.
"""

import os
import types

from . import _contracts as vramscope_contracts
from . import _dry_end, _dry_facts, _dry_ranks
from . import _dynamo as vramscope_dynamo


def _codes(code):
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _codes(part)


def keep_dynamo_from(module):
    """Has torch.compile leave all functions of MODULE alone, with those that they make."""
    for value in tuple(vars(module).values()):
        for function in [value] if isinstance(value, types.FunctionType) else vars(value).values() if isinstance(value, type) else ():
            if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
                for code in _codes(function.__code__):
                    vramscope_dynamo.skip(types.SimpleNamespace(__code__=code), all_within=True)


def install(torch):
    """Called once, when torch has been imported.  Where a name is not there nothing is taken for exact: the run can't tell."""
    try:
        _install(torch)
        vramscope_contracts.proven("dry_run", "all that it takes for granted of PyTorch's Python was there")
    except Exception as error:
        vramscope_contracts.broken("dry_run", vramscope_contracts.why(error))
        _dry_facts.write("missing", f"PyTorch {torch.__version__}", f"what a dry run reaches it by ({vramscope_contracts.why(error)})")
        raise


def _install(torch):
    _dry_facts.install()
    _dry_end.install(os.environ.get("VRAMSCOPE_DRY_STEPS", "3"))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        _dry_ranks.install(torch)
    else:
        _dry_ranks.alone(torch)
    if torch.version.cuda:
        from . import _dry_constant, _dry_host, _dry_places, _dry_reads, _dry_rules, _dry_values, _dry_wrap

        _dry_places.install(torch)
        _dry_wrap.install()
        _dry_host.install()
        _dry_ranks.follow(torch)
        for module in (_dry_constant, _dry_facts, _dry_host, _dry_places, _dry_reads, _dry_rules, _dry_values, _dry_wrap):
            keep_dynamo_from(module)
