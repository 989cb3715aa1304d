/*
 * csv.c - every allocation, or every event, as comma-separated values (RFC 4180: CR LF, a quote in a field is
 * doubled).
 *
 * The columns are those of the views `allocation` and `event` (vramscope(5)); what is unknown is an empty
 * field.  Names are made harmless (base/shown.h), and a field that a spreadsheet would take for a formula
 * begins with '.
 */
#include <inttypes.h>
#include <string.h>

#include "base/args.h"
#include "base/shown.h"
#include "export.h"

struct writer {
    struct trace *t;
    const struct export_options *o;
    struct sink *out;
    const char *dry; /* of a dry run, the word for it: one column more */
    bool first;      /* of its line */
};

static void separate(struct writer *w)
{
    if (!w->first)
        sink_put(w->out, ",", 1);
    w->first = false;
}

static void put_text(struct writer *w, const char *text)
{
    separate(w);
    if (!text)
        return;
    text = shown(text); /* the file may go to a terminal, and has to be UTF-8 */
    const char *guard = *text && strchr("=+-@", *text) ? "'" : "";
    if (!text[strcspn(text, ",\"\r\n")]) {
        sink_text(w->out, guard);
        sink_text(w->out, text);
        return;
    }
    sink_put(w->out, "\"", 1);
    sink_text(w->out, guard);
    for (; *text; text++)
        sink_put(w->out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    sink_put(w->out, "\"", 1);
}

static void put_number(struct writer *w, int64_t value)
{
    char digits[24];
    separate(w);
    if (value != UNKNOWN)
        sink_put(w->out, digits, (size_t)snprintf(digits, sizeof digits, "%" PRId64, value));
}

static void end_line(struct writer *w)
{
    if (w->dry)
        put_text(w, w->dry);
    sink_put(w->out, "\r\n", 2);
    w->first = true;
}

static const char *phase_of(const struct trace *t, int phase)
{
    return phase >= 0 && (size_t)phase < t->phase_name_count ? t->phase_names[phase] : NULL;
}

/* ---- allocations ---- */

#define ALLOCATION_HEADER                                                                                    \
    "process,op,alloc_seq,free_seq,device,space,address,size_bytes,t_alloc_ns,t_free_ns,phase,range,stack,"  \
    "layer,owner,line,managed,role,made_for,request_bytes,element_type,shape"

static bool put_allocation(void *context, const struct trace_allocation *a)
{
    struct writer *w = context;
    if (w->o->device != UNKNOWN && a->device != w->o->device)
        return true;
    if (a->t_alloc > w->o->to || (a->t_free != UNKNOWN && a->t_free < w->o->from))
        return true;
    put_number(w, w->t->process.id);
    put_text(w, a->op);
    put_number(w, a->alloc_seq);
    put_number(w, a->free_seq);
    put_number(w, a->device);
    put_text(w, a->space);
    put_number(w, a->address);
    put_number(w, a->size);
    put_number(w, a->t_alloc);
    put_number(w, a->t_free);
    put_text(w, a->phase);
    put_number(w, a->range);
    put_number(w, a->stack);
    put_text(w, a->layer);
    put_text(w, a->owner);
    put_text(w, a->line);
    put_number(w, a->managed);
    put_text(w, a->role);
    put_text(w, a->made_for);
    put_number(w, a->request);
    put_text(w, a->element_type);
    put_text(w, a->shape);
    end_line(w);
    return !w->out->error;
}

/* ---- events ---- */

#define EVENT_HEADER                                                                                         \
    "process,seq,t_ns,op,space,api,device,context,stream,address,size_bytes,thread,phase,range,stack,"       \
    "status,"                                                                                                \
    "mate,framework_bytes,direct_bytes,reserved_bytes"

static bool put_event(void *context, const struct trace_row *e)
{
    struct writer *w = context;
    if (w->o->device != UNKNOWN && e->device != w->o->device)
        return true;
    if (e->t < w->o->from || e->t > w->o->to)
        return true;
    bool fell = (e->op == VS_OP_LIMIT || e->op == VS_OP_OVERHEAD) && e->mate == 1;
    put_number(w, w->t->process.id);
    put_number(w, e->seq);
    put_number(w, e->t);
    put_text(w, trace_op_name(e->op));
    put_text(w, trace_space_name(e->space));
    put_text(w, e->api);
    put_number(w, e->device);
    put_number(w, e->context);
    put_number(w, e->stream);
    put_number(w, e->address);
    put_number(w, fell && e->size != UNKNOWN ? -e->size : e->size);
    put_number(w, e->thread);
    put_text(w, phase_of(w->t, e->phase));
    put_number(w, e->range);
    put_number(w, e->stack);
    put_number(w, e->status);
    put_number(w, e->mate);
    put_number(w, e->framework);
    put_number(w, e->direct);
    put_number(w, e->reserved);
    end_line(w);
    return !w->out->error;
}

int export_csv(struct trace *t, const struct export_options *o, struct sink *out)
{
    struct writer w = {t, o, out, trace_dry(t) ? trace_mark(t) : NULL, true};
    sink_text(out, o->events ? EVENT_HEADER : ALLOCATION_HEADER);
    sink_text(out, w.dry ? ",dry_run\r\n" : "\r\n");
    if (o->events ? trace_rows(t, 0, put_event, &w) : trace_each_allocation(t, put_allocation, &w))
        return complain("%s", t->why);
    if (!t->thinned)
        return EXIT_GOOD;
    complain("export: %s: rows are missing: %lld events were folded (VRAMSCOPE_MAX_BYTES)", t->path,
             (long long)(t->folded.events + t->unwritten));
    return EXIT_INCOMPLETE;
}
