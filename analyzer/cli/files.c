/* files.c - see files.h. */
#include "files.h"

#include "base/commands.h"
#include "base/wrap.h"

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

int files_show(struct files *f, bool json, files_show_one *show, const void *options)
{
    struct ranks_seen seen = {0};
    struct json j;
    int status = EXIT_GOOD;
    if (json) {
        json_document(&j, stdout);
        json_begin(&j, "files", '[');
    } else {
        wrap_page_begin(false);
    }
    for (size_t i = 0; i < f->n; i++)
        status = exit_worse(status, show(f->at[i], options, json ? &j : NULL, f->n > 1, &seen));
    if (json)
        json_close(&j);
    wrap_page_end();
    status = exit_worse(status, ranks_seen_end(&seen, f->ranks && status != EXIT_USAGE));
    files_free(f);
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
