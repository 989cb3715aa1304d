"""_heads - finds the output layers of a PyTorch program, which make the logits over a vocabulary, and one that ran where no hook sees it.

An output layer is a linear layer (a module with in_features and out_features) inside no other linear layer, and either

    its weight is that of an embedding (tied weights), or
    it is as wide as the vocabulary, or as wide as one padded to a multiple of 8, and wider than its input.

The vocabulary of a model is its largest embedding; of a model without one the largest of any model seen in the process.

A model is examined at its first call, and again when an output layer was replaced or a larger vocabulary was seen.  Nothing here keeps a
module or a tensor alive.
"""

import weakref

from . import _calls as vramscope_calls
from . import _contracts as vramscope_contracts
from . import _layers as vramscope_layers
from . import _signals as vramscope_signals

HEAD_NAMES = frozenset(
    "lm_head output_head head output output_layer output_projection out_proj_vocab embed_out unembed to_logits logits".split()
)
SMALLEST_VOCABULARY = 16  # smaller tables hold kinds of tokens, not tokens
GRAPH_NODES = 64  # nodes of a graph that are examined: a loss is near its end

are_sought = False  # no layer is an output layer
heads = {}  # id of an output layer -> weak reference to it
vocabularies = set()  # the largest embedding of each model seen
_largest = 0  # of these
_models = {}  # id of a model -> _Model


def _forget(table, key):
    if table is heads:
        vramscope_layers.head_is_gone(key)
    else:
        vramscope_calls.forget_model(key)
    table.pop(key, None)


def _reference(module, table):
    """A weak reference that takes MODULE out of TABLE when it dies: its id may come back."""
    return vramscope_calls.when_gone(module, _forget, table, id(module))


class _Model:
    """The findings about a model that was called from outside of any other."""

    __slots__ = ("alive", "vocabulary", "places", "classes")

    def __init__(self, module):
        self.alive = _reference(module, _models)
        self.vocabulary = 0  # largest of the process when the model was looked at
        self.places = ()  # (parent, name, output layer): weak references, to see a replaced layer
        self.classes = 0  # width of its output layer, 0 where it has none

    def is_current(self):
        if self.vocabulary != _largest:
            return False
        for parent, name, head in self.places:
            owner = parent()
            if owner is None or owner._modules.get(name) is not head():
                return False
        return True


def _is_linear(module):
    values = module.__dict__
    return isinstance(values.get("in_features"), int) and isinstance(values.get("out_features"), int)


def _weight(module):
    return module._parameters.get("weight")


def _walk(module, parent=None, name="", seen=None):
    """(module, parent, name) of MODULE and all in it, but of nothing inside of a linear layer."""
    seen = set() if seen is None else seen
    if id(module) in seen:
        return
    seen.add(id(module))
    yield module, parent, name
    if not _is_linear(module):
        for child_name, child in module._modules.items():
            if child is not None:
                yield from _walk(child, module, child_name, seen)


def _is_padded(width, vocabulary):
    return width % 8 == 0 and vocabulary < width <= vocabulary + vocabulary // 8 + 128


def find_heads(model, embedding_class, largest=0):
    """([(output layer, parent, name)], vocabulary) of MODEL; LARGEST is the vocabulary where it has no embedding.

    A hidden layer may be as wide as a small vocabulary: so a layer whose width a later linear layer takes as input is no output layer, unless
    its name says so or its weight is tied; a padded width counts only where no layer has the exact one; and where a layer's name or weight
    says that it is one, others that are as wide are none.
    """
    places = list(_walk(model))
    tables = [m for m, _, _ in places if isinstance(m, embedding_class)]
    linear = [place for place in places if _is_linear(place[0])]
    own = max((t.num_embeddings for t in tables), default=0)
    own = own if own >= SMALLEST_VOCABULARY else 0
    vocabulary = own or largest
    weights = {id(_weight(t)) for t in tables if _weight(t) is not None}
    last_taken = {m.in_features: i for i, (m, _, _) in enumerate(linear)}  # a width: the last layer that takes it in

    def says_so(place):
        return id(_weight(place[0])) in weights or place[2] in HEAD_NAMES

    def matching(width_matches):
        found = []
        for i, place in enumerate(linear):
            width = place[0].out_features
            wide = width > place[0].in_features and width_matches(width)
            if id(_weight(place[0])) in weights or (wide and (place[2] in HEAD_NAMES or last_taken.get(width, -1) < i)):
                found.append(place)
        return [place for place in found if says_so(place)] or found

    found = matching(lambda width: width == vocabulary)
    if not found and vocabulary:
        found = matching(lambda width: _is_padded(width, vocabulary))
    return found, own


