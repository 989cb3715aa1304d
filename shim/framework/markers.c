/*
 * markers.c - the functions of vramscope.h, and their automatic twins.
 *
 * Names are copied before the call returns; errno stays as it was.  The vramscope_auto_* functions are what
 * the Python hook calls for the phases and moments that it finds by itself: same ranges, lowest precedence,
 * so that a program's own markers win.  They are no part of the public header.
 */
#include "vramscope.h"

#include <errno.h>
#include <string.h>

#include "framework/ranges.h"
#include "record.h"

VRAMSCOPE_API int vramscope_auto_push(const char *name);
VRAMSCOPE_API int vramscope_auto_pop(void);
VRAMSCOPE_API int vramscope_auto_mark(const char *name);

static uint64_t steps; /* atomic */

static int push(const char *name, enum vs_range_source source)
{
    int saved = errno, depth;
    struct vs_range_names names = {.text = name ? name : ""};

    names.length = strlen(names.text);
    names.name = vs_name_intern(names.text, names.length);
    uint32_t id = vs_range_open(&names, source, &depth);

    errno = saved;
    return id ? depth : -1;
}

static int pop(enum vs_range_source source)
{
    int saved = errno, depth = vs_range_close(NULL, source);

    errno = saved;
    return depth;
}

int vramscope_range_push(const char *name)
{
    return push(name, VS_SOURCE_MARKER);
}

int vramscope_range_pop(void)
{
    return pop(VS_SOURCE_MARKER);
}

int vramscope_auto_push(const char *name)
{
    return push(name, VS_SOURCE_AUTO);
}

int vramscope_auto_pop(void)
{
    return pop(VS_SOURCE_AUTO);
}

void vramscope_mark(const char *name)
{
    int saved = errno;

    vs_range_mark(name ? name : "", strlen(name ? name : ""), NULL, VS_SOURCE_MARKER);
    errno = saved;
}

/* 0, or -1 where nothing is recorded: the caller may try again later. */
int vramscope_auto_mark(const char *name)
{
    int saved = errno;
    bool recorded = vs_range_mark(name, strlen(name), NULL, VS_SOURCE_AUTO);

    errno = saved;
    return recorded ? 0 : -1;
}

/* The number counts every call of the process, also those before the first allocation: it is the program's
 * own iteration number. */
void vramscope_step(void)
{
    int saved = errno;
    /* Relaxed: numbers need only differ and rise. */
    struct vs_event event = {.op = VS_OP_STEP, .device = VS_DEVICE_UNKNOWN};

    event.arg0 = __atomic_add_fetch(&steps, 1, __ATOMIC_RELAXED);
    vs_range_lead();
    if (vs_record_enabled() && vs_record_journal())
        vs_record(&event);
    errno = saved;
}

void vramscope_record_start(void)
{
    int saved = errno;

    vs_record_window(true);
    errno = saved;
}

void vramscope_record_stop(void)
{
    int saved = errno;

    vs_record_window(false);
    errno = saved;
}

int vramscope_active(void)
{
    return vs_record_enabled();
}
