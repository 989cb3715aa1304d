"""torchvision's ViT with mixup and soft labels, bf16 autocast, an odd batch; the last batch is smaller."""
import argparse, json
import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=27)
parser.add_argument("--image", type=int, default=208)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
args = parser.parse_args()
torch.manual_seed(0)
model = torchvision.models.VisionTransformer(image_size=args.image, patch_size=16, num_layers=args.layers, num_heads=12,
                                             hidden_dim=args.width, mlp_dim=args.width * 4, dropout=0.1, num_classes=1000).to(args.device)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.3)
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.11)
for step in range(4):
    n = args.batch if step < 3 else args.batch // 2
    x = torch.randn(n, 3, args.image, args.image).to(args.device)
    y = torch.nn.functional.one_hot(torch.randint(1000, (n,)), 1000).float().to(args.device)
    lam = torch.distributions.Beta(0.2, 0.2).sample().item()
    x = x.mul(lam).add(x.roll(1, 0), alpha=1 - lam)
    y = y.mul(lam).add(y.roll(1, 0), alpha=1 - lam)
    with torch.autocast(args.device, dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
    opt.step()
    print(f"epoch 0 it {step} lr {opt.param_groups[0]['lr']} loss {loss:.4f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
