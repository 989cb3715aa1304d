/* overlay.c - see overlay.h. */
#include "overlay.h"

#include <stdlib.h>
#include <string.h>

int64_t *overlay_devices(const struct picture *p, size_t *n)
{
    int64_t *devices = NULL;
    *n = 0;
    for (size_t i = 0; i < p->panel_count; i++) {
        bool known = false;
        for (size_t k = 0; k < *n; k++)
            known = known || devices[k] == p->panels[i].device;
        if (!known)
            *PUSH(devices, *n) = p->panels[i].device;
    }
    return devices;
}

const struct panel *overlay_panel(const struct picture *p, int64_t device, size_t run)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].device == device && p->panels[i].run == run)
            return &p->panels[i];
    return NULL;
}

size_t overlay_order(const struct picture *p, int64_t device, size_t *runs)
{
    size_t n = 0;
    for (size_t run = 0; run < p->run_count; run++) {
        const struct panel *q = overlay_panel(p, device, run);
        size_t at = n;
        if (!q)
            continue;
        for (; at > 0 && overlay_panel(p, device, runs[at - 1])->peak < q->peak; at--)
            runs[at] = runs[at - 1];
        runs[at] = run;
        n++;
    }
    return n;
}

int64_t overlay_top(const struct picture *p, int64_t device)
{
    int64_t top = 1;
    for (size_t i = 0; i < p->panel_count; i++) {
        const struct panel *q = &p->panels[i];
        int64_t reserved = columns_max_reserved(&q->columns), own = q->peak > reserved ? q->peak : reserved;
        if (q->device == device && own > top)
            top = own;
    }
    return top;
}

double overlay_share_top(const struct picture *p, int64_t device)
{
    double top = 100;
    for (size_t i = 0; i < p->panel_count; i++) {
        const struct panel *q = &p->panels[i];
        double own = q->peak > 0 ? 100.0 * (double)columns_max_reserved(&q->columns) / (double)q->peak : 0;
        if (q->device == device && own > top)
            top = own;
    }
    return top;
}

const char *overlay_title(const struct picture *p, int64_t device)
{
    for (size_t i = 0; i < p->panel_count; i++)
        if (p->panels[i].device == device)
            return p->panels[i].title;
    return "";
}

char *overlay_name(const struct picture *p, const struct panel *panel)
{
    char *peak = panel_peak_text(panel), *name = xformat("%s: %s", p->runs[panel->run].label, peak);
    free(peak);
    return name;
}
