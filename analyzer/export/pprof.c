/*
 * pprof.c - a profile for pprof, Go's viewer of profiles.  The format is github.com/google/pprof's
 * proto/profile.proto, compressed by gzip.
 *
 * A sample has two values, inuse_objects and inuse_space, as Go's heap profiles have.  Its labels are device,
 * phase, category, library, layer and role: `pprof -tagfocus=device=cuda:0`, `-tagroot=phase`.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/args.h"
#include "base/shown.h"
#include "map.h"
#include "moment.h"
#include "proto.h"

enum { /* fields of Profile */
       PROFILE_SAMPLE_TYPE = 1,
       PROFILE_SAMPLE = 2,
       PROFILE_LOCATION = 4,
       PROFILE_FUNCTION = 5,
       PROFILE_STRING_TABLE = 6,
       PROFILE_TIME_NANOS = 9,
       PROFILE_PERIOD_TYPE = 11,
       PROFILE_PERIOD = 12,
       PROFILE_COMMENT = 13,
       PROFILE_DEFAULT_SAMPLE_TYPE = 14
};
enum { VALUE_TYPE = 1, VALUE_UNIT = 2 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_TEXT = 2 };
enum { LOCATION_ID = 1, LOCATION_LINE = 4, LINE_FUNCTION = 1, LINE_LINE = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_FILE = 4 };

struct writer {
    struct proto proto;
    struct places *places;
    struct texts texts;
    struct map locations; /* key to id */
    int64_t location_count;
};

static uint64_t text(struct writer *w, const char *text)
{
    return texts_index(&w->texts, text, NULL);
}

/* Of MADE, which is freed. */
static uint64_t text_of(struct writer *w, char *made)
{
    uint64_t index = text(w, made);
    free(made);
    return index;
}

/* A function of its own for each location: a name and a file are never lost to another's.  Without a system
 * name pprof takes the name as it is, where it would take "<module>" for arguments of a template. */
static void put_location(struct writer *w, int64_t id, const struct place *place)
{
    struct proto *p = &w->proto;
    size_t function = proto_begin(p, PROFILE_FUNCTION);
    proto_number(p, FUNCTION_ID, (uint64_t)id);
    proto_number(p, FUNCTION_NAME, text(w, place->name));
    proto_number(p, FUNCTION_FILE, text(w, place->file));
    proto_end(p, function);
    size_t location = proto_begin(p, PROFILE_LOCATION), line;
    proto_number(p, LOCATION_ID, (uint64_t)id);
    line = proto_begin(p, LOCATION_LINE);
    proto_number(p, LINE_FUNCTION, (uint64_t)id);
    proto_signed(p, LINE_LINE, place->line);
    proto_end(p, line);
    proto_end(p, location);
}

/* The id of the location with KEY, which is written where it is new. */
static uint64_t location(struct writer *w, int64_t key, const struct place *place)
{
    int64_t id = map_get(&w->locations, key);
    if (id < 0) {
        id = ++w->location_count;
        map_put(&w->locations, key, id);
        put_location(w, id, place);
    }
    return (uint64_t)id;
}

static uint64_t location_of_name(struct writer *w, const char *name)
{
    int64_t key = (int64_t)(w->places->stacks.frame_count + 1 + text(w, name));
    return location(w, key, &(struct place){name, "", name, 0});
}

static void put_label(struct writer *w, const char *key, const char *value)
{
    if (!value)
        return;
    size_t label = proto_begin(&w->proto, SAMPLE_LABEL);
    proto_number(&w->proto, LABEL_KEY, text(w, key));
    proto_number(&w->proto, LABEL_TEXT, text(w, shown(value)));
    proto_end(&w->proto, label);
}

/* Locations are written before the sample that names them: a message can't lie within another one here. */
static uint64_t *locations_of(struct writer *w, const struct moment_sample *s)
{
    uint64_t *ids = xrealloc(NULL, (s->frame_count + 1) * sizeof *ids);
    for (size_t i = 0; i < s->frame_count; i++)
        ids[i] = location(w, s->frames[i] + 1, places_at(w->places, s->frames[i]));
    if (s->name)
        ids[0] = location_of_name(w, s->name);
    return ids;
}

