"""_dry - what a dry run (`vramscope fit`) does within PyTorch: values that are followed (_dry_values), the end after some steps (_dry_end), and a
rank that runs without the others (_dry_ranks).

A dry run's kernels compute nothing, and the memory of its device is the host's, at the same addresses.
"""

import os

from . import _dry_end, _dry_facts


def install(torch):
    """Called once, when torch has been imported."""
    _dry_facts.install()
    _dry_end.install(os.environ.get("VRAMSCOPE_DRY_STEPS", "3"))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from . import _dry_ranks

        _dry_ranks.install(torch)
    if torch.version.cuda:
        from . import _dry_places, _dry_wrap

        _dry_places.install(torch)
        _dry_wrap.install()