def _look_at(model, entry, torch):
    global _largest
    found, own = find_heads(model, torch.nn.Embedding, _largest) if are_sought else ([], 0)
    if own:
        vocabularies.add(own)
        if _largest != max(vocabularies):
            for key in tuple(_models):  # they are to be looked at again
                vramscope_calls.forget_model(key)
        _largest = max(vocabularies)
    entry.classes = max((head.out_features for head, _, _ in found), default=0)
    entry.places = tuple((weakref.ref(p), name, weakref.ref(head)) for head, p, name in found if p is not None)
    for head, _, _ in found:
        heads[id(head)] = _reference(head, heads)
        vramscope_layers.is_head(head)
    entry.vocabulary = _largest  # the last: it says that the rest is done


def model_of(module, torch):
    """The findings about MODULE, which is called from outside of any other; None: it has no parameters."""
    entry = _models.get(id(module))
    if entry is None:
        if next(iter(module.parameters()), None) is None:
            return None  # they may come later
        entry = _Model(module)
        _look_at(module, entry, torch)
        _models[id(module)] = entry  # as late as this: a signal handler may end all that by an exception
    elif not entry.is_current():
        _look_at(module, entry, torch)
    return entry


def call_directly(module):
    """Calls of MODULE, which model_of() was asked about, may pass by the wrapper's code as long as is_current() says so."""
    entry = _models[id(module)]
    vramscope_calls.model(id(module), entry.classes, bool(entry.places))


def is_current(module):
    """Whether the findings about MODULE are still right."""
    entry = _models.get(id(module))
    return entry is not None and entry.is_current()


# ---- whether PyTorch is as all this takes it for granted ----


def _widths(torch):
    parts = vars(torch.nn.Identity())
    missing = [name for name in ("_modules", "_parameters", "_buffers") if not isinstance(parts.get(name), dict)]
    for kind, names in (torch.nn.Linear, ("in_features", "out_features")), (torch.nn.Embedding, ("num_embeddings",)):
        said = (*getattr(kind, "__constants__", ()), *getattr(kind, "__annotations__", ()))
        missing += [f"{kind.__name__}.{name}" for name in names if name not in said]
    if missing:
        raise vramscope_contracts.Otherwise("modules have no " + ", ".join(missing))


_NODE = "LogSoftmaxBackward0"


def _nodes(torch):
    kind = getattr(torch._C._functions, _NODE, None)
    missing = [name for name in ("name", "next_functions", "_saved_dim", "_input_metadata") if not hasattr(kind, name)]
    if missing:
        raise vramscope_contracts.Otherwise(f"{_NODE} has no " + ", ".join(missing))


def _look(torch):
    global are_sought
    _widths(torch)
    are_sought = True
    _nodes(torch)
    return "modules say their parts and widths, a node its dimension and shape"


def look(torch, backward_is_known):
    """Whether an output layer that is not called can be noticed; sets are_sought.  Without backward nothing would end logits."""
    global are_sought
    all_holds = vramscope_contracts.holds("output_layers", _look, torch)
    are_sought = are_sought and backward_is_known
    return all_holds


# ---- output layers that were not called ----


def _is_class_width(width):
    """Whether WIDTH is a vocabulary, or one rounded up to a power of two's multiple."""
    return any(
        width == v or (_is_padded(width, v) and any(width == -(-v // (1 << k)) << k for k in range(3, 13))) for v in vocabularies
    )


def _classes_of(node):
    """The number of classes if NODE is a log-softmax, else 0; found without unpacking its saved tensors."""
    if not node.name().startswith("LogSoftmaxBackward"):
        return 0
    shape = node._input_metadata[0].shape
    dim = node._saved_dim
    return int(shape[dim - (1 << 64) if dim >= 1 << 63 else dim])  # negative dimensions are shown unsigned


def _classes_in_graph(tensor):
    queue, seen = [tensor.grad_fn], set()
    while queue and len(seen) < GRAPH_NODES:
        node = queue.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        classes = _classes_of(node)
        if classes and _is_class_width(classes):
            return classes
        queue.extend(next_node for next_node, _ in node.next_functions)
    return 0


def classes_without_call(tensors, torch):
    """The classes of a cross-entropy over a vocabulary that the graph behind TENSORS ends with, or 0: then an output layer ran without being
    called (in a compiled model, as F.linear, in a fused loss)."""
    if not vocabularies:
        return 0
    if isinstance(tensors, dict):  # torch from 2.15 on
        tensors = list(tensors.values())
    first = tensors[0] if isinstance(tensors, (tuple, list)) and tensors else tensors
    if not isinstance(first, torch.Tensor):
        return 0
    try:
        return _classes_in_graph(first)
    except (AttributeError, IndexError, TypeError) as error:
        if vramscope_signals.raised(error):
            raise
        return 0  # this version of PyTorch shows less of its graph
