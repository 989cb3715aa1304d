/*
 * contracts.c - whether python3's PyTorch is as it is taken for granted: a program of a few lines, on the CPU
 * and under the library, in a process of its own.  It goes forward and backward and reports two made-up
 * blocks; what holds and what does not is in its recording.  So what would end a training in its first
 * backward ends this program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tool.h"
#include "doctor.h"
#include "core/contracts.h"
#include "read/trace.h"
#include "run/place.h"

static const char program[] =
    "import ctypes, torch\n"
    "report = getattr(ctypes.PyDLL(None), '_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE')\n"
    "report.argtypes = [ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_uint16]\n"
    "def block(at): report(at, 512, 512, 1 << 21, 1); report(at, -512, 0, 1 << 21, 1)\n"
    "block(1 << 40)\n"
    "x = torch.ones(8, requires_grad=True)\n"
    "y = x * 2\n"
    "y.register_hook(lambda g: block(1 << 41))\n"
    "y.sum().backward()\n"
    "print('as it should', float(x.grad.sum()))\n";

static void judge(struct doctor *d, const char *version, const char *recording)
{
    struct trace t;
    if (trace_open(&t, recording)) {
        doctor_say(d, DOCTOR_WARN, "PyTorch", "report it",
                   "%s ran under the library and left no recording: %s", version, t.why);
        trace_close(&t);
        return;
    }
    int64_t proven = trace_proven(&t);
    size_t broken = 0;
    for (size_t i = 0; i < t.loss_count; i++)
        if (t.losses[i].contract) {
            doctor_say(d, DOCTOR_WARN, "PyTorch", "everything else is recorded", "%s", t.losses[i].why);
            broken++;
        }
    if (!broken)
        doctor_say(d, DOCTOR_OK, "PyTorch", NULL,
                   "%s goes forward and backward under the library; %lld things hold that this takes for "
                   "granted (tested: PyTorch " VS_TRIED_TORCH ", CPython " VS_TRIED_PYTHON ")",
                   version, (long long)proven);
    trace_close(&t);
}

static void try_it(struct doctor *d, const char *version, const char *directory)
{
    static char out[65536];
    char *listed = place_listed("lib/libvramscope.so"), *recording = xformat("%s/doctor.db", directory);
    char *preload = xformat("LD_PRELOAD=%s", listed), *output = xformat("VRAMSCOPE_OUTPUT=%s", recording);
    const char *const argv[] = {"python3", "-c", program, NULL};
    const char *const plain[] = {"python3", "-c", "import torch", NULL};
    const char *const environment[] = {preload,
                                       output,
                                       "CUDA_VISIBLE_DEVICES=",
                                       "VRAMSCOPE_STACKS=python",
                                       "VRAMSCOPE_ENABLED=on",
                                       "VRAMSCOPE_ALLOCATOR=off",
                                       NULL};
    int status = place_listable(listed) ? tool_output(argv, environment, 120, true, out, sizeof out) : 0;
    if (status == 124)
        doctor_say(d, DOCTOR_WARN, "PyTorch", NULL, "%s: not tried: import torch took longer than 2 min",
                   version);
    else if (status != 0 && tool_output(plain, NULL, 120, true, out, sizeof out) != 0)
        doctor_say(d, DOCTOR_WARN, "PyTorch", "python3 -c 'import torch' says why",
                   "%s: not tried: import torch fails, without vramscope too", version);
    else if (status != 0)
        doctor_say(d, DOCTOR_WARN, "PyTorch", "report it; `vramscope run --stacks=driver` asks least of it",
                   "%s: a program of a few lines ends with status %d under the library", version, status);
    else if (place_listable(listed))
        judge(d, version, recording);
    unlink(recording);
    free(listed);
    free(recording);
    free(preload);
    free(output);
}

void doctor_contracts(struct doctor *d, const char *version)
{
    const char *tmp = getenv("TMPDIR");
    char *directory = xformat("%s/vramscope-doctor.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (mkdtemp(directory)) {
        try_it(d, version, directory);
        rmdir(directory);
    }
    free(directory);
}
