/*
 * tools.c - checks what is optional: gnuplot, sqlite3, the fused loss, Python and PyTorch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tool.h"
#include "doctor.h"
#include "read/symbols.h"
#include "run/place.h"

static void check_gnuplot(struct doctor *d)
{
    static char out[65536];
    static const char *const wanted[] = {"pngcairo", "svg", "pdfcairo"};
    const char *const list[] = {"gnuplot", "-e", "set terminal", NULL}, *const version[] = {
                                                                            "gnuplot", "--version", NULL};
    char missing[128] = "", name[64];
    int status = tool_output(list, NULL, 10, true, out, sizeof out);
    if (status == 127) {
        doctor_say(d, DOCTOR_WARN, "gnuplot",
                   "apt-get install gnuplot-nox; plot -o FILE.gp and plots in text work without",
                   "not found: no png, svg, pdf");
        return;
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t used = strlen(missing);
        snprintf(name, sizeof name, " %s ", wanted[i]);
        if (!strstr(out, name))
            snprintf(missing + used, sizeof missing - used, " %s", wanted[i]);
    }
    tool_output(version, NULL, 10, true, out, sizeof out);
    out[strcspn(out, "\n")] = 0;
    d->facts |= missing[0] ? 0 : DOCTOR_GNUPLOT;
    if (missing[0])
        doctor_say(d, DOCTOR_WARN, "gnuplot", "install a gnuplot with cairo (Debian: gnuplot-nox)",
                   "%s, without%s", out, missing);
    else
        doctor_say(d, DOCTOR_OK, "gnuplot", NULL, "%s, png, svg and pdf", out);
}

static void check_sqlite(struct doctor *d)
{
    static char out[4096];
    const char *const argv[] = {"sqlite3", "--version", NULL};
    int status = tool_output(argv, NULL, 10, true, out, sizeof out);
    out[strcspn(out, " \n")] = 0;
    if (status == 0)
        doctor_say(d, DOCTOR_OK, "SQLite", NULL, "built in: %s; sqlite3 command: %s", vs_sqlite_version(),
                   out);
    else
        doctor_say(d, DOCTOR_OK, "SQLite",
                   "apt-get install sqlite3, or Python's sqlite3 module, for queries of your own",
                   "built in: %s; no sqlite3 command", vs_sqlite_version());
}

/* Kernels are in the library where it was built with nvcc, and then it opens the driver itself: for the CPU
 * alone it has nothing to open. */
static void check_loss(struct doctor *d)
{
    char *library = place_of("lib/liblinear_cross_entropy.so"), needed[1024];
    if (!elf_needed(library, needed, sizeof needed))
        doctor_say(d, DOCTOR_WARN, "fused loss", "install vramscope anew; recording does not need it",
                   "there is no %s", library);
    else if (elf_imports(library, "dlopen"))
        doctor_say(d, DOCTOR_OK, "fused loss", NULL,
                   "%s, with kernels for GPUs of compute capability 8.0 and later", library);
    else
        doctor_say(d, DOCTOR_OK, "fused loss", "build vramscope where nvcc is to have it on a GPU",
                   "%s, for the CPU alone", library);
    free(library);
}

/* The names that libvramscope.so exports for the caching allocator to call. */
#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define OOM    "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"

static void check_torch(struct doctor *d, const char *version, const char *directory)
{
    char *library = xformat("%s/lib/libc10_cuda.so", directory);
    char needed[2048];
    bool blocks = elf_imports(library, REPORT), cuda = elf_needed(library, needed, sizeof needed);
    bool oom = elf_imports(library, OOM);
    d->facts |= DOCTOR_TORCH | (cuda ? 0 : DOCTOR_TORCH_CPU) | (blocks ? DOCTOR_TORCH_BLOCKS : 0);
    if (!cuda)
        doctor_say(d, DOCTOR_WARN, "PyTorch", "install a CUDA build of PyTorch",
                   "%s, without libc10_cuda.so: a CPU build", version);
    else if (!blocks)
        doctor_say(d, DOCTOR_WARN, "PyTorch",
                   "only its driver allocations are seen: use a version from 2.0 on, or report this one",
                   "%s reports its blocks under a name that vramscope does not know", version);
    else if (!oom)
        doctor_say(d, DOCTOR_WARN, "PyTorch", "everything but out-of-memory events is recorded",
                   "%s reports its blocks; its out-of-memory report has an unknown name", version);
    else
        doctor_say(d, DOCTOR_OK, "PyTorch", NULL, "%s reports its blocks: tensors are seen one by one",
                   version);
    free(library);
    doctor_contracts(d, version);
}

/* Finds torch without importing it; what is tried of it then sees no GPU. */
static void check_python(struct doctor *d)
{
    static char out[8192];
    const char *const argv[] = {
        "python3", "-c",
        "import sys, importlib.util, importlib.metadata as m, os\n"
        "print(sys.version.split()[0]); print(sys.executable)\n"
        "s = importlib.util.find_spec('torch')\n"
        "if s and s.origin: print(m.version('torch')); print(os.path.dirname(s.origin))\n",
        NULL};
    char *line[4] = {NULL}, *save = NULL;
    int n = 0, status = tool_output(argv, NULL, 30, true, out, sizeof out);
    if (status == 127) {
        doctor_say(d, DOCTOR_OK, "Python", NULL,
                   "no python3: programs in other languages are recorded as well");
        return;
    }
    for (char *text = strtok_r(out, "\n", &save); text && n < 4; text = strtok_r(NULL, "\n", &save))
        line[n++] = text;
    if (status != 0 || n < 2) {
        doctor_say(d, DOCTOR_WARN, "Python", "check that python3 -c pass works",
                   "python3 ended with status %d", status);
        return;
    }
    doctor_say(d, DOCTOR_OK, "Python", NULL, "%s, %s", line[0], line[1]);
    if (n == 4)
        check_torch(d, line[2], line[3]);
    else
        doctor_say(d, DOCTOR_OK, "PyTorch", NULL, "not installed in this Python");
}

void doctor_tools(struct doctor *d)
{
    check_gnuplot(d);
    check_sqlite(d);
    check_loss(d);
    if (!d->quick)
        check_python(d);
}
