def _engine_run_backward(function):
    import torch

    torch._C.task = 1
    try:
        return function()
    finally:
        torch._C.task = -1
