/*
 * speedscope.c - the JSON of speedscope (speedscope.app), a viewer of flame graphs that runs in a browser
 * without a server.
 *
 * The format is defined by github.com/jlfwong/speedscope, src/lib/file-format-spec.ts, and by its schema,
 * https://www.speedscope.app/file-format-schema.json.  Here a profile is a device at the moment that was
 * asked for, of type "sampled": samples[i] is a call stack, outermost frame first, as indices into
 * shared.frames, and weights[i] its bytes.
 *
 * Samples come before the frames that they name, as those are numbered when they are first met; the order of
 * a JSON object's members means nothing.
 */
#include <stdlib.h>

#include "base/commands.h"
#include "base/json.h"
#include "map.h"
#include "moment.h"

struct writer {
    struct json json;
    struct places *places;
    struct map numbers; /* frame + 1 to its number in shared.frames */
    int64_t *frames;    /* by number; -1 - i: names[i] */
    size_t frame_count;
    struct texts names; /* of what has no frame */
    bool weights;       /* the samples' weights are being written, not the samples */
};

/* The number of FRAME, or where it is below 0 of what stands for one: keys of these lie behind all frames'.
 */
static int64_t number_of(struct writer *w, int64_t frame)
{
    int64_t key = frame < 0 ? (int64_t)w->places->stacks.frame_count - frame : frame + 1;
    int64_t number = map_get(&w->numbers, key);
    if (number < 0) {
        number = (int64_t)w->frame_count;
        map_put(&w->numbers, key, number);
        *PUSH(w->frames, w->frame_count) = frame;
    }
    return number;
}

static void put_sample(void *context, const struct moment *m, const struct moment_sample *s)
{
    struct writer *w = context;
    if (w->weights) {
        json_int(&w->json, NULL, s->bytes);
        return;
    }
    json_begin(&w->json, NULL, '[');
    for (size_t i = s->frame_count; i-- > 0;)
        json_int(&w->json, NULL, number_of(w, s->frames[i]));
    if (s->name)
        json_int(&w->json, NULL, number_of(w, -1 - (int64_t)texts_index(&w->names, s->name, NULL)));
    json_end(&w->json);
}

static void put_list(struct writer *w, const struct moment *m, const char *name, bool weights)
{
    w->weights = weights;
    json_begin(&w->json, name, '[');
    moment_each(m, w->places, put_sample, w);
    json_end(&w->json);
}

static void put_profile(struct writer *w, const struct moment *m)
{
    char *title = moment_title(m);
    json_begin(&w->json, NULL, '{');
    json_text(&w->json, "type", "sampled");
    json_text(&w->json, "name", title);
    json_text(&w->json, "unit", "bytes");
    json_int(&w->json, "startValue", 0);
    json_int(&w->json, "endValue", m->bytes);
    put_list(w, m, "samples", false);
    put_list(w, m, "weights", true);
    json_end(&w->json);
    free(title);
}

static void put_frame(struct writer *w, int64_t frame)
{
    json_begin(&w->json, NULL, '{');
    if (frame < 0) {
        json_text(&w->json, "name", w->names.at[-1 - frame]);
    } else {
        const struct place *place = places_at(w->places, frame);
        json_text(&w->json, "name", place->name);
        if (*place->file)
            json_text(&w->json, "file", place->file);
        if (place->line)
            json_int(&w->json, "line", place->line);
    }
    json_end(&w->json);
}

static void put_file(struct writer *w, struct trace *t, const struct moment *moments, size_t n)
{
    struct json *j = &w->json;
    json_begin(j, NULL, '{');
    json_text(j, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_text(j, "exporter", "vramscope");
    const char *of = t->process.command ? t->process.command : t->label;
    char *name = trace_dry(t) ? xformat("%s (%s)", of, trace_mark(t)) : xstrdup(of);
    json_text(j, "name", name);
    free(name);
    json_int(j, "activeProfileIndex", 0);
    json_begin(j, "profiles", '[');
    for (size_t i = 0; i < n; i++)
        put_profile(w, &moments[i]);
    json_end(j);
    json_begin(j, "shared", '{');
    json_begin(j, "frames", '[');
    for (size_t i = 0; i < w->frame_count; i++)
        put_frame(w, w->frames[i]);
    json_end(j);
    json_end(j);
    json_end(j);
    json_close(j);
}

int export_speedscope(struct trace *t, const struct export_options *o, struct sink *out)
{
    struct moment *moments;
    struct places places;
    size_t n;
    int status = moments_load(t, o, &moments, &n);
    if (status == EXIT_GOOD && places_load(&places, t, o->frames))
        status = complain("%s", t->why);
    if (status == EXIT_GOOD) {
        struct writer w = {.places = &places};
        json_open(&w.json, out->file);
        put_file(&w, t, moments, n);
        free(w.frames);
        texts_free(&w.names);
        map_free(&w.numbers);
        places_free(&places);
    }
    moments_free(moments, n);
    return status;
}
