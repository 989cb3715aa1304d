"""torch_tensors.py - tensors of every element type, shape and stride on the device; prints of each its block, request, element type and shape."""
import torch

kept = []


def made(tensor):
    kept.append(tensor)
    bytes_ = tensor.untyped_storage().nbytes()
    print(-(-bytes_ // 512) * 512, bytes_, str(tensor.dtype).replace("torch.", ""), list(tensor.shape), sep="|")


def refused(error, *shape):
    try:
        torch.empty(shape, device="cuda")
    except error:
        return
    raise SystemExit(f"{shape}: nothing was raised")


made(torch.empty((), device="cuda"))
for i, dtype in enumerate(sorted({t for t in vars(torch).values() if isinstance(t, torch.dtype)}, key=str)):
    try:
        tensor = torch.empty((3, 5, i + 1), dtype=dtype, device="cuda")
    except (RuntimeError, TypeError, NotImplementedError):
        continue
    if tensor.is_quantized:
        kept.append(tensor)  # PyTorch asks for raw bytes for it
    else:
        made(tensor)
made(torch.empty((2, 3, 8, 8), dtype=torch.half, device="cuda", memory_format=torch.channels_last))
made(torch.empty_strided((3, 5), (64, 2), dtype=torch.bfloat16, device="cuda"))
made(torch.empty_strided((4, 6), (0, 1), dtype=torch.double, device="cuda"))
kept.append(torch.empty((0, 4096), device="cuda"))
kept.append(torch.empty(1 << 20))
refused(RuntimeError, 4, -1)
refused(torch.OutOfMemoryError, 1 << 40)
torch.cuda.caching_allocator_alloc(4 << 20)  # raw, though what was refused would not have been
