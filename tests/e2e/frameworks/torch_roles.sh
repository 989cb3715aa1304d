#!/bin/bash
# Each block that a program knows to be a parameter, gradient, optimizer state or buffer is said to be that, and no other is; no subclass is
# asked, no model
# kept, and the cost is bounded.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch

recorded "$python" "$here/torch_roles.py" "$dir/roles"
[ "$status" = 0 ] || fail "exit status $status"
python3 - "$dir/roles" "$db" <<'PY' || fail "roles"
import collections, json, sqlite3, sys
facts = json.load(open(sys.argv[1]))
db = sqlite3.connect(sys.argv[2])
# what lived when the program said what is what
said = {address: (size, role) for address, size, role in db.execute("""SELECT a.address, a.size_bytes, f.role FROM allocation a LEFT JOIN framework_says f USING(alloc_seq)
    JOIN moment m ON a.t_alloc_ns <= m.t_ns AND (a.t_free_ns IS NULL OR a.t_free_ns > m.t_ns) JOIN string s ON s.id = m.name AND s.text = 'facts'
    WHERE a.op = 'block_alloc'""")}
wanted = {}
for case, address, size, role in facts:  # of several the first in this order
    order = ["parameter", "gradient", "optimizer state", "buffer"]
    if address not in wanted or order.index(role) < order.index(wanted[address][1]):
        wanted[address] = case, role, size
bad = 0
for address, (case, role, size) in wanted.items():
    if said.get(address) != (-(-size // 512) * 512, role):
        bad += 1
        print(f"{case}: {size} bytes are {said.get(address)}, should be {role}")
others = [(a, s) for a, s in said.items() if s[1] and a not in wanted]
counted = collections.Counter((case, role) for case, role, _ in wanted.values())
print(len(wanted), "storages,", counted)
# what the program does not name: the loud model's two parameters, their gradients, and the other one's parameter
if len(others) > 5:
    bad += 1
    print("more is said to be something than is:", others[:10])
for case in ("adam", "frozen", "flat"):
    for role in ("parameter", "gradient", "optimizer state"):
        if not counted[case, role]:
            bad += 1
            print(f"{case} has no {role}: the test tests nothing")
sys.exit(bad > 0)
PY
expect_sql "SELECT state FROM contract WHERE name = 'storage_address'" proven
in_full || { echo "PyTorch's own word is recorded, block by block" && exit; }
# a storage that does not begin where PyTorch says so: no block has a role of PyTorch's, and the report says why
cat >"$dir/elsewhere.py" <<'PY'
import torch
real = torch._C._data_address
torch._C._data_address = lambda tensor: real(tensor) + 8
torch.set_default_device("cuda")
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(3):
    model(torch.ones(64)).sum().backward()
    optimizer.step()
PY
recorded "$python" "$dir/elsewhere.py"
[ "$status" = 0 ] || fail "elsewhere: exit status $status"
expect_sql "SELECT count(*) FROM framework_says" 0
expect_sql "SELECT state FROM contract WHERE name = 'storage_address' AND detail LIKE '%: roles that PyTorch itself knows are not known: the storage of a parameter begins 8 bytes away from where its data says so'" broken
# nothing is asked where nothing is recorded
shim_env=(VRAMSCOPE_AUTO_PHASES=off)
recorded "$python" -c 'import sys, torch; assert "vramscope._roles" not in sys.modules'
[ "$status" = 0 ] || fail "without automatic phases: $status"
echo "PyTorch's own word is recorded, block by block"
