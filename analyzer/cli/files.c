/* files.c - see files.h. */
#include "files.h"

#include "base/args.h"
#include "base/page.h"
#include "read/trace.h"
#include "read/symbols.h"

int files_find(struct files *f, const char *command, char **operands, int n, struct relabel *r, bool spread)
{
    char why[512];
    size_t count = 0;
    *f = (struct files){NULL, 0, false};
    if (relabel_check(r, why, sizeof why))
        return complain("%s: %s", command, why);
    char **at = trace_files(operands, (size_t)n, &count, why, sizeof why);
    r->several = at && count > 1;
    if (!at || (spread && !r->process && trace_spread(&at, &count, why, sizeof why)))
        return complain("%s", why);
    *f = (struct files){at, count, count > (size_t)n || trace_directory(operands, (size_t)n)};
    return 0;
}

void files_free(struct files *f)
{
    trace_free_files(f->at, f->n);
}

/* SEVERAL: as one of those; J: NULL for text. */
static int show_file(const struct file_page *p, const char *file, bool several, struct json *j,
                     struct ranks_seen *seen)
{
    struct trace t;
    struct report r;
    if (relabel_open(&t, file, p->relabel))
        return complain("%s", t.why);
    ranks_seen_add(seen, &t);
    if (t.end != TRACE_END_RUNNING && p->names) {
        char why[256]; /* ignored: frames without names are shown as module+offset */
        vs_symbols_fill(t.file, why, sizeof why);
    }
    t.oom_total = 0; /* not shown on these pages */
    int status = report_load(&r, &t, p->parts) ? complain("%s", t.why) : EXIT_GOOD;
    report_file_begin(&t, file, several, j);
    if (!status)
        status = p->show(&r, p->options, j);
    report_file_end(j);
    if (!trace_whole(&t))
        status = exit_worse(status, EXIT_INCOMPLETE);
    report_free(&r);
    trace_close(&t);
    return status;
}

int files_devices(const struct report *r, int64_t device, files_show_device *show, const void *options,
                  struct json *j)
{
    size_t shown = 0;
    int status = EXIT_GOOD;
    for (size_t i = 0; i < r->device_count; i++) {
        if (device != UNKNOWN && r->devices[i].device != device)
            continue;
        if (!j && shown)
            putchar('\n');
        shown++;
        status = exit_worse(status, show(r, &r->devices[i], options, j));
    }
    if (!shown && device != UNKNOWN)
        return complain("%s", absent_device(r->trace, device));
    if (!shown && !j)
        puts(trace_no_device(r->trace));
    return status;
}

int files_show(const struct file_page *p, char **operands, int n)
{
    struct files f;
    struct ranks_seen seen = {0};
    struct json j;
    int status = EXIT_GOOD;
    if (n == 0)
        return complain("%s: which file? vramscope %s FILE", p->command, p->command);
    if (files_find(&f, p->command, operands, n, p->relabel, true))
        return EXIT_USAGE;
    if (p->json) {
        json_document(&j, stdout);
        json_begin(&j, "files", '[');
    } else {
        wrap_page_begin(false);
    }
    for (size_t i = 0; i < f.n; i++)
        status = exit_worse(status, show_file(p, f.at[i], f.n > 1, p->json ? &j : NULL, &seen));
    if (p->json)
        json_close(&j);
    wrap_page_end();
    status = exit_worse(status, ranks_seen_end(&seen, f.ranks && status != EXIT_USAGE));
    files_free(&f);
    return status;
}

int files_stretch(const char *command, const int64_t *steps, int64_t from, int64_t to)
{
    if (steps[0] && (from || to != UNKNOWN))
        return complain("%s: --step and --from or --to exclude each other", command);
    if (to != UNKNOWN && from > to)
        return complain("%s: --from is later than --to: %.9g s, and %.9g s", command, (double)from / 1e9,
                        (double)to / 1e9);
    return 0;
}
