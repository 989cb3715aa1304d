"""programs.py NAME FACTS | --list - small programs as people write them, each with its own witness. check.py has what each is expected
to show.
"""
import copy
import importlib.util
import sys
import threading

import torch
from torch import nn
from torch.nn import functional as F

from witness import DEVICE, Witness

N = 4  # how many times as wide as the widths that stand below
STEPS = 14


def loop(w, models, optimizers, inputs, loss_of, clip=False, after=None):
    """The loop that most have: INPUTS() are those of a step, LOSS_OF(them) its loss."""
    w.look(models)
    for step in range(STEPS):
        x = inputs()
        w.made(*x)
        with w.activations():
            loss = loss_of(*x)
        loss.backward()
        w.look(models, optimizers)
        if clip:
            torch.nn.utils.clip_grad_norm_(models[0].parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if after:
            after(models[0], loss, x[0], step)


# ---- models of libraries ----

def t5(w):
    import transformers

    config = transformers.T5Config(vocab_size=4096, d_model=128 * N, d_kv=64, d_ff=512 * N, num_layers=3, num_decoder_layers=3, num_heads=2 * N)
    config.decoder_start_token_id = 0
    model = transformers.T5ForConditionalGeneration(config).to(DEVICE)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-4)]
    loop(w, [model], optimizers, lambda: (torch.randint(0, 4096, (2 * N, 64 * N), device=DEVICE), torch.randint(0, 4096, (2 * N, 32 * N), device=DEVICE)),
         lambda source, target: model(input_ids=source, labels=target).loss)
    w.look([model], optimizers)


def whisper(w):
    import transformers

    config = transformers.WhisperConfig(vocab_size=2048, d_model=128 * N, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                                        encoder_ffn_dim=512 * N, decoder_ffn_dim=512 * N, max_source_positions=100 * N, max_target_positions=64,
                                        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    model = transformers.WhisperForConditionalGeneration(config).to(DEVICE)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-4)]
    loop(w, [model], optimizers, lambda: (torch.randn(2 * N, 80, 200 * N, device=DEVICE), torch.randint(3, 2048, (2 * N, 32), device=DEVICE)),
         lambda sound, text: model(input_features=sound, labels=text).loss, clip=True)
    w.look([model], optimizers)


def kvcache(w):
    import transformers

    config = transformers.GPT2Config(vocab_size=4096, n_embd=128 * N, n_layer=4, n_head=4, n_positions=256)
    model = transformers.GPT2LMHeadModel(config).to(DEVICE).eval()
    w.look([model])
    ids, past = torch.randint(0, 4096, (8 * N, 128), device=DEVICE), None
    with torch.no_grad():
        for _ in range(40):
            out = model(input_ids=ids, past_key_values=past, use_cache=True)
            past = out.past_key_values
            ids = out.logits[:, -1:].argmax(-1)
            w.of("cache", [t for layer in past.layers for t in (layer.keys, layer.values)])


def gnn(w):
    from torch_geometric.nn import GCNConv

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = GCNConv(64 * N, 128 * N), GCNConv(128 * N, 16)

        def forward(self, x, edges):
            return self.second(F.relu(self.first(x, edges)), edges)

    nodes = 4000 * N
    features, edges = torch.randn(nodes, 64 * N, device=DEVICE), torch.randint(0, nodes, (2, 8 * nodes), device=DEVICE)
    labels = torch.randint(0, 16, (nodes,), device=DEVICE)
    w.made(features, edges, labels)
    model = Net().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    w.look([model])
    for _ in range(STEPS):
        with w.activations():
            loss = F.cross_entropy(model(features, edges), labels)
        optimizer.zero_grad()
        loss.backward()
        w.look([model], [optimizer])
        optimizer.step()


