"""A table's columns, one of several optimizers; the best weights are kept."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Columns(nn.Module):
    """A token for each column: numbers through periodic functions, kinds from a table; one token more reads the answer off."""
    def __init__(self, numbers, kinds, d, layers, waves=24):
        super().__init__()
        self.waves, self.each = nn.Parameter(torch.randn(numbers, waves) * 0.1), nn.Parameter(torch.randn(numbers, 2 * waves, d) * 0.05)
        self.register_buffer("starts", torch.tensor([0] + kinds[:-1]).cumsum(0))
        self.table, self.answer = nn.Embedding(sum(kinds), d), nn.Parameter(torch.zeros(1, 1, d))
        self.layers = nn.ModuleList(nn.ModuleDict({
            "n1": nn.LayerNorm(d), "attention": nn.MultiheadAttention(d, 8, dropout=0.2, batch_first=True), "n2": nn.LayerNorm(d),
            "wide": nn.Linear(d, 8 * d // 3 * 2), "narrow": nn.Linear(8 * d // 3, d)}) for _ in range(layers))
        self.out = nn.Sequential(nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, 1))

    def forward(self, numbers, kinds):
        v = 2 * torch.pi * self.waves * numbers[..., None]
        x = torch.einsum("bnf,nfd->bnd", torch.cat([v.cos(), v.sin()], -1), self.each)
        x = torch.cat([self.answer.expand(len(x), -1, -1), F.relu(x), self.table(kinds + self.starts)], 1)
        for k, layer in enumerate(self.layers):
            h = layer["n1"](x)
            query = h[:, :1] if k == len(self.layers) - 1 else h
            x = x[:, :query.shape[1]] + layer["attention"](query, h, h, need_weights=False)[0]
            wide, gate = layer["wide"](layer["n2"](x)).chunk(2, -1)
            x = x + layer["narrow"](F.dropout(wide * F.relu(gate), 0.1, self.training))
        return self.out(x[:, 0]).squeeze(1)


class Lamb(torch.optim.Optimizer):
    """Adam whose step is scaled by the ratio of the weights' and the step's norms, tensor by tensor."""
    def __init__(self, weights, lr):
        super().__init__(weights, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                if not state:
                    state["n"], state["m"], state["v"] = 0, torch.zeros_like(w), torch.zeros_like(w)
                state["n"] += 1
                state["m"].mul_(0.9).add_(w.grad, alpha=0.1)
                state["v"].mul_(0.999).addcmul_(w.grad, w.grad, value=0.001)
                step = state["m"] / (1 - 0.9 ** state["n"]) / ((state["v"] / (1 - 0.999 ** state["n"])).sqrt() + 1e-6) + 0.01 * w
                a, b = w.norm(), step.norm()
                w.sub_(step * (torch.where((a > 0) & (b > 0), a / b, torch.ones_like(a)) * group["lr"]))


MAKERS = {
    "radam": lambda w: torch.optim.RAdam(w, lr=1e-3, weight_decay=1e-5, decoupled_weight_decay=True, foreach=False),
    "adadelta": lambda w: torch.optim.Adadelta(w, lr=1.0, rho=0.95),
    "amsgrad": lambda w: torch.optim.AdamW(w, lr=1e-3, amsgrad=True, fused=w[0].is_cuda),
    "lamb": lambda w: Lamb(w, 2e-3),
}
a = options("optimizer", numbers=40, kinds=[90_000, 20_000, 1200, 400, 31, 24, 7, 2], d=320, layers=5, batch=640)
torch.manual_seed(1051)
model = Columns(a.numbers, a.kinds, a.d, a.layers).to(a.device)
optimizer = MAKERS[a.optimizer](list(model.parameters()))
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)


def rows(n):
    kinds = (torch.rand(n, len(a.kinds)) * torch.tensor(a.kinds)).long()
    return [t.to(a.device) for t in (torch.randn(n, a.numbers), kinds, torch.randn(n))]


valid, best, kept = rows(3 * a.batch), float("inf"), None
for step in range(4):
    model.train()
    numbers, kinds, y = rows(a.batch)
    loss = F.mse_loss(model(numbers, kinds), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.inference_mode():
        guess = torch.cat([model(n, k) for n, k in zip(valid[0].split(2 * a.batch), valid[1].split(2 * a.batch))])
        error = F.mse_loss(guess, valid[2]).sqrt().item()
    schedule.step(error)
    if error < best:
        best, kept = error, {k: v.clone() for k, v in model.state_dict().items()}
    print(f"{a.optimizer} {step}: loss {loss.item():.4f} rmse {error:.4f} best {best:.4f}")
    memory(step=step)
