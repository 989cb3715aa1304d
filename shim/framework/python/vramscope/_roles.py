"""_roles - what PyTorch itself says that memory is for: parameters, gradients, optimizer states, buffers.

When an optimizer has stepped, the storages of its parameters, their gradients and its states are read, with the parameters and buffers of
the models that were called; of a model also when its first call has ended.  Recorded is where each storage begins; the recording knows
which block that is.  A tensor that is made of others (DTensor's shard, a quantized state) names them by __tensor_flatten__.

    a storage that is several of these is the first: parameter, gradient, optimizer state, buffer
    a master copy of a parameter, which an optimizer has among its parameters, is a parameter

Not seen: what FSDP gathers and gives back within a step; parameters that no module and no optimizer of PyTorch's own holds (DeepSpeed's
partitions); gradients that were freed before the step ended.

The program must not notice: no tensor is made, copied or kept, nothing is asked of the device; a subclass's __torch_function__ is not
called.
"""

import array
import functools
import time
import weakref

import vramscope
from . import _contracts as vramscope_contracts
from . import _signals as vramscope_signals

PARAMETER, GRADIENT, STATE, BUFFER = 1, 2, 3, 4

ALWAYS = 3  # looks that are taken whatever they cost
SHARE = 1000  # of the time; later ones take no more than this part of it
MOST_MODELS = 64
MOST_STORAGES = 12000  # in one look
DEEP = 4  # tensors within tensors, containers within a state

_models = {}  # id of a model that was called -> weak reference
_looks = 0
_addresses_known = None  # whether storages begin where PyTorch says so; None: no parameter with memory was seen yet
_begun = 0.0  # when the first look began
_spent = 0.0  # seconds
_LOOK = 18  # to vramscope._auto_phase: no look is due before so many ns of time.perf_counter()'s clock


def _tell(addresses, count, role):
    return vramscope._library.get("auto_roles", lambda *_: 0)(addresses, count, role)


def _forget(key, _reference):
    _models.pop(key, None)


def called(model):
    """MODEL was called from outside of any other.  Whether that is the first time."""
    key = id(model)
    if key in _models or len(_models) >= MOST_MODELS:
        return False
    _models[key] = weakref.ref(model, functools.partial(_forget, key))
    return True


class _Found:
    """Where storages begin: address -> role, the first that was said of it."""

    def __init__(self, torch):
        self.torch = torch
        # Unlike data_ptr() it gives a storage's beginning, and makes no copy of one that is shared until it is written.
        self.address_of = getattr(torch._C, "_data_address", None) or (lambda tensor: tensor.untyped_storage().data_ptr())
        self.at = {}

    def is_full(self):
        return len(self.at) >= MOST_STORAGES

    def tensor(self, tensor, role, deep=DEEP):
        if not isinstance(tensor, self.torch.Tensor) or self.is_full() or deep == 0:
            return
        flatten = getattr(type(tensor), "__tensor_flatten__", None)
        if flatten is not None:
            for name in flatten(tensor)[0]:
                self.tensor(getattr(tensor, name, None), role, deep - 1)
            return
        try:
            address = self.address_of(tensor)
        except (RuntimeError, NotImplementedError, AttributeError) as error:
            if vramscope_signals.raised(error):
                raise
            return  # it has no storage: sparse, or a stand-in
        if address > 0:
            self.at.setdefault(address, role)

    def gradient(self, parameter):
        if isinstance(parameter, self.torch.Tensor) and parameter.is_leaf:  # of others the attribute warns
            self.tensor(parameter.grad, GRADIENT)

    def state(self, value, deep=DEEP):
        """A state is a tensor, or has some in it."""
        if isinstance(value, self.torch.Tensor):
            self.tensor(value, STATE)
        elif deep and isinstance(value, dict):
            for inner in tuple(value.values()):
                self.state(inner, deep - 1)
        elif deep and isinstance(value, (list, tuple)):
            for inner in value:
                self.state(inner, deep - 1)


def _modules(model):
    """MODEL and all that lies in it, by its own tables: what a class makes of modules() is not called."""
    seen, waiting = set(), [model]
    while waiting:
        module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield module
        waiting.extend(m for m in tuple(module.__dict__.get("_modules", {}).values()) if m is not None)


def _begins(torch, parameter):
    """Where its data says that the storage of a plain PARAMETER begins; 0: it does not say, or would make a copy to do so."""
    plain = type(parameter) in (torch.Tensor, torch.nn.Parameter)
    if not plain or getattr(torch._C, "_is_cow_tensor", lambda _: False)(parameter):
        return 0
    try:
        data = parameter.data_ptr()
        return data and data - parameter.storage_offset() * parameter.element_size()
    except RuntimeError:
        return 0  # it has no storage


def _look_at_address(said, begins):
    if said != begins:
        raise vramscope_contracts.Otherwise(f"the storage of a parameter begins {said - begins} bytes away from where its data says so")
    return "the storage of a parameter begins where its data says so"


def _are_addresses_known(found, parameters):
    global _addresses_known
    if _addresses_known is None:
        begins, first = next(((at, p) for p in parameters for at in (_begins(found.torch, p),) if at), (0, None))
        if begins:
            _addresses_known = vramscope_contracts.holds("storage_address", lambda: _look_at_address(found.address_of(first), begins))
    return _addresses_known is not False


def _read(found, optimizer):
    parameters, buffers = [], []
    for group in optimizer.param_groups if optimizer is not None else ():
        parameters.extend(group["params"])
    for reference in tuple(_models.values()):
        model = reference()
        for module in _modules(model) if model is not None else ():
            parameters.extend(p for p in module.__dict__.get("_parameters", {}).values() if p is not None)
            buffers.extend(b for b in module.__dict__.get("_buffers", {}).values() if b is not None)
    if not _are_addresses_known(found, parameters):
        return
    for parameter in parameters:
        found.tensor(parameter, PARAMETER)
    for parameter in parameters if optimizer is not None else ():
        found.gradient(parameter)
    for state in tuple(optimizer.state.values()) if optimizer is not None else ():
        found.state(state)
    for buffer in buffers:
        found.tensor(buffer, BUFFER)


def _record(found):
    for role in (PARAMETER, GRADIENT, STATE, BUFFER):
        addresses = array.array("Q", (address for address, what in found.at.items() if what == role))
        if addresses:
            _tell(addresses.buffer_info()[0], len(addresses), role)


def look(torch, optimizer=None):
    """Records what OPTIMIZER and the models that were called hold.

    It takes no more than a thousandth of the time that has passed since the first look, but for the first three; what is too large to be
    looked at whole is looked at in part.
    """
    global _looks, _begun, _spent
    now = time.perf_counter()
    if _addresses_known is False or (_looks >= ALWAYS and _spent * SHARE > now - _begun):
        return
    if not _tell(None, 0, 0):  # nothing is recorded, or the recording has much to do
        return
    if _looks == 0:
        _begun = now
    _looks += 1
    found = _Found(torch)
    try:
        with torch._C.DisableTorchFunction():
            _read(found, optimizer)
        _record(found)
    except Exception:
        pass  # what does not want to be asked has no role of its own
    _spent += time.perf_counter() - now
    if _looks >= ALWAYS:
        vramscope._auto_phase(_LOOK, int((_begun + _spent * SHARE) * 1e9))