def lightning(w):
    import logging

    import lightning as L

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    width = 256 * N

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

        def training_step(self, batch, index):
            with w.activations():
                return F.mse_loss(self.net(batch), batch)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

        def on_after_backward(self):
            w.look([self])

        def on_train_batch_end(self, *_):
            w.look([self], [self.optimizers().optimizer])

    data = torch.utils.data.DataLoader(torch.randn(16 * STEPS, width), batch_size=16)
    L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
              enable_model_summary=False, gradient_clip_val=1.0).fit(Module(), data)


def accelerated(w):
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=4)
    width = 256 * N
    model = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(width, width), nn.GELU())), nn.Linear(width, 10))
    data = torch.utils.data.TensorDataset(torch.randn(64 * 4 * STEPS, width), torch.randint(0, 10, (64 * 4 * STEPS,)))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), torch.utils.data.DataLoader(data, batch_size=64, pin_memory=True))
    w.look([model])
    for x, y in loader:
        w.made(x, y)
        with accelerator.accumulate(model):
            with w.activations():
                loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            w.look([model], [optimizer.optimizer])
            optimizer.step()
            optimizer.zero_grad()


# ---- models of one's own ----

class Mlp(nn.Module):
    def __init__(self, inside, width, out, depth=3):
        super().__init__()
        sizes = [inside] + [width] * depth
        self.body = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Linear(width, out)

    def forward(self, x):
        for layer in self.body:
            x = F.relu(layer(x))
        return self.head(x)


def mamba(w):
    """A selective scan, one time step after another."""
    class Scan(nn.Module):
        def __init__(self, width, state=16):
            super().__init__()
            self.enter, self.leave = nn.Linear(width, 2 * width), nn.Linear(width, width)
            self.conv = nn.Conv1d(width, width, 4, groups=width, padding=3)
            self.project, self.dt = nn.Linear(width, 2 * state + 1), nn.Linear(1, width)
            self.A = nn.Parameter(torch.arange(1.0, state + 1).repeat(width, 1).log())

        def forward(self, u):
            x, gate = self.enter(u).chunk(2, -1)
            x = F.silu(self.conv(x.transpose(1, 2))[..., : u.shape[1]].transpose(1, 2))
            dt, b, c = self.project(x).split([1, 16, 16], -1)
            dt, a = F.softplus(self.dt(dt)), -self.A.exp()
            h, out = x.new_zeros(*x.shape[::2], 16), []
            for t in range(u.shape[1]):
                h = (dt[:, t, :, None] * a).exp() * h + (dt[:, t] * x[:, t])[..., None] * b[:, t, None]
                out.append((h * c[:, t, None]).sum(-1))
            return u + self.leave(torch.stack(out, 1) * F.silu(gate))

    class Mamba(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.embed, self.layers, self.head = nn.Embedding(512, width), nn.ModuleList(Scan(width) for _ in range(2)), nn.Linear(width, 512)

        def forward(self, ids):
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    model = Mamba(64 * N).to(DEVICE)
    loop(w, [model], [torch.optim.AdamW(model.parameters(), lr=1e-3)], lambda: (torch.randint(0, 512, (8, 33), device=DEVICE),),
         lambda ids: F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()))


def gan(w):
    generator, critic = Mlp(64, 256 * N, 784).to(DEVICE), Mlp(784, 256 * N, 1).to(DEVICE)
    of_g, of_c = torch.optim.Adam(generator.parameters(), lr=2e-4), torch.optim.RMSprop(critic.parameters(), lr=2e-4)
    w.look([generator, critic])
    for _ in range(STEPS):
        real = w.made(torch.rand(128 * N, 784, device=DEVICE))
        with w.activations():
            fake = generator(torch.randn(128 * N, 64, device=DEVICE))
            loss = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
        of_c.zero_grad()
        loss.backward()
        w.look([generator, critic], [of_g, of_c])
        of_c.step()
        with w.activations():
            loss = F.softplus(-critic(fake)).mean()
        of_g.zero_grad()
        loss.backward()
        w.look([generator, critic], [of_g, of_c])
        of_g.step()


