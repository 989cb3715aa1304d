_backends = {}
_hooks = []
figures = {}
asked = 0


class _Device:
    local_hardware_id = 0

    def memory_stats(self):
        global asked
        asked += 1
        if figures.get("fails"):
            raise AttributeError("not today")
        return dict(figures)


class _Client:
    platform = "gpu"

    def local_devices(self):
        return [_Device()]


def register_backend_initialization_hook(hook):
    _hooks.append(hook)


def init():
    _backends["cuda"] = _Client()
    for hook in _hooks:
        hook(_backends["cuda"])
