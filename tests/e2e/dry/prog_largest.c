// link: cuda
/*
 * prog_largest.c - a training job that holds more the larger its batch is:
 *
 *      prog_largest BATCH SEQ [WORD...]
 *
 *      1 GiB, and 256 KiB for each of BATCH x SEQ tokens, of the driver; a framework's blocks in it are two
 *      thirds of that.  What the driver refuses the framework reports, and the program ends with 1.
 *
 *      fails=N      at batch N it ends with 3, and says so
 *      guess=BYTES  a figure of so many bytes that no table holds is told
 *      wait=FILE    it waits until FILE is there
 *      write=FILE   it writes over FILE
 */
#define _GNU_SOURCE
#include "prog.h"
#include "vramscope.h"

#include <dlfcn.h>
#include <stdint.h>
#include <unistd.h>

struct device {
    int8_t type, index;
};
typedef void report_fn(void *, int64_t, size_t, size_t, struct device);
typedef void oom_fn(int64_t, size_t, size_t, struct device);

static const char *word(int argc, char **argv, const char *name)
{
    size_t n = strlen(name);
    for (int i = 3; i < argc; i++)
        if (!strncmp(argv[i], name, n) && argv[i][n] == '=')
            return argv[i] + n + 1;
    return NULL;
}

static void tell_guess(const char *bytes)
{
    const char *facts = getenv("VRAMSCOPE_DRY_FACTS");
    FILE *out = facts ? fopen(facts, "a") : NULL;
    CHECK(out);
    fprintf(out, "guess\tlibrary\tworkspace\t%s\n", bytes);
    fclose(out);
}

static void write_over(const char *path)
{
    FILE *out = fopen(path, "w");
    CHECK(out);
    fputs("garbage\n", out);
    fclose(out);
}

static void give_up(size_t asked)
{
    oom_fn *oom = (oom_fn *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
    if (oom)
        oom((int64_t)asked, 0, 0, (struct device){1, 0});
    fprintf(stderr, "out of memory\n");
    exit(1);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    size_t batch = strtoul(argv[1], NULL, 10), seq = strtoul(argv[2], NULL, 10);
    size_t bytes = 1024 * MIB + batch * seq * (MIB / 4), blocks = bytes / 3 * 2 / 512 * 512;
    report_fn *report =
        (report_fn *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    const char *fails = word(argc, argv, "fails"), *guess = word(argc, argv, "guess"),
               *until = word(argc, argv, "wait"), *written = word(argc, argv, "write");
    CUdeviceptr base;
    while (until && access(until, F_OK))
        usleep(10000);
    if (written)
        write_over(written);
    if (guess)
        tell_guess(guess);
    if (fails && strtoul(fails, NULL, 10) == batch) {
        fprintf(stderr, "this batch divides nothing\n");
        return 3;
    }
    begin();
    if (cuMemAlloc(&base, bytes))
        give_up(bytes);
    if (report)
        report((void *)(uintptr_t)base, (int64_t)blocks, blocks, bytes, (struct device){1, 0});
    vramscope_step();
    if (report)
        report((void *)(uintptr_t)base, -(int64_t)blocks, 0, bytes, (struct device){1, 0});
    printf("%zu\n", blocks);
    return 0;
}
