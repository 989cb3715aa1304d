/*
 * c10_fake.c - libc10 (REAL), libc10_cuda, which reports to it through its PLT (CALLER), and a program
 * that loads both RTLD_LOCAL, as Python does (MAIN).
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct device {
    int8_t type, index;
};
void usage(void *, int64_t, size_t, size_t,
           struct device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
void oom(int64_t, size_t, size_t,
         struct device) __asm__("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
void script(void);

#ifdef REAL
void usage(void *ptr, int64_t size, size_t allocated, size_t reserved, struct device d)
{
    printf("real usage %p %ld %zu %zu %d:%d\n", ptr, (long)size, allocated, reserved, d.type, d.index);
}
void oom(int64_t size, size_t allocated, size_t reserved, struct device d)
{
    printf("real oom %ld %zu %zu %d:%d\n", (long)size, allocated, reserved, d.type, d.index);
}
#endif

#ifdef CALLER
struct stream {
    struct device device;
    int64_t id;
};
#ifdef STREAM_OBJECT /* larger than two registers: it comes through a hidden pointer */
struct object {
    struct stream stream;
    int64_t more;
};
struct object current_stream(int8_t device) __asm__("_ZN3c104cuda20getCurrentCUDAStreamEa");
struct object current_stream(int8_t device)
{
    return (struct object){{{1, device}, 7}, 7};
}
#else
struct stream current_stream(int8_t device) __asm__("_ZN3c104cuda20getCurrentCUDAStreamEa");

/* Where CUDA does not work, as in a fork child, PyTorch's own throws. */
struct stream current_stream(int8_t device)
{
    if (device != 1)
        printf("a stream of device %d is asked for\n", device);
    return (struct stream){{1, device}, 0};
}
#endif

void script(void)
{
    struct device cuda1 = {1, 1}, cpu = {0, -1};

    usage((void *)0x7f0000000200, 512, 512, 2097152, cuda1);
    usage((void *)0x1000, 64, 64, 64, cpu);
    usage((void *)0x7f0000000200, -512, 0, 2097152, cuda1);
    oom((int64_t)1 << 40, 7, 8, cuda1);
}
#endif

#ifdef MAIN
int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    void (*run)(void) = library ? (void (*)(void))dlsym(library, "script") : NULL;

    if (!run) {
        printf("%s\n", dlerror());
        return 1;
    }
    run();
    run();
    printf("left in dlerror: %s\n", dlerror() ? "something" : "nothing");
    return 0;
}
#endif
