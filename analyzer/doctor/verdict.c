/*
 * verdict.c - the last line of `vramscope doctor`: what will work here, of all that was found.
 *
 */
#include <stdio.h>
#include <stdlib.h>

#include "doctor.h"

static const struct finding *first_failure(const struct doctor *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->findings[i].verdict == DOCTOR_FAIL)
            return &d->findings[i];
    return NULL;
}

/* What python3's PyTorch adds to it; nothing where there is none, or nobody asked. */
static const char *of_torch(unsigned facts)
{
    if (!(facts & DOCTOR_TORCH))
        return "";
    if (facts & DOCTOR_TORCH_CPU)
        return "; this python3's PyTorch uses no GPU";
    return facts & DOCTOR_TORCH_BLOCKS ? "; PyTorch tensor by tensor"
                                       : "; of PyTorch what it asks of the driver";
}

char *doctor_verdict(const struct doctor *d)
{
    const struct finding *failure = first_failure(d);
    bool stacks = d->facts & DOCTOR_UNWINDER && d->facts & DOCTOR_FIND_OBJECT;
    if (failure)
        return xformat("nothing can be recorded here: %s: %s", failure->topic, failure->found);
    if (!(d->facts & DOCTOR_DEVICE))
        return xformat(
            "no GPU can be used here, so there is nothing to record; recordings made elsewhere can be read%s",
            d->facts & DOCTOR_GNUPLOT ? "" : ", and plotted as text");
    if (d->facts & DOCTOR_SIMULATED)
        return xstrdup(
            "programs of CUDA's driver API can be recorded here, on the simulated driver; PyTorch can't "
            "use that one, and no figure is a GPU's");
    return xformat(
        "programs that use the GPU can be recorded here, if they are not linked statically, %s native "
        "call stacks%s",
        stacks ? "with" : "without", of_torch(d->facts));
}
