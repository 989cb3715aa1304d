"""_dry_deepspeed - DeepSpeed's optimizers that it compiles for the machine at hand are there without a compiler, and do nothing.

Each is a function or two that write parameters and states in place and take no memory, which a dry run has no use for.  DeepSpeed's own
Python code makes the states, so they have its sizes.  Other operators are compiled as ever.
"""

import types

_IDLE = "FusedAdamBuilder CPUAdamBuilder FusedLionBuilder CPULionBuilder CPUAdagradBuilder".split()
_FUNCTIONS = """multi_tensor_adam multi_tensor_lion create_adam adam_update adam_update_copy adam_rollback destroy_adam
create_lion lion_update lion_update_copy destroy_lion create_adagrad adagrad_update adagrad_update_copy destroy_adagrad""".split()


def install(builder):
    """Called once, when deepspeed.ops.op_builder.builder has been imported."""
    load = builder.OpBuilder.load
    idle = types.SimpleNamespace(**{name: lambda *_, **__: None for name in _FUNCTIONS})

    def loaded(self, *args, **named):
        return idle if type(self).__name__ in _IDLE else load(self, *args, **named)

    builder.OpBuilder.load = loaded
