/*
 * verdict.c - the last line of `vramscope doctor`: what will work here, of all that was found.
 *
 * It follows from the findings alone, by their topics, because those about the driver come from a child
 * process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

static const struct finding *about(const struct doctor *d, const char *topic)
{
    for (size_t i = 0; i < d->count; i++)
        if (!strncmp(d->findings[i].topic, topic, strlen(topic)))
            return &d->findings[i];
    return NULL;
}

static bool is_good(const struct doctor *d, const char *topic)
{
    const struct finding *f = about(d, topic);
    return f && f->verdict == DOCTOR_OK;
}

static const struct finding *first_failure(const struct doctor *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->findings[i].verdict == DOCTOR_FAIL)
            return &d->findings[i];
    return NULL;
}

/* What python3's PyTorch adds to it; nothing where there is none, or nobody asked. */
static const char *of_torch(const struct doctor *d)
{
    const struct finding *f = about(d, "PyTorch");
    if (!f || strstr(f->found, "not installed"))
        return "";
    if (strstr(f->found, "a CPU build"))
        return "; this python3's PyTorch uses no GPU";
    return strstr(f->found, "reports its blocks:") || strstr(f->found, "reports its blocks;")
               ? "; PyTorch tensor by tensor"
               : "; of PyTorch what it asks of the driver";
}

char *doctor_verdict(const struct doctor *d)
{
    const struct finding *failure = first_failure(d), *device = about(d, "device ");
    bool stacks = is_good(d, "call stacks") && is_good(d, "glibc");
    if (failure)
        return xformat("nothing can be recorded here: %s: %s", failure->topic, failure->found);
    if (!device)
        return xformat(
            "no GPU can be used here, so there is nothing to record; recordings made elsewhere can be read%s",
            is_good(d, "gnuplot") ? "" : ", and plotted as text");
    if (strstr(device->found, "(simulated"))
        return xstrdup(
            "programs of CUDA's driver API can be recorded here, on the simulated driver; PyTorch can't "
            "use that one, and no figure is a GPU's");
    return xformat(
        "programs that use the GPU can be recorded here, if they are not linked statically, %s native "
        "call stacks%s",
        stacks ? "with" : "without", of_torch(d));
}
