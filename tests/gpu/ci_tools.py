"""ci_tools.py train|hold JSON | top JSON FRAME - the programs of ci_tools.sh, and tests for the pytest plugin (copied to test_*.py)."""
import json
import sys

try:
    import pytest
except ImportError:
    pytest = None


def train(path):
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2048, 8192), torch.nn.GELU(), torch.nn.Linear(8192, 2048)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(20):
        loss = model(torch.randn(4096, 2048, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    json.dump({"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}, open(path, "w"))


def hold(path):
    import torch

    held = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    json.dump({"allocated": torch.cuda.memory_allocated(), "total": torch.cuda.get_device_properties(0).total_memory}, open(path, "w"))
    sys.stdin.read()
    del held


def top(path, frame):
    wanted = json.load(open(path))["allocated"]
    row = open(frame).read().splitlines()[2].split()
    units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    shown = float(row[3].lstrip(">")) * units[row[4]]
    if not wanted * 0.99 <= shown <= wanted * 1.01 + (64 << 20):
        sys.exit("top shows %s, PyTorch has %d bytes" % (" ".join(row), wanted))


if pytest is not None:

    @pytest.fixture
    def weights():
        import torch

        return torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")

    @pytest.mark.vram_limit("64 MiB")
    def test_within(weights):
        weights[: 64 << 20].clone()

    @pytest.mark.vram_limit("63 MiB")
    def test_beyond(weights):
        weights[: 64 << 20].clone()

    @pytest.mark.vram_limit("320 MiB", total=True)
    def test_total(weights):
        weights[: 64 << 20].clone()


if __name__ == "__main__":
    {"train": train, "hold": hold, "top": top}[sys.argv[1]](*sys.argv[2:])
