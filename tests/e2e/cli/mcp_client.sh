#!/bin/bash
# The protocol's own Python package gets from `vramscope mcp` what the commands print, in its newest version and by the older handshake.
. "$(dirname "$0")/../lib/command.bash"
packages=$SRC/build/deps/mcp
[ -d "$packages/mcp" ] || { echo "NO CLIENT: scripts/setup.sh test fetches mcp from PyPI into build/deps/mcp; vramscope mcp was tried with no client" && exit 77; }
gzip -dc "$BUILD/share/vramscope/demo.db.gz" >demo.db || exit 1
make_db train.db
PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=$BUILD/sim python3 - "$V" "$BUILD/tests/prog_sizes" <<'PY' || no "the client (above)"
import asyncio, json, subprocess, sys
from mcp import Client, MCPError, StdioServerParameters

def command(name, *arguments):
    ran = subprocess.run([sys.argv[1], name, "--json", *arguments], capture_output=True, text=True)
    return ran, json.loads(ran.stdout) if ran.stdout else ran.stderr.strip()

TOOLS = {"report": ({"files": ["demo.db"]}, ["demo.db"]),
         "peak": ({"files": ["demo.db"], "by": "layer", "at": "oom", "why": True}, ["--by=layer", "--at=oom", "--why", "demo.db"]),
         "whatif": ({"files": ["demo.db"], "edit": ["checkpoint=1", "batch=0.5"], "device": 0},
                    ["--edit=checkpoint=1", "--edit=batch=0.5", "--device=0", "demo.db"]),
         "diff": ({"files": ["demo.db", "train.db"]}, ["demo.db", "train.db"]),
         "waste": ({"files": ["demo.db"]}, ["demo.db"]),
         "fit": ({"command": [sys.argv[2], "4", "512"], "gpu": "A100-80GB"}, ["--gpu=A100-80GB", "--", sys.argv[2], "4", "512"])}

def plain(v):
    """Without what differs from one run to the next."""
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items() if k not in ("replay_ns",)}
    return [plain(x) for x in v] if isinstance(v, list) else v

async def ask(mode, version):
    server = StdioServerParameters(command=sys.argv[1], args=["mcp", "--allow-run"], env={"LD_LIBRARY_PATH": ""})
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == version, client.protocol_version
        listed = {t.name: t for t in (await client.list_tools()).tools}
        assert set(listed) == set(TOOLS), listed
        assert "EXECUTES THE PROGRAM" in listed["fit"].description and not listed["fit"].annotations.read_only_hint
        for name, (asked, arguments) in TOOLS.items():
            given = listed[name].input_schema["properties"]
            assert set(asked) < set(given), (asked, given)
            result = await client.call_tool(name, {**asked, "max_bytes": 1 << 20})
            ran, wanted = command(name, *arguments)
            text = result.content[0].text
            if isinstance(wanted, str):
                assert result.is_error and text == wanted, (text, wanted)
                continue
            got = json.loads(text)
            assert got.pop("exit_status") == ran.returncode and bool(result.is_error) == (ran.returncode == 2), (name, ran)
            got.pop("said", None)
            assert plain(got) == plain(wanted), name
        try:
            await client.call_tool("peak", {"file": "demo.db"})
            raise SystemExit("an unknown argument was taken")
        except MCPError as e:
            assert e.error.code == -32602, e

asyncio.run(ask("auto", "2026-07-28"))
asyncio.run(ask("legacy", "2025-11-25"))
PY
[ $failures = 0 ] && echo "a client of the protocol gets what the commands print" || exit 1
