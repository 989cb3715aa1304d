#!/bin/bash
# `check` of a dry run's recording, and pytest --vramscope --vramscope-dry, hold a program and its tests against limits.  The steps of the example
# for GitHub Actions run here, but for those that install.
. "$(dirname "$0")/../lib/lib.bash"
find_torch
packages=$SRC/build/deps/pytest
[ -d "$packages" ] || skip "NO PYTEST: scripts/setup.sh test fetches it from PyPI into build/deps/pytest"
mkdir -p "$dir/bin" "$dir/site/vramscope-0.dist-info"
printf '[pytest11]\nvramscope = vramscope.pytest_plugin\n' >"$dir/site/vramscope-0.dist-info/entry_points.txt"
printf 'Metadata-Version: 2.1\nName: vramscope\nVersion: 0\n' >"$dir/site/vramscope-0.dist-info/METADATA"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$dir/bin/python"
printf '#!/bin/sh\nexec "%s" -m pytest -p no:cacheprovider "$@"\n' "$python" >"$dir/bin/pytest"
ln -s "$BUILD/bin/vramscope" "$dir/bin/vramscope"
chmod +x "$dir"/bin/*
export PATH=$dir/bin:$PATH PYTHONPATH=$dir/site:$packages:$BUILD/share/vramscope/python PYTHONDONTWRITEBYTECODE=1 TMPDIR=$dir COLUMNS=300
unset LD_LIBRARY_PATH
cd "$dir" || exit 1

cat >train.py <<'PY'
import torch

model = torch.nn.Linear(8192, 8192, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    model(torch.ones(1024, 8192, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
PY
cat >test_budget.py <<'PY'
import pytest
import torch


def step(width):
    model = torch.nn.Linear(width, width, device="cuda")
    model(torch.ones(1024, width, device="cuda")).sum().backward()


@pytest.mark.vram_limit("200 MiB")
def test_small():
    step(2048)


@pytest.mark.large
@pytest.mark.vram_limit("200 MiB")
def test_large():
    step(8192)


def test_the_gpu_is_the_one_that_was_named():
    assert torch.cuda.get_device_name() == "NVIDIA A100-SXM4-40GB"
PY
printf 'def pytest_addoption(parser):\n    parser.addoption("--dry", action="store_true")\n' >conftest.py # words of the program's own
printf '[pytest]\nmarkers = large\naddopts = -m "not large"\n' >pytest.ini

sed -n 's/^ *- run: //p' "$SRC/examples/ci/memory.yml" | grep -v '^pip install' >steps
[ "$(grep -c . steps)" = 3 ] || fail "the example has other steps: $(cat steps)"
timeout 300 bash -e steps >out 2>&1 || fail "the example's steps fail: $(tail -n 20 out)"
grep -q '2 passed' out || fail "pytest ran something else: $(cat out)"
[ -s memory.xml ] || fail "check wrote no report"

timeout 300 vramscope check --max-peak=300MiB fit.db >out 2>&1
[ $? = 1 ] || fail "a budget of 300 MiB was kept by 512 MiB of weights and gradients: $(cat out)"
grep -q 'dry run' out || fail "check does not say that it was a dry run: $(cat out)"
timeout 300 pytest --vramscope --vramscope-dry -m large >out 2>&1
[ $? = 1 ] && grep -q 'vram_limit: added by the test at its peak on device 0: 7' out || fail "a test's limit: $(cat out)"
timeout 300 pytest --vramscope-dry >out 2>&1
[ $? = 4 ] && grep -q -- '--vramscope-dry is of --vramscope' out || fail "--vramscope-dry alone: $(cat out)"
