"""Detection by queries matched on the host, losses after every decoder layer."""
import torch
import torchvision
from torch import nn
from torch.nn import functional as F
from torchvision.ops import FrozenBatchNorm2d, box_convert, generalized_box_iou

from kit import memory, options


class Detector(nn.Module):
    def __init__(self, d, layers, queries, classes):
        super().__init__()
        net = torchvision.models.resnet34(weights=None, norm_layer=FrozenBatchNorm2d)
        self.body, self.narrow = nn.Sequential(*list(net.children())[:-2]), nn.Conv2d(512, d, 1)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 8, 4 * d, 0.1, batch_first=True), layers, enable_nested_tensor=False)
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(d, 8, 4 * d, 0.1, batch_first=True) for _ in range(layers))
        self.norm, self.queries = nn.LayerNorm(d), nn.Embedding(queries, d)
        self.kind, self.box = nn.Linear(d, classes + 1), nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 4))

    def places(self, empty, d):
        y, x = ((~empty).cumsum(i, dtype=torch.float32) / 10 for i in (1, 2))
        rates = 10000 ** (torch.arange(d // 4, device=empty.device) * 4 / d)
        return torch.cat([f(v[..., None] / rates) for v in (y, x) for f in (torch.sin, torch.cos)], -1).flatten(1, 2)

    def forward(self, images, empty):
        h = self.narrow(self.body(images))
        empty = F.interpolate(empty[:, None].float(), size=h.shape[-2:]).to(torch.bool)[:, 0]
        memory = self.encoder(h.flatten(2).transpose(1, 2) + self.places(empty, h.shape[1]), src_key_padding_mask=empty.flatten(1))
        x, out = self.queries.weight.expand(len(images), -1, -1), []
        for layer in self.decoder:
            x = layer(x, memory, memory_key_padding_mask=empty.flatten(1))
            y = self.norm(x)
            out.append((self.kind(y), self.box(y).sigmoid()))
        return out


@torch.no_grad()
def match(kinds, boxes, label, truth):
    """Greedy: for each true box in turn, the cheapest query that is still free."""
    cost = 5 * torch.cdist(boxes, truth, p=1) - kinds.softmax(-1)[:, label]
    cost = cost - 2 * generalized_box_iou(box_convert(boxes, "cxcywh", "xyxy"), box_convert(truth, "cxcywh", "xyxy"))
    cost, taken = cost.cpu(), []
    for j in range(cost.shape[1]):
        taken.append(next(i for i in cost[:, j].argsort().tolist() if i not in taken))
    return torch.tensor(taken, device=boxes.device)


def loss_of(kinds, boxes, targets, weights):
    labels, total = torch.full(kinds.shape[:2], kinds.shape[-1] - 1, device=kinds.device), 0.0
    count = sum(len(label) for label, _ in targets)
    for i, (label, truth) in enumerate(targets):
        chosen = match(kinds[i], boxes[i], label, truth)
        labels[i, chosen] = label
        iou = torch.diag(generalized_box_iou(box_convert(boxes[i, chosen], "cxcywh", "xyxy"), box_convert(truth, "cxcywh", "xyxy")))
        total = total + (5 * (boxes[i, chosen] - truth).abs().sum() + 2 * (1 - iou).sum()) / count
    return total + F.cross_entropy(kinds.transpose(1, 2), labels, weights)


a = options(d=256, layers=5, queries=90, batch=7, largest=640, classes=40)
torch.manual_seed(1021)
model = Detector(a.d, a.layers, a.queries, a.classes).to(a.device)
body = list(model.body.parameters())
optimizer = torch.optim.AdamW([{"params": body, "lr": 1e-5}, {"params": [w for n, w in model.named_parameters() if not n.startswith("body")]}], lr=1e-4)
weights = torch.ones(a.classes + 1, device=a.device)
weights[-1] = 0.1
for step in range(4):
    sizes = torch.randint(a.largest // 2, a.largest + 1, (a.batch, 2))
    height, width = sizes.amax(0).tolist()
    images, empty = torch.zeros(a.batch, 3, height, width), torch.ones(a.batch, height, width, dtype=torch.bool)
    for i, (h, w) in enumerate(sizes.tolist()):
        images[i, :, :h, :w], empty[i, :h, :w] = torch.randn(3, h, w), False
    targets = [(torch.randint(0, a.classes, (n,)).to(a.device), torch.cat([torch.rand(n, 2) * 0.6 + 0.2, torch.rand(n, 2) * 0.3 + 0.02], 1).to(a.device))
               for n in torch.randint(1, 12, (a.batch,)).tolist()]
    losses = [loss_of(k, b, targets, weights) for k, b in model(images.to(a.device), empty.to(a.device))]
    optimizer.zero_grad()
    sum(losses).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    print(f"step {step} {height}x{width} loss {losses[-1].item():.3f}")
    memory(step=step)
