"""A torch with nothing but the places that vramscope_torch takes hold of, for machines without the real one.

torch_phases.sh proves the same against PyTorch itself; this keeps the order of phases under test everywhere.
"""

from . import autograd, nn, optim


class _C:
    task = -1

    @staticmethod
    def _current_graph_task_id():
        return _C.task


class compiler:
    @staticmethod
    def is_dynamo_compiling():
        return False


def is_grad_enabled():
    return True
