"""Any classifier of torchvision in float32, with an optimizer by name and, where asked for, an averaged copy or deterministic algorithms."""
import argparse
import json
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
import torchvision


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("--device", default="cuda")
    p.add_argument("--batch", type=int, default=19)
    p.add_argument("--image", type=int, default=224)
    p.add_argument("--optimizer", default="sgd", choices=["sgd", "rmsprop", "adamw"])
    p.add_argument("--ema", action="store_true")
    p.add_argument("--deterministic", action="store_true")
    p.add_argument("--bf16", action="store_true")
    return p.parse_args()


def main():
    a = arguments()
    torch.manual_seed(21)
    if a.deterministic:
        torch.use_deterministic_algorithms(True)
    model = torchvision.models.get_model(a.model, weights=None, num_classes=1000).to(a.device)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999)) if a.ema else None
    optimizer = {"sgd": lambda q: torch.optim.SGD(q, 0.1, momentum=0.9, nesterov=True),
                 "rmsprop": lambda q: torch.optim.RMSprop(q, 0.05, alpha=0.9, momentum=0.9, eps=1e-3),
                 "adamw": lambda q: torch.optim.AdamW(q, 1e-3)}[a.optimizer](model.parameters())
    for step in range(3):
        model.train()
        x = torch.randn(a.batch, 3, a.image, a.image).to(a.device)
        y = torch.randint(0, 1000, (a.batch,)).to(a.device)
        with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.bf16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if average:
            average.update_parameters(model)
        print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
    (average or model).eval()
    with torch.no_grad():
        (average or model)(torch.randn(a.batch + 6, 3, a.image, a.image).to(a.device))
    print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))


main()
