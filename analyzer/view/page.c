/*
 * page.c - puts the page together: the hand-written part, then the recording.
 *
 *      <style>  skeleton  meta  <script>  curves, blocks, texts
 *
 * What the first picture needs stands first, so that it is drawn while the rest is being read.  The page
 * forbids itself everything but its own style and script (Content-Security-Policy with a number that nobody
 * knows beforehand): no network, and no script from a name.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/shown.h"
#include "view.h"

/* ---- HTML ---- */

static void put_text(FILE *out, const char *name)
{
    for (const char *text = shown(name); *text; text++)
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '"')
            fputs("&quot;", out);
        else
            fputc(*text, out);
}

static char *make_nonce(void)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        random[0] = random[1] = (uint64_t)(uintptr_t)random; /* no random numbers here: one is enough */
    return xformat("%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
}

static void put_head(FILE *out, const char *title, const char *mark, const char *nonce, const char *made_of)
{
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
            "form-action 'none'; img-src data: blob:; style-src 'nonce-%s'; script-src 'nonce-%s'\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
            nonce, nonce);
    put_text(out, title);
    fprintf(out, "%s%s - vramscope</title>\n" VIEW_MADE_OF "<style nonce=\"%s\">\n", mark ? ", " : "",
            mark ? mark : "", made_of, nonce);
    fputs(view_page_css, out);
    fputs("</style>\n</head>\n", out);
    fputs(view_page_html, out);
}

static void put_script(FILE *out, const char *nonce)
{
    fprintf(out, "<script nonce=\"%s\">\n'use strict';\n(() => {\n", nonce);
    for (size_t i = 0; view_page_scripts[i]; i++)
        fputs(view_page_scripts[i], out);
    fputs("})();\n</script>\n", out);
}

/* ---- the recording ---- */

static bool is_device(const struct trace *t, size_t i, int64_t wanted)
{
    int64_t device = t->peaks[i].device;
    if (device < 0 || (wanted != UNKNOWN && device != wanted))
        return false;
    for (size_t k = 0; k < i; k++)
        if (t->peaks[k].device == device)
            return false;
    return true;
}

static size_t count_rows(const struct view_process *processes, size_t n, int64_t device)
{
    size_t rows = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < processes[i].t->peak_count; k++)
            rows += is_device(processes[i].t, k, device);
    return rows;
}

static int write_rows(struct view_part *part, struct view_process *processes, size_t n, int64_t device,
                      const char **why)
{
    json_begin(part->head, "rows", '[');
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < processes[i].t->peak_count; k++)
            if (is_device(processes[i].t, k, device) &&
                view_write_row(part, &processes[i], i, processes[i].t->peaks[k].device)) {
                *why = processes[i].t->why;
                return -1;
            }
    json_end(part->head);
    return 0;
}

static int write_processes(struct view_part *part, struct view_process *processes, size_t n, const char **why)
{
    json_begin(part->head, "processes", '[');
    for (size_t i = 0; i < n; i++)
        if (view_write_process(part, &processes[i])) {
            *why = processes[i].t->why;
            return -1;
        }
    json_end(part->head);
    return 0;
}

/* What is the same however much detail there is room for. */
static int prepare(struct view_process *p, const char **why)
{
    if (trace_stacks(p->t, &p->stacks)) {
        *why = p->t->why;
        return -1;
    }
    p->tags = view_tags(&p->stacks);
    if (view_read_asked(p->t, &p->asked)) {
        *why = p->t->why;
        return -1;
    }
    return 0;
}

static void forget_used(struct view_process *p)
{
    size_t n = (p->stacks.count + 1) * sizeof *p->stack_used;
    p->stack_used = xrealloc(p->stack_used, n);
    memset(p->stack_used, 0, n);
    view_forget_asked(&p->asked);
}

struct recording {
    char *head, *body;
    size_t head_size, body_size;
};

static int gather(struct view_process *processes, size_t n, int64_t device, bool overlay,
                  const struct view_room *room, struct recording *r, const char **why)
{
    struct json j;
    FILE *head = xmemstream(&r->head, &r->head_size), *body = xmemstream(&r->body, &r->body_size);
    struct view_part part = {&j, body, room, 0, false};
    for (size_t i = 0; i < n; i++) {
        forget_used(&processes[i]);
        part.tensors = part.tensors || processes[i].asked.names.n > 1;
    }
    json_open(&j, head);
    json_begin(&j, NULL, '{');
    json_int(&j, "format", 1);
    json_bool(&j, "overlay", overlay);
    json_bool(&j, "tensors", part.tensors);
    int result =
        write_rows(&part, processes, n, device, why) || write_processes(&part, processes, n, why) ? -1 : 0;
    if (!result) {
        json_end(&j);
        json_close(&j);
    }
    bool cut = ferror(head) || ferror(body);
    if (fclose(head))
        cut = true;
    if (fclose(body))
        cut = true;
    if (!result && cut) {
        *why = "view: out of memory";
        result = -1;
    }
    return result;
}

static void free_recording(struct recording *r)
{
    free(r->head);
    free(r->body);
    *r = (struct recording){0};
}

static void put_page(FILE *out, struct recording *r, const struct view_process *first, const char *made_of)
{
    char *nonce = make_nonce();
    struct pack head = {0};
    pack_bytes(&head, r->head, r->head_size);
    put_head(out, first ? first->label : "no recording", first ? trace_mark(first->t) : NULL, nonce, made_of);
    pack_write(&head, "meta", out);
    put_script(out, nonce);
    fwrite(r->body, 1, r->body_size, out);
    fputs("</body>\n</html>\n", out);
    free(nonce);
}

static size_t share(size_t all, size_t parts)
{
    size_t each = parts ? all / parts : all;
    return each > VIEW_LEAST ? each : VIEW_LEAST;
}

int view_write(struct view_process *processes, size_t n, int64_t device, bool overlay, int64_t limit,
               const char *made_of, FILE *out, const char **why)
{
    size_t rows = count_rows(processes, n, device), divided = 1;
    struct recording r = {0};
    int result = 0;
    for (size_t i = 0; !result && i < n; i++)
        result = prepare(&processes[i], why);
    /* how long deflated data is nobody knows before: half as much detail until it fits */
    for (; !result; divided *= 2) {
        struct view_room room = {share(VIEW_COLUMNS / divided, rows), share(VIEW_BLOCKS / divided, rows),
                                 share(VIEW_SCOPES / divided, n)};
        result = gather(processes, n, device, overlay, &room, &r, why);
        if (result || (int64_t)(r.head_size + r.body_size) < limit - VIEW_PAGE)
            break;
        free_recording(&r);
        if (divided > VIEW_COLUMNS / VIEW_LEAST) { /* the least of each row is too much */
            *why =
                "view: so many devices take more than the page may have: give fewer files, a --device, or a "
                "larger --max-size";
            result = -1;
        }
    }
    if (!result)
        put_page(out, &r, n ? processes : NULL, made_of);
    free_recording(&r);
    for (size_t i = 0; i < n; i++) {
        trace_free_stacks(&processes[i].stacks);
        view_free_tags(&processes[i].tags);
        view_free_asked(&processes[i].asked);
        free(processes[i].stack_used);
    }
    return result;
}
