#!/usr/bin/env python3
"""torch_wheel.py - takes a PyTorch to a machine that has another one and no network.

    torch_wheel.py pack WHEEL PARTS       packs what a test needs of it into PARTS/part.*, 48 MB each
    torch_wheel.py unpack PARTS DIR       unpacks them into DIR, beside the NVIDIA libraries of the PyTorch that is there;
                                          PYTHONPATH=DIR then starts it

Headers and tests are left out, and device code that an H200 does not run is set to zero: offsets stay.
The NVIDIA libraries may be of an older release than those it was built with. Instead of NCCL and NVSHMEM there are libraries whose functions fail, so
nothing distributed runs; a function that is missed elsewhere is named.
"""
import glob
import os
import re
import struct
import subprocess
import sys
import tarfile
import zipfile
from io import BytesIO

PART = 48 * 1000 * 1000
PROCESSOR = 90
ABSENT = {"nccl/lib/libnccl.so.2": ("nccl", None), "nvshmem/lib/libnvshmem_host.so.3": ("nvshmem", "NVSHMEM")}


# ---- packing ----

def section(data, wanted):
    """(offset, size) of an ELF file's section."""
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + size * i) for i in range(count)]
    for name, _, _, _, offset, length in headers:
        at = headers[names][4] + name
        if data[at:data.index(b"\0", at)] == wanted:
            return offset, length
    return 0, 0


def entries(data, at, end):
    """(compute capability, offset and size of the code) of a fat binary's entries."""
    while at < end:
        header, size, capability = struct.unpack_from("<4xIQ12xI", data, at)
        yield capability, at + header, size
        at += header + size


def thin(data):
    """Sets device code of other processors to zero; how many bytes."""
    at, size = section(data, b".nv_fatbin")
    end, zeroed = at + size, 0
    while at < end:
        magic, header, size = struct.unpack_from("<I2xHQ", data, at)
        if magic != 0xBA55ED50:
            at += 8
            continue
        found = list(entries(data, at + header, at + header + size))
        for capability, code, length in found:
            if capability != PROCESSOR and PROCESSOR in (c for c, _, _ in found):
                data[code:code + length] = bytes(length)
                zeroed += length
        at += header + size
    return zeroed


def needed(name):
    return not name.startswith(("torch/include/", "torch/share/", "torch/test/")) and "/bin/protoc" not in name and not name.endswith(".pyi")


def pack(wheel, parts):
    os.makedirs(parts, exist_ok=True)
    for old in glob.glob(os.path.join(parts, "part.*")):
        os.remove(old)
    prefix = os.path.join(parts, "part.")
    xz = subprocess.Popen(["xz", "-6", "-T2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    split = subprocess.Popen(["split", "-b", str(PART), "-", prefix], stdin=xz.stdout)
    xz.stdout.close()
    with zipfile.ZipFile(wheel) as z, tarfile.open(fileobj=xz.stdin, mode="w|") as tar:
        for info in z.infolist():
            if info.is_dir() or not needed(info.filename):
                continue
            data = bytearray(z.read(info))
            if ".so" in info.filename and (zeroed := thin(data)):
                print(f"{info.filename}: {zeroed} of {len(data)} bytes set to zero")
            entry = tarfile.TarInfo(info.filename)
            entry.size, entry.mode = len(data), 0o755 if info.external_attr >> 16 & 0o100 else 0o644
            tar.addfile(entry, BytesIO(data))
    xz.stdin.close()
    if xz.wait() or split.wait():
        sys.exit("torch_wheel: packing failed")
    for part in sorted(glob.glob(prefix + "*")):
        print(part, os.path.getsize(part))


# ---- unpacking ----

def symbols(path, which):
    """Names of a library's dynamic symbols, without versions."""
    lines = subprocess.run(["nm", "-D", which, path], capture_output=True, text=True).stdout.splitlines()
    return {(kind, name.split("@")[0]) for *_, kind, name in map(str.split, lines)}


def stub(path, functions, version):
    """A library whose functions return their names: as a status that is a failure, and as a message it says what failed."""
    source, script = path + ".c", path + ".map"
    with open(source, "w") as f:
        f.writelines(f'const char *{name}(void) {{ return "{name} is not there"; }}\n' for name in functions)
    with open(script, "w") as f:
        f.write(f"{version or ''} {{ global: *; }};\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", path, source, f"-Wl,-soname,{os.path.basename(path)},--version-script={script}"], check=True)


def site_with_nvidia():
    """The folder `nvidia` of the PyTorch that is there."""
    for folder in sys.path:
        if os.path.isdir(os.path.join(folder, "nvidia", "cu13")):
            return os.path.join(folder, "nvidia")
    sys.exit("torch_wheel: no folder nvidia/cu13 on sys.path")


def missing(libraries, nvidia):
    """CUDA's functions that the libraries import and nothing exports."""
    wanted = {name for path in libraries for kind, name in symbols(path, "--undefined-only") if kind == "U"}
    there = {name for path in [*libraries, *glob.glob(nvidia + "/*/lib/*.so*")] for _, name in symbols(path, "--defined-only")}
    return sorted(name for name in wanted - there if re.match(r"(cu|nv|nccl)", name) and not re.match(r"cu[A-Z]", name))  # libcuda.so.1 is the driver's


def unpack(parts, folder):
    os.makedirs(folder, exist_ok=True)
    cat = subprocess.Popen(["cat", *sorted(glob.glob(os.path.join(parts, "part.*")))], stdout=subprocess.PIPE)
    subprocess.run(f"xz -d -T0 | tar -x -C '{folder}'", shell=True, stdin=cat.stdout, check=True)
    beside, nvidia = site_with_nvidia(), os.path.join(folder, "nvidia")
    libraries = glob.glob(os.path.join(folder, "torch/lib/*.so"))
    imported = {name for path in libraries for kind, name in symbols(path, "--undefined-only") if kind == "U"}
    os.makedirs(nvidia, exist_ok=True)
    for name, (begins, version) in ABSENT.items():
        path = os.path.join(nvidia, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        stub(path, sorted(n for n in imported if n.startswith(begins)), version)
    for name in os.listdir(beside):
        if not os.path.lexists(os.path.join(nvidia, name)):
            os.symlink(os.path.join(beside, name), os.path.join(nvidia, name))
    print("missing: " + (", ".join(missing(libraries, nvidia)) or "nothing"))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("pack", "unpack"):
        sys.exit(__doc__)
    {"pack": pack, "unpack": unpack}[sys.argv[1]](*sys.argv[2:])
