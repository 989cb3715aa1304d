"""report(): a sorted line of JSON, the same whoever watches. mark(): $ORACLE_FACTS/facts-PID.json, with the moment (CLOCK_MONOTONIC),
NVML's figures, the framework's own counters.
"""
import ctypes
import json
import os
import time


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instance", ctypes.c_uint), ("compute", ctypes.c_uint)]


class Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def bus_id(device):
    text = ctypes.create_string_buffer(32)
    if ctypes.CDLL("libcuda.so.1").cuDeviceGetPCIBusId(text, 32, device) != 0:
        return None
    return text.value


def nvml_used(device):
    """(bytes of this process, bytes of the whole device) as NVML says; None what it does not say."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None, None
    handle, processes, count = ctypes.c_void_p(), (Process * 256)(), ctypes.c_uint(256)
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByPciBusId_v2(bus_id(device), ctypes.byref(handle)):
        return None, None
    mine = None
    if nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), processes) == 0:
        mine = next((p.used for p in processes[:count.value] if p.pid == os.getpid() and p.used != 2**64 - 1), None)
    memory = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
    whole = memory.used if nvml.nvmlDeviceGetMemoryInfo_v2(handle, ctypes.byref(memory)) == 0 else None
    return mine, whole


def report(**result):
    print(json.dumps(result, sort_keys=True), flush=True)


def mark(device=0, **counters):
    time.sleep(0.4)  # the sampler looks every 100 ms: its last figure is then of this state
    folder = os.environ.get("ORACLE_FACTS")
    if not folder:
        return
    mine, whole = nvml_used(device)
    facts = {"pid": os.getpid(), "t_ns": time.monotonic_ns(), "device": device, "process_used": mine,
             "device_used": whole, "counters": counters}
    with open(os.path.join(folder, f"facts-{os.getpid()}.json"), "w") as f:
        json.dump(facts, f)


def torch_counters(torch, device=0):
    return {"allocated": torch.cuda.memory_allocated(device), "reserved": torch.cuda.memory_reserved(device),
            "max_allocated": torch.cuda.max_memory_allocated(device), "max_reserved": torch.cuda.max_memory_reserved(device)}