def lora(w):
    class Adapter(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down, self.up = nn.Parameter(torch.randn(8, base.in_features) * 0.01), nn.Parameter(torch.zeros(base.out_features, 8))

        def forward(self, x):
            return self.base(x) + x @ self.down.T @ self.up.T

    model = Mlp(256 * N, 512 * N, 100).to(DEVICE)
    model.body = nn.ModuleList(Adapter(layer) for layer in model.body).to(DEVICE)
    model.head.requires_grad_(False)
    loop(w, [model], [torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)], lambda: (torch.randn(64, 256 * N, device=DEVICE),),
         lambda x: F.cross_entropy(model(x), torch.zeros(64, dtype=torch.long, device=DEVICE)))


def amp(w):
    model = nn.Sequential(*(m for _ in range(6) for m in (nn.Linear(256 * N, 256 * N), nn.LayerNorm(256 * N), nn.GELU(), nn.Dropout(0.1))), nn.Linear(256 * N, 10)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(DEVICE)
    w.look([model])
    for _ in range(STEPS):
        x = w.made(torch.randn(512 * N, 256 * N, device=DEVICE))
        with w.activations(), torch.autocast(DEVICE, torch.float16):
            loss = model(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        w.look([model], [optimizer])
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def compiled(w):
    model = Mlp(256 * N, 512 * N, 256 * N, depth=6).to(DEVICE)
    fast = torch.compile(model, backend="inductor")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    w.look([model])
    for _ in range(STEPS):
        x = w.made(torch.randn(512 * N, 256 * N, device=DEVICE))
        loss = F.mse_loss(fast(x), x)
        loss.backward()
        w.look([model], [optimizer])
        optimizer.step()
        optimizer.zero_grad()


def ema(w):
    """SGD with momentum, an averaged copy of the weights, a cosine schedule, an evaluation of the copy after each step."""
    model = nn.Sequential(nn.Conv2d(3, 32 * N, 3, padding=1), nn.BatchNorm2d(32 * N), nn.ReLU(), nn.Conv2d(32 * N, 64 * N, 3, padding=1), nn.GroupNorm(4, 64 * N),
                          nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * N * 16, 100 * N)).to(DEVICE)
    average = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    w.look([model, average])
    held = torch.randn(16, 3, 32, 32, device=DEVICE)
    for _ in range(STEPS):
        x = w.made(torch.randn(16, 3, 32, 32, device=DEVICE))
        with w.activations():
            loss = F.cross_entropy(model(x), torch.zeros(16, dtype=torch.long, device=DEVICE))
        loss.backward()
        w.look([model, average], [optimizer])
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        schedule.step()
        with torch.no_grad():
            for ours, theirs in zip(average.parameters(), model.parameters()):
                ours.lerp_(theirs, 0.01)
            average(held)


def reinforce(w):
    policy, value = Mlp(64, 256 * N, 8).to(DEVICE), Mlp(64, 256 * N, 1).to(DEVICE)
    both = [*policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(both, lr=3e-4)
    w.look([policy, value])
    for _ in range(STEPS):
        state, states, actions, rewards = torch.randn(256 * N, 64, device=DEVICE), [], [], []
        with torch.no_grad():
            for _ in range(32):
                action = torch.distributions.Categorical(logits=policy(state)).sample()
                states.append(state)
                actions.append(action)
                rewards.append((action == 3).float())
                state = state.roll(1, -1) + 0.01 * action[:, None]
            states, actions, returns = torch.cat(states), torch.cat(actions), torch.stack(rewards).flip(0).cumsum(0).flip(0).flatten()
            old = torch.distributions.Categorical(logits=policy(states)).log_prob(actions)
        w.made(states, actions, returns, old)
        for _ in range(2):
            with w.activations():
                of = torch.distributions.Categorical(logits=policy(states))
                advantage = returns - value(states).squeeze(-1)
                ratio = (of.log_prob(actions) - old).exp()
                loss = -(ratio * advantage.detach()).mean() + advantage.square().mean() - 0.01 * of.entropy().mean()
            loss.backward()
            w.look([policy, value], [optimizer])
            optimizer.step()
            optimizer.zero_grad()


def lstm(w):
    """Truncated backpropagation; batches come pinned from a loader's worker, one ahead on a stream of its own."""
    model = nn.ModuleDict({"rnn": nn.LSTM(128, 256 * N, 2, batch_first=True), "head": nn.Linear(256 * N, 128)}).to(DEVICE)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=1e-2)
    data = torch.utils.data.DataLoader(torch.randn(16 * STEPS, 64, 128), batch_size=16, num_workers=2, pin_memory=True)
    hidden = None
    w.look([model], [optimizer])
    for x in data:
        x = w.made(x.to(DEVICE, non_blocking=True))
        with w.activations():
            out, hidden = model["rnn"](x, hidden)
            loss = F.mse_loss(model["head"](out), x)
        hidden = tuple(h.detach() for h in hidden)
        loss.backward()
        w.look([model], [optimizer])
        torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def own_optimizer(w):
    """Lion, written by the user: its states lie in a plain dict."""
    class Lion:
        def __init__(self, parameters, lr):
            self.parameters, self.lr, self.momentum = list(parameters), lr, {}

        @torch.no_grad()
        def step(self):
            for p in self.parameters:
                m = self.momentum.setdefault(p, torch.zeros_like(p))
                p.add_((m * 0.9 + p.grad * 0.1).sign_(), alpha=-self.lr)
                m.lerp_(p.grad, 0.01)

        def zero_grad(self):
            for p in self.parameters:
                p.grad = None

    model = Mlp(256 * N, 512 * N, 100, depth=6).to(DEVICE)
    optimizer = Lion(model.parameters(), 1e-4)
    w.look([model])
    for _ in range(STEPS):
        x = w.made(torch.randn(64, 256 * N, device=DEVICE))
        with w.activations():
            loss = F.cross_entropy(model(x), torch.zeros(64, dtype=torch.long, device=DEVICE))
        loss.backward()
        w.look([model])
        optimizer.step()
        w.of("optimizer state", optimizer.momentum.values())
        optimizer.zero_grad()


def distill(w):
    student, teacher = Mlp(256 * N, 256 * N, 1000).to(DEVICE), Mlp(256 * N, 512 * N, 1000, depth=6).to(DEVICE).requires_grad_(False).eval()

    def inputs():
        x = w.made(torch.randn(256 * N, 256 * N, device=DEVICE))
        with torch.no_grad():
            return x, teacher(x).softmax(-1)

    loop(w, [student, teacher], [torch.optim.AdamW(student.parameters(), lr=1e-3)], inputs,
         lambda x, wanted: F.kl_div(student(x).log_softmax(-1), wanted, reduction="batchmean"))


def tiny_head(w):
    """A regression: the model's output is one number a row."""
    return plain(w, Mlp(256 * N, 512 * N, 1), 256 * N, 2048 * N, lambda out: out.square().mean())


def huge_head(w):
    """As many classes as a language has words, no language: images of a retrieval model."""
    return plain(w, Mlp(256, 64 * N, 25000 * N, depth=1), 256, 64 * N, lambda out: F.cross_entropy(out, torch.zeros(len(out), dtype=torch.long, device=DEVICE)))


def muon(w):
    return plain(w, Mlp(256 * N, 512 * N, 100, depth=6), 256 * N, 64, lambda out: out.square().mean(),
                 lambda model: [torch.optim.Muon([p for p in model.parameters() if p.ndim == 2], lr=1e-3),
                                torch.optim.AdamW([p for p in model.parameters() if p.ndim != 2], lr=1e-3)])


def plain(w, model, inside, batch, loss_of, make=lambda model: [torch.optim.AdamW(model.parameters(), lr=1e-3)], after=None):
    """AFTER(the loss, the step) is what the programs below do wrong."""
    model = model.to(DEVICE)
    loop(w, [model], make(model), lambda: (torch.randn(batch, inside, device=DEVICE),), lambda x: loss_of(model(x)), after=after)
    return model


def threads(w):
    """Two models, trained in two threads at once."""
    def one():
        plain(w, Mlp(256 * N, 512 * N, 100), 256 * N, 64 * N, lambda out: out.square().mean())

    both = [threading.Thread(target=one) for _ in range(2)]
    for t in both:
        t.start()
    for t in both:
        t.join()


# ---- programs that keep what they should not, and programs that only look so ----

def leak_closure(w):
    """A cache in a closure, with keys that never come again."""
    def cached(make):
        known = {}

        def get(key):
            if key not in known:
                known[key] = make(key)
            return known[key]

        return get

    @cached
    def mask(key):
        return torch.full((1 << 16, N), float(key), device=DEVICE)

    w.facts["leaked"] = (1 << 18) * N
    plain(w, Mlp(256 * N, 256 * N, 10), 256 * N, 64, lambda out: out.square().mean(), after=lambda model, loss, x, step: mask(step))


def leak_exception(w):
    """An error of each step is kept, and with it the frames that it came through, and what these hold."""
    errors = []

    def validate(x):
        wide = torch.cat([x] * 16, 1)
        if wide.shape[1] > 0:
            raise ValueError("too wide")

    def after(model, loss, x, step):
        try:
            validate(x)
        except ValueError as e:
            errors.append(e)

    w.facts["leaked"] = 17 * 64 * 256 * N * 4
    plain(w, Mlp(256 * N, 256 * N, 10), 256 * N, 64, lambda out: out.square().mean(), after=after)


def leak_loss(w):
    """losses.append(loss), of an evaluation that forgot no_grad(): the graph stays, and with it what it saved."""
    losses = []

    def after(model, loss, x, step):
        with w.activations("kept"):
            losses.append(model(torch.randn(256, 256 * N, device=DEVICE)).square().mean())

    plain(w, Mlp(256 * N, 256 * N, 10), 256 * N, 64, lambda out: out.square().mean(), after=after)


def leak_outputs(w):
    """Predictions of all steps are collected on the device."""
    seen = []

    def after(model, loss, x, step):
        w.of("kept", seen)

    plain(w, Mlp(256 * N, 256 * N, 4096), 256 * N, 64, lambda out: (seen.append(out.detach()), out.square().mean())[1], after=after)
    w.facts["leaked"] = 64 * 4096 * 4


def no_leak_warm(w):
    """Masks of the lengths that come, cached; after three steps all have come."""
    known = {}
    plain(w, Mlp(256 * N, 256 * N, 10), 256 * N, 64, lambda out: out.square().mean(),
          after=lambda model, loss, x, step: known.setdefault(step % 3, torch.ones(1 << 18, device=DEVICE)))


def no_leak_window(w):
    """The features of the last four batches are kept."""
    import collections

    last = collections.deque(maxlen=4)
    plain(w, Mlp(256 * N, 256 * N, 1024), 256 * N, 256, lambda out: (last.append(out.detach()), out.square().mean())[1],
          after=lambda model, loss, x, step: w.of("kept", last))


LIBRARIES = {t5: "transformers", whisper: "transformers", kvcache: "transformers", gnn: "torch_geometric", lightning: "lightning", accelerated: "accelerate"}
PROGRAMS = {f.__name__: f for f in (t5, whisper, kvcache, gnn, lightning, accelerated, mamba, gan, lora, amp, compiled, ema, reinforce, lstm, own_optimizer, distill, tiny_head,
                                    huge_head, muon, threads, leak_closure, leak_exception, leak_loss, leak_outputs, no_leak_warm, no_leak_window)}


def main(name, facts):
    torch.manual_seed(0)
    witness = Witness()
    PROGRAMS[name](witness)
    witness.write(facts)


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(n for n, f in PROGRAMS.items() if f not in LIBRARIES or importlib.util.find_spec(LIBRARIES[f])))
    else:
        main(*sys.argv[1:])