static void put_sample(void *context, const struct moment *m, const struct moment_sample *s)
{
    struct writer *w = context;
    struct proto *p = &w->proto;
    uint64_t *ids = locations_of(w, s);
    size_t sample = proto_begin(p, PROFILE_SAMPLE), list = proto_begin(p, SAMPLE_LOCATION);
    for (size_t i = 0; i < s->frame_count + (s->name != NULL); i++)
        proto_packed(p, ids[i]);
    proto_end(p, list);
    list = proto_begin(p, SAMPLE_VALUE);
    proto_packed(p, (uint64_t)s->count);
    proto_packed(p, (uint64_t)s->bytes);
    proto_end(p, list);
    char *device = xformat("cuda:%lld", (long long)m->device); /* a bare 0 would be a range */
    put_label(w, "device", device);
    free(device);
    if (s->live) {
        put_label(w, "phase", s->live->phase);
        put_label(w, "category", s->live->category);
        put_label(w, "library", s->live->owner);
        put_label(w, "layer", s->live->layer);
        put_label(w, "role", s->live->role);
    }
    proto_end(p, sample);
    free(ids);
}

static void put_type(struct writer *w, int field, const char *type, const char *unit)
{
    size_t value = proto_begin(&w->proto, field);
    proto_number(&w->proto, VALUE_TYPE, text(w, type));
    proto_number(&w->proto, VALUE_UNIT, text(w, unit));
    proto_end(&w->proto, value);
}

static void put_profile(struct writer *w, struct trace *t, const struct moment *moments, size_t n)
{
    struct proto *p = &w->proto;
    text(w, ""); /* the first of the table */
    put_type(w, PROFILE_SAMPLE_TYPE, "inuse_objects", "count");
    put_type(w, PROFILE_SAMPLE_TYPE, "inuse_space", "bytes");
    for (size_t i = 0; i < n; i++)
        moment_each(&moments[i], w->places, put_sample, w);
    put_type(w, PROFILE_PERIOD_TYPE, "space", "bytes");
    proto_signed(p, PROFILE_PERIOD, 1);
    if (t->process.start_realtime_ns != UNKNOWN && n)
        proto_signed(p, PROFILE_TIME_NANOS, t->process.start_realtime_ns + moments[0].t);
    if (t->process.command)
        proto_number(p, PROFILE_COMMENT, text(w, shown(t->process.command)));
    if (trace_dry(t))
        proto_number(p, PROFILE_COMMENT, text_of(w, trace_mark_line(t)));
    for (size_t i = 0; i < n; i++)
        proto_number(p, PROFILE_COMMENT, text_of(w, moment_title(&moments[i])));
    proto_number(p, PROFILE_DEFAULT_SAMPLE_TYPE, text(w, "inuse_space"));
    for (size_t i = 0; i < w->texts.n; i++)
        proto_text(p, PROFILE_STRING_TABLE, w->texts.at[i]);
}

static void put_compressed(struct sink *out, const struct proto *p)
{
    static const int GZIP = 15 + 16; /* the largest window, and gzip's head and tail (zlib.h) */
    unsigned char piece[65536];
    z_stream z = {.next_in = p->at, .avail_in = (uInt)p->n};
    int code = deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY);
    while (code == Z_OK) {
        z.next_out = piece;
        z.avail_out = sizeof piece;
        code = deflate(&z, Z_FINISH);
        sink_put(out, piece, sizeof piece - z.avail_out);
    }
    deflateEnd(&z);
    if (code != Z_STREAM_END && !out->error)
        out->error = ENOMEM;
}

int export_pprof(struct trace *t, const struct export_options *o, struct sink *out)
{
    struct moment *moments;
    struct places places;
    size_t n;
    int status = moments_load(t, o, &moments, &n);
    if (status == EXIT_GOOD && places_load(&places, t, o->frames))
        status = complain("%s", t->why);
    if (status == EXIT_GOOD) {
        struct writer w = {.places = &places};
        put_profile(&w, t, moments, n);
        if (w.proto.n > UINT32_MAX)
            status = complain("export: %s has too many call stacks for one profile: choose -d", t->path);
        else
            put_compressed(out, &w.proto);
        texts_free(&w.texts);
        map_free(&w.locations);
        proto_free(&w.proto);
        places_free(&places);
    }
    moments_free(moments, n);
    return status;
}
