/*
 * folded.c - folded call stacks, for flame graph programs: flamegraph.pl (github.com/brendangregg/FlameGraph,
 * whose head defines the format), speedscope, inferno, Perfetto.
 *
 * A line is the names of a stack's frames, outermost first, and its bytes.  A stack may stand in several
 * lines, which readers add up:
 *
 *      train.py:41 main;model.py:12 Model.forward;torch/nn/functional.py:3504 cross_entropy 1644167168
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "moment.h"

/* ';' and line breaks mean something here (the latter are gone already: places.h). */
static void put_name(struct sink *out, const char *name)
{
    for (const char *c = name; *c; c++)
        sink_put(out, *c == ';' ? ":" : c, 1);
}

static void put_place(struct sink *out, const struct place *place)
{
    const char *slash = strrchr(place->file, '/');
    if (place->line) {
        put_name(out, slash ? slash + 1 : place->file);
        sink_format(out, ":%" PRId64 " ", place->line);
    }
    put_name(out, place->name);
}

struct writer {
    struct sink *out;
    struct places *places;
    const char *dry; /* what a dry run is called, as the outermost frame; NULL */
    bool several;
};

static void put_sample(void *context, const struct moment *m, const struct moment_sample *s)
{
    const struct writer *w = context;
    if (w->dry)
        sink_format(w->out, "%s;", w->dry);
    if (w->several)
        sink_format(w->out, "device %" PRId64 ";", m->device);
    for (size_t i = s->frame_count; i-- > 0;) {
        put_place(w->out, places_at(w->places, s->frames[i]));
        sink_put(w->out, ";", i > 0);
    }
    if (s->name)
        put_name(w->out, s->name);
    sink_format(w->out, " %" PRId64 "\n", s->bytes);
}

int export_folded(struct trace *t, const struct export_options *o, struct sink *out)
{
    struct moment *moments;
    struct places places;
    size_t n;
    int status = moments_load(t, o, &moments, &n);
    if (status == EXIT_GOOD && places_load(&places, t, o->frames))
        status = complain("%s", t->why);
    if (status == EXIT_GOOD) {
        struct writer w = {out, &places, trace_dry(t) ? trace_mark(t) : NULL, n > 1};
        for (size_t i = 0; i < n; i++)
            moment_each(&moments[i], &places, put_sample, &w);
        places_free(&places);
    }
    moments_free(moments, n);
    return status;
}
