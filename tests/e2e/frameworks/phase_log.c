/*
 * phase_log.c - preloaded in place of libvramscope.so: what Python tells it is a line in the file
 * PHASE_LOG.
 *
 * Lines are "+source name", "-source", "mark name", "step".  The library's own code for phases, hooks and
 * calls of modules is part of it (-I shim).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define VRAMSCOPE_BUILDING_LIBRARY
#include "core/contracts.c"
#include "core/open_calls.c"
#include "core/readable.c"
#include "framework/calls.c"
#include "framework/contract_calls.c"
#include "framework/phase_calls.c"
#include "framework/phases.c"
#include "framework/steps.c"

__thread struct vs_layer_now vs_layer_now;

static __thread int automatic, markers;

__attribute__((format(printf, 1, 2))) static void log_line(const char *format, ...)
{
    const char *path = getenv("PHASE_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    va_list arguments;

    if (fd < 0)
        return;
    va_start(arguments, format);
    vdprintf(fd, format, arguments);
    va_end(arguments);
    close(fd);
}

static const char *thread(void)
{
    return syscall(SYS_gettid) == getpid() ? "" : " (thread)";
}

int vramscope_auto_push(const char *name);
int vramscope_auto_code(uintptr_t code, const char *file, const char *name, const uint32_t *lines,
                        size_t units);
int vramscope_auto_pop(void);
int vramscope_auto_mark(const char *name);
unsigned vramscope_auto_layer(const char *path, const char *type);
unsigned *vramscope_auto_cell(void);
int vramscope_auto_allocator(unsigned op, int device, uint64_t number, uint64_t more, const char *key,
                             const char *value);
int vramscope_auto_roles(const uint64_t *addresses, unsigned count, unsigned role);
int vramscope_range_push(const char *name);
int vramscope_range_pop(void);
void vramscope_mark(const char *name);
void vramscope_step(void);
void vramscope_record_start(void);
void vramscope_record_stop(void);
int vramscope_active(void);

/* Nothing is read of Python. */
int vramscope_auto_code(uintptr_t code, const char *file, const char *name, const uint32_t *lines,
                        size_t units)
{
    return -1;
}

int vramscope_auto_push(const char *name)
{
    log_line("+auto %s%s\n", name, thread());
    return automatic++;
}

int vramscope_auto_pop(void)
{
    log_line("-auto%s%s\n", automatic ? "" : " UNBALANCED", thread());
    return automatic ? --automatic : -1;
}

int vramscope_auto_mark(const char *name)
{
    log_line("moment %s\n", name);
    return 0;
}

/* Which module is open is asked for and not told. */
unsigned vramscope_auto_layer(const char *path, const char *type)
{
    static unsigned last;
    return ++last;
}

unsigned *vramscope_auto_cell(void)
{
    return &vs_layer_now.module;
}

/* Nothing is recorded: no storage is looked at. */
/* What is said of the allocator is nothing that these tests look at. */
int vramscope_auto_allocator(unsigned op, int device, uint64_t number, uint64_t more, const char *key,
                             const char *value)
{
    return 1;
}

int vramscope_auto_roles(const uint64_t *addresses, unsigned count, unsigned role)
{
    return 0;
}

int vramscope_range_push(const char *name)
{
    log_line("+marker %s%s\n", name, thread());
    return markers++;
}

int vramscope_range_pop(void)
{
    log_line("-marker%s%s\n", markers ? "" : " UNBALANCED", thread());
    return markers ? --markers : -1;
}

void vramscope_mark(const char *name)
{
    log_line("mark %s\n", name);
}

void vramscope_step(void)
{
    log_line("step\n");
}

void vramscope_record_start(void)
{
    log_line("start\n");
}

void vramscope_record_stop(void)
{
    log_line("stop\n");
}

int vramscope_active(void)
{
    return 1;
}

/* Of contracts no log is kept but this one: each that does not hold, on a line of the file CONTRACT_LOG. */
void vs_log_verbose(const char *format, ...)
{
    const char *path = getenv("CONTRACT_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    va_list arguments;

    if (fd < 0)
        return;
    va_start(arguments, format);
    vdprintf(fd, format, arguments);
    va_end(arguments);
    if (write(fd, "\n", 1) != 1)
        log_line("no log of contracts\n");
    close(fd);
}
