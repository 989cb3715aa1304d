"""idle_programs.py NAME - small trainings for idle.sh, the same in each run to the last bit; prints the losses and a hash of the
parameters.

PyTorch's attention sums the queries' gradients in any order unless it must be deterministic ("warn_only" is not enough), and then
an operator that cannot be is an error: programs with attention are STRICT, others not.
"""
import hashlib
import sys

STRICT = ("vit", "gpt2", "llama", "checkpoint")


def checkpointed_llama(torch, checkpoint):
    import transformers

    config = transformers.LlamaConfig(vocab_size=16000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16,
                                      num_key_value_heads=8, use_cache=False)
    model = transformers.LlamaForCausalLM(config).cuda()
    if checkpoint:
        model.gradient_checkpointing_enable()
    model.train()

    def loss():
        ids = torch.randint(0, 16000, (4, 384), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(input_ids=ids, labels=ids).loss

    return model, loss


def mlp(torch):
    layers = [m for _ in range(6) for m in (torch.nn.Linear(2048, 2048), torch.nn.GELU(), torch.nn.Dropout(0.1))]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(2048, 1000)).cuda()
    return model, lambda: torch.nn.functional.cross_entropy(model(torch.randn(4096, 2048, device="cuda")), torch.randint(0, 1000, (4096,), device="cuda"))


def vision(torch, make, batch, size):
    import torchvision

    model = getattr(torchvision.models, make)(weights=None).cuda()

    def loss():
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=make.startswith("vit")):  # attention in fp32 is not the same twice
            return torch.nn.functional.cross_entropy(model(torch.randn(batch, 3, size, size, device="cuda")).float(), torch.randint(0, 1000, (batch,), device="cuda"))

    return model, loss


def gpt2(torch):
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=6, n_positions=512)).cuda()

    def loss():
        ids = torch.randint(0, 50257, (4, 512), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(input_ids=ids, labels=ids).loss

    return model, loss


def gnn(torch):
    from torch_geometric.nn import GATConv, SAGEConv

    nodes, edges = 20000, 200000
    x = torch.randn(nodes, 256, device="cuda")
    edge_index = torch.randint(0, nodes, (2, edges), device="cuda")
    label = torch.randint(0, 40, (nodes,), device="cuda")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = SAGEConv(256, 512), GATConv(512, 128, heads=4), SAGEConv(512, 40)

        def forward(self, x):
            x = torch.relu(self.a(x, edge_index))
            return self.c(torch.relu(self.b(x, edge_index)), edge_index)

    model = Net().cuda()
    return model, lambda: torch.nn.functional.cross_entropy(model(x), label)


def lstm(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.rnn = torch.nn.Embedding(20000, 512), torch.nn.LSTM(512, 1024, 2, batch_first=True, dropout=0.2)
            self.head = torch.nn.Linear(1024, 20000)

        def forward(self, ids):
            return self.head(self.rnn(self.embed(ids))[0])

    model = Net().cuda()

    def loss():
        ids = torch.randint(0, 20000, (16, 129), device="cuda")
        return torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    return model, loss


def graph(torch):
    """Forward, backward and optimizer in a CUDA graph that is replayed."""
    model = torch.nn.Sequential(*[m for _ in range(4) for m in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())], torch.nn.Linear(1024, 1024)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    x, y = torch.randn(4096, 1024, device="cuda"), torch.randn(4096, 1024, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    captured, losses = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(captured, capture_error_mode="relaxed"):
        loss = step()
    for i in range(6):
        x.copy_(torch.randn(4096, 1024).pin_memory())
        captured.replay()
        losses.append(loss.item())
    return model, losses


def ema(torch):
    """A training that evaluates now and then with an average of its weights, and keeps the best."""
    model, loss = vision(torch, "resnet18", 64, 96)
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses, best, images = [], None, torch.randn(128, 3, 96, 96, device="cuda")
    for i in range(6):
        value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
        if i % 3 == 2:
            average.update_parameters(model)
            with torch.no_grad():
                score = average(images).std().item()
            losses.append(score)
            if best is None or score > best[0]:
                best = score, {k: v.clone() for k, v in model.state_dict().items()}
    return model, losses


def train(torch, model, loss, steps=4):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []
    for _ in range(steps):
        value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    return model, losses


def main(name):
    import torch

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=name not in STRICT)
    torch.backends.cudnn.benchmark = False
    torch.utils.deterministic.fill_uninitialized_memory = False
    programs = {"mlp": lambda: train(torch, *mlp(torch)),
                "cnn": lambda: train(torch, *vision(torch, "resnet50", 32, 128)),
                "vit": lambda: train(torch, *vision(torch, "vit_b_16", 8, 224)),
                "gpt2": lambda: train(torch, *gpt2(torch)),
                "llama": lambda: train(torch, *checkpointed_llama(torch, False)),
                "checkpoint": lambda: train(torch, *checkpointed_llama(torch, True)),
                "gnn": lambda: train(torch, *gnn(torch)),
                "lstm": lambda: train(torch, *lstm(torch)),
                "graph": lambda: graph(torch),
                "ema": lambda: ema(torch)}
    model, losses = programs[name]()
    torch.cuda.synchronize()
    h = hashlib.sha256()
    for p in model.parameters():
        h.update(p.detach().cpu().numpy().tobytes())
    print(" ".join(float(x).hex() for x in losses), h.hexdigest(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
