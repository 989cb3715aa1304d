/* devices.c - which devices an export is about, and whether a moment can be one of its (export.h). */
#include <string.h>

#include "base/commands.h"
#include "export.h"
#include "read/absent.h"

bool export_wants(const struct export_options *o, int64_t device)
{
    return device >= 0 && (o->device == UNKNOWN || o->device == device);
}

size_t export_devices(struct trace *t, const struct export_options *o, int64_t **out)
{
    size_t n = 0;
    *out = NULL;
    for (size_t i = 0; i < t->peak_count; i++) /* in the order of devices */
        if (t->peaks[i].kind && !strcmp(t->peaks[i].kind, "allocated") && export_wants(o, t->peaks[i].device))
            *PUSH(*out, n) = t->peaks[i].device;
    if (!n)
        complain("%s", absent_device(t, o->device));
    return n;
}

int export_past_end(const struct trace *t, const char *option, int64_t moment)
{
    if (t->t_last == UNKNOWN || moment <= t->t_last)
        return EXIT_GOOD;
    return complain("export: %s is beyond the end: %s lasted %.9g s%s", option, t->path,
                    (double)t->t_last / 1e9, t->end == TRACE_END_RUNNING ? " so far" : "");
}
