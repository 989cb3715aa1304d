"""_dynamo - keeps torch.compile away from vramscope's own functions.

Dynamo compiles every Python function that a compiled region reaches through one that it could not compile, also those that wrap the
program's calls: it would warn, break graphs, and give wrong answers about what is open.
"""

import types


def _skip(function, all_within):
    from torch._C._dynamo import eval_frame as frames  # before 2.5 it can't be imported by its own name

    if hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction
        within = action.SKIP if all_within else action.DEFAULT
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(action.SKIP, within))
    else:  # torch before 2.7
        frames.skip_code(function.__code__)


def look():
    """Has Dynamo skip a function of nobody's; raises where it takes none."""
    _skip(lambda: None, False)
    return "its Dynamo takes code that it is to skip"


def skip(function, all_within=False):
    """Makes Dynamo skip FUNCTION, as it skips nn.Module's own __call__ to begin at the model's forward.

    ALL_WITHIN: it also skips the functions that FUNCTION calls.
    """
    try:
        _skip(function, all_within)
    except Exception:
        pass  # look() has said so; compiled models then begin at the wrapper, which steps aside while it is compiled


def skip_all(namespace):
    """Every function of NAMESPACE, also those of its classes."""
    for value in tuple(namespace.values()):
        if isinstance(value, types.FunctionType):
            skip(value)
        elif isinstance(value, type):
            skip_all(vars(value))
