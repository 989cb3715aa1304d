/* json.c - answers for programs. */
#include "reply.h"
#include "attempt.h"
#include "base/json.h"

static void write_peaks(const struct peaks *p, struct json *j)
{
    json_int(j, "steps", p->driver == UNKNOWN ? UNKNOWN : p->steps);
    json_bool(j, "framework", p->framework);
    json_int(j, "allocated_bytes", p->allocated);
    json_int(j, "reserved_bytes", p->reserved);
    json_int(j, "peak_step", p->step);
    json_text(j, "peak_phase", p->phase);
    json_int(j, "beside_bytes", verdict_beside(p));
    json_int(j, "device_bytes", p->total);
    json_int(j, "left_bytes", verdict_left(p));
    json_int(j, "layouts_tried", p->layouts.tried);
    json_int(j, "layouts_differ", p->layouts.differ);
}

static void write_span(struct span s, const char *name, struct json *j)
{
    json_begin(j, name, '{');
    json_int(j, "least_bytes", s.least);
    json_int(j, "most_bytes", s.most);
    json_end(j);
}

static void write_facts(const struct facts *f, struct json *j)
{
    static const char *const names[FACT_KINDS] = {"missing", "guess",  "value", "stopped",
                                                  "ended",   "beside", "torch", "launch"};
    json_begin(j, "facts", '[');
    for (size_t i = 0; i < f->n; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "kind", names[f->all[i].kind]);
        json_begin(j, "fields", '[');
        for (int k = 0; k < FACT_FIELDS && (k < 3 || *f->all[i].fields[k]); k++)
            json_text(j, NULL, f->all[i].fields[k]);
        json_end(j);
        json_int(j, "times", f->all[i].times);
        json_end(j);
    }
    json_end(j);
}

static void write_written(const struct written *w, struct json *j)
{
    static const char *const hows[] = {"created", "changed", "deleted"};
    json_begin(j, "written", '[');
    for (size_t i = 0; i < w->n; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "path", w->files[i].path);
        json_int(j, "bytes", w->files[i].bytes);
        json_text(j, "how", hows[w->files[i].how]);
        json_end(j);
    }
    json_end(j);
}

static void write_answer(const struct reply *a, struct json *j)
{
    static const char *const verdicts[] = {"fits", "does not fit", "failed", "unknown"};
    const struct verdict *v = reply_verdict(a);
    json_begin(j, NULL, '{');
    json_text(j, "allocator",
              a->runs[0].allocator == ALLOCATOR_OWN ? "own" : attempt_allocator_name(a->runs[0].allocator));
    json_text(j, "verdict", verdicts[v->kind]);
    json_text(j, "why", v->why);
    json_text(j, "what_to_do", v->what);
    json_text(j, "own_limit", v->limited);
    json_bool(j, "went_on", v->went_on);
    write_peaks(reply_peaks(a), j);
    json_bool(j, "beside_measured", reply_beside_is_measured(a));
    json_bool(j, "exact", reply_is_exact(a));
    json_bool(j, "certain", reply_is_certain(a));
    write_span(reply_allocated(a), "allocated", j);
    write_span(reply_reserved(a), "reserved", j);
    fit_ranks_json(a->runs[0].files, a->runs[0].n, j);
    write_facts(&a->runs[0].facts, j);
    json_bool(j, "contained", a->setup->contained);
    write_written(&a->runs[0].written, j);
    json_text(j, "recording", a->path);
    json_text(j, "last_lines", a->runs[0].said);
    json_end(j);
}

void reply_json(const struct reply *a, FILE *out)
{
    struct json j;
    json_document(&j, out);
    json_bool(&j, "dry", true);
    json_text(&j, "gpu", a->setup->card->key);
    json_begin(&j, "answers", '[');
    write_answer(a, &j);
    json_close(&j);
}
