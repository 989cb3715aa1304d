/* json.c - the rows of a check for programs (see vramscope-check(1)). */
#include "check.h"
#include "trace/roles.h"

static void part_json(struct json *j, const char *name, const struct check_part *part)
{
    json_begin(j, name, '{');
    json_text(j, "name", part->name);
    json_int(j, "size_bytes", part->name ? part->bytes : UNKNOWN);
    json_end(j);
}

static void cause_json(struct json *j, const struct check_cause *cause)
{
    json_begin(j, "cause", '{');
    json_text(j, "of", cause->change ? "what rose most" : "what held most");
    json_int(j, "t_ns", cause->t);
    json_int(j, "step", cause->step);
    json_text(j, "phase", cause->phase);
    part_json(j, "place", &cause->place);
    part_json(j, "line", &cause->line);
    part_json(j, "layer", &cause->layer);
    part_json(j, "role", &cause->role);
    json_text(j, "old_role", vs_role_before(cause->role.name));
    part_json(j, "holder", &cause->holder);
    json_end(j);
}

static void row_json(struct json *j, const struct check_row *r)
{
    json_begin(j, NULL, '{');
    json_text(j, "verdict", check_verdict_name(r->verdict));
    json_text(j, "given", r->given);
    json_text(j, "what", r->what);
    json_text(j, "file", r->path);
    json_bool(j, "dry", r->dry != NULL);
    json_int(j, "process", r->process);
    json_int(j, "rank", r->rank);
    json_int(j, "device", r->device);
    json_bool(j, "per_step", r->per_step);
    json_int(j, "value_bytes", r->m.value);
    json_int(j, "least_bytes", r->m.least);
    json_int(j, "most_bytes", r->m.most == NO_BOUND ? UNKNOWN : r->m.most);
    json_int(j, "limit_bytes", r->limit_bytes);
    json_int(j, "base_bytes", r->base_bytes);
    json_text(j, "why", r->why);
    cause_json(j, &r->cause);
    json_end(j);
}

void check_json(const struct check *c, FILE *out)
{
    struct json j;
    json_document(&j, out);
    json_int(&j, "within", (int64_t)c->verdicts[VERDICT_WITHIN]);
    json_int(&j, "beyond", (int64_t)c->verdicts[VERDICT_BEYOND]);
    json_int(&j, "cannot_tell", (int64_t)c->verdicts[VERDICT_UNTOLD]);
    json_int(&j, "unusable_files", c->unusable);
    json_begin(&j, "checks", '[');
    for (size_t i = 0; i < c->count; i++)
        row_json(&j, &c->rows[i]);
    json_close(&j);
}
