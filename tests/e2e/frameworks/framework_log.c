/*
 * framework_log.c - preloaded, the shim's real framework layer over a recorder that writes a line an event.
 *
 * The file FRAMEWORK_LOG gets all of an event, the file PHASE_LOG what a person says of it: "+auto forward",
 * "-auto", "+marker NAME", "moment NAME", "step".  CONTRACT_LOG gets each contract that does not hold.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/options.h"
#include "framework/ranges.h"
#include "record/block.h"
#include "record/record.h"

static char strings[4096][128] = {"-"};
static unsigned string_count = 1;

struct vs_journal *vs_record_journal(void)
{
    return (struct vs_journal *)(void *)strings;
}

bool vs_record_enabled(void)
{
    return true;
}

bool vs_record_start(void)
{
    return true;
}

static void append(const char *variable, const char *line, int length)
{
    const char *path = getenv(variable);
    int fd = path && length ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;

    if (fd >= 0 && write(fd, line, (size_t)length) != length)
        abort();
    if (fd >= 0)
        close(fd);
}

void vs_record_window(bool open)
{
    append("PHASE_LOG", open ? "start\n" : "stop\n", open ? 6 : 5);
}

bool vs_record_takes(void)
{
    return true;
}

void vs_record_complete(void) {}

uint32_t vs_journal_stack(struct vs_journal *j, uint32_t parent, uint32_t frame)
{
    return 0;
}

void vs_record_block_rest(struct vs_journal_header *ring, uint64_t seq, bool published) {
} /* no ring: never */
void vs_journal_count_lost(struct vs_journal *j, uint8_t op) {}
void vs_journal_lost_range(struct vs_journal *j) {}
void vs_journal_lost_birth(struct vs_journal *j) {}
struct vs_suppliers vs_suppliers; /* no stacks: nobody asks */

/* Always full: no storage is asked for its role. */
void vs_journal_stats(const struct vs_journal *j, struct vs_journal_stats *stats)
{
    *stats = (struct vs_journal_stats){.head = UINT32_MAX};
}

/* Nothing is read of Python. */
int vramscope_auto_code(uintptr_t code, const char *file, const char *name, const uint32_t *lines,
                        size_t units);
__attribute__((visibility("default"))) int
vramscope_auto_code(uintptr_t code, const char *file, const char *name, const uint32_t *lines, size_t units)
{
    return -1;
}

/* What contracts say of themselves (core/contracts.c). */
void vs_log_verbose(const char *format, ...)
{
    char line[4096];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    line[length] = '\n';
    append("CONTRACT_LOG", line, length + 1);
}

uint32_t vs_journal_named_frame(struct vs_journal *j, enum vs_frame_kind kind, uint32_t function,
                                uint32_t file, uint32_t line)
{
    static uint32_t last;
    return ++last;
}

uint32_t vs_journal_tensor(struct vs_journal *j, uint32_t what, uint64_t request, const int64_t *sizes)
{
    return 0;
}

uint32_t vs_journal_string(struct vs_journal *j, const char *text, size_t length)
{
    for (unsigned i = 1; i < string_count; i++)
        if (strlen(strings[i]) == length && !memcmp(strings[i], text, length))
            return i;
    memcpy(strings[string_count], text, length < 127 ? length : 127);
    return string_count++;
}

static int describe(char *line, size_t size, const struct vs_event *e)
{
    unsigned long long address = e->address, bytes = e->size, arg0 = e->arg0, arg1 = e->arg1;

    switch (e->op) {
    case VS_OP_RANGE_PUSH:
        return snprintf(line, size, "push %u %s domain %s parent %llu flags %#llx phase %s\n", e->range,
                        strings[e->address], strings[e->size], arg0, arg1, strings[e->stack]);
    case VS_OP_RANGE_POP:
        return snprintf(line, size, "pop %u\n", e->range);
    case VS_OP_MARK:
        return snprintf(line, size, "mark %s domain %s\n", strings[e->address], strings[e->size]);
    case VS_OP_STEP:
        return snprintf(line, size, "step %llu\n", arg0);
    default:
        return snprintf(line, size, "op %u %#llx size %llu allocated %llu reserved %llu device %d range %u\n",
                        e->op, address, bytes, arg0, arg1, e->device, vs_range_current());
    }
}

static int describe_phase(char *line, size_t size, const struct vs_event *e)
{
    static const char *const sources[] = {[VS_SOURCE_MARKER] = "marker", [VS_SOURCE_NVTX] = "nvtx", "auto"};
    static unsigned char source[1 << 16]; /* of a range, by its number */
    const char *thread = syscall(SYS_gettid) == getpid() ? "" : " (thread)";
    unsigned char *own = &source[e->range % sizeof source];

    switch (e->op) {
    case VS_OP_RANGE_PUSH:
        *own = e->arg1 & VS_RANGE_SOURCE_MASK;
        return snprintf(line, size, "+%s %s%s\n", sources[*own], strings[e->address], thread);
    case VS_OP_RANGE_POP:
        return snprintf(line, size, "-%s%s\n", sources[*own], thread);
    case VS_OP_MARK:
        return snprintf(line, size, "%s %s\n", e->arg1 == VS_SOURCE_AUTO ? "moment" : "mark",
                        strings[e->address]);
    case VS_OP_STEP:
        return snprintf(line, size, "step\n");
    default:
        return 0;
    }
}

uint64_t vs_record(struct vs_event *event)
{
    char line[512];

    append("FRAMEWORK_LOG", line, describe(line, sizeof line, event));
    append("PHASE_LOG", line, describe_phase(line, sizeof line, event));
    return 1;
}

static __attribute__((constructor)) void init(void)
{
    vs_options.stacks = getenv("PHASE_LOG") ? VS_STACKS_PYTHON : vs_options.stacks;
    vs_ranges_init();
}
