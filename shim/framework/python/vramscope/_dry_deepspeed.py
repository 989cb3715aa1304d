"""_dry_deepspeed - DeepSpeed without a compiler: the optimizers that it compiles for the machine at hand are there, and do nothing.

They write parameters and states in place and take no memory; DeepSpeed's own Python code makes the states.  Other operators are compiled as
ever.  The norm of all gradients is a good one, so no step is skipped for it.  Lists that are compared with those of rank 0 (which modules
ran) are the same there.
"""

import types

_IDLE = "FusedAdamBuilder CPUAdamBuilder FusedLionBuilder CPULionBuilder CPUAdagradBuilder".split()
_FUNCTIONS = """multi_tensor_adam multi_tensor_lion create_adam adam_update adam_update_copy adam_rollback destroy_adam
create_lion lion_update lion_update_copy destroy_lion create_adagrad adagrad_update adagrad_update_copy destroy_adagrad""".split()


def _without_compiler(builder):
    load = builder.load
    idle = types.SimpleNamespace(**{name: lambda *_, **__: None for name in _FUNCTIONS})

    def loaded(self, *args, **named):
        return idle if type(self).__name__ in _IDLE else load(self, *args, **named)

    builder.load = loaded


def install(module):
    """Called once for each of the modules, when it has been imported."""
    if hasattr(module, "OpBuilder"):
        _without_compiler(module.OpBuilder)
    if hasattr(module, "is_invalid_grad_norm"):
        module.is_invalid_grad_norm = lambda _: False
    if hasattr(module, "get_lst_from_rank0"):
        module.get_lst_from_rank0 = lambda numbers: numbers
        module.assert_lst_len_same_as_other_ranks = lambda numbers: None
