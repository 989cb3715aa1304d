/*
 * cupti.c - stands in for libcupti, which tells subscribers nothing and has no counters: PyTorch's profiler
 * runs, and shows the host's side alone.
 */
#include "names.h"

#include <time.h>

enum { SUCCESS = 0, MAX_LIMIT_REACHED = 12, NOT_SUPPORTED = 27 };

STANDS_IN int subscribe(void **subscriber)
{
    static int somebody;
    *subscriber = &somebody;
    return SUCCESS;
}

STANDS_IN int no_more_records(void *buffer, size_t size, void **record)
{
    *record = NULL;
    return MAX_LIMIT_REACHED;
}

STANDS_IN int none_dropped(void *context, uint32_t stream, size_t *dropped)
{
    *dropped = 0;
    return SUCCESS;
}

STANDS_IN int pop_correlation(int kind, uint64_t *last)
{
    if (last)
        *last = 0;
    return SUCCESS;
}

STANDS_IN int first_device(void *context, uint32_t *device)
{
    *device = 0;
    return SUCCESS;
}

STANDS_IN int timestamp(uint64_t *ns)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return SUCCESS;
}

STANDS_IN int get_version(uint32_t *version)
{
    *version = VERSION;
    return SUCCESS;
}

STANDS_IN int status_name(int status, const char **name)
{
    *name = status == SUCCESS         ? "CUPTI_SUCCESS"
            : status == NOT_SUPPORTED ? "CUPTI_ERROR_NOT_SUPPORTED"
                                      : "CUPTI_ERROR_UNKNOWN";
    return SUCCESS;
}

STANDS_IN int callback_name(int domain, uint32_t callback, const char **name)
{
    *name = "<unknown>";
    return SUCCESS;
}

STANDS_IN int not_supported(void)
{
    return NOT_SUPPORTED;
}

#include "cupti.def"
