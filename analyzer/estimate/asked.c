/* asked.c - see asked.h. */
#include "asked.h"

#include <stdlib.h>
#include <string.h>

#include "base/tool.h"

enum { SECONDS = 120, TEXT = 8192 };

/* ---- what it says ---- */

struct said {
    char class[80], version[40];
    int64_t words, tied;
};

static bool take_text(const char *word, const char *value, const char *name, char *out, size_t size)
{
    if (strcmp(word, name) != 0)
        return false;
    snprintf(out, size, "%s", value);
    return true;
}

static void take_line(struct model *m, struct said *s, const char *word, const char *value)
{
    const struct {
        const char *name;
        int64_t *to;
    } numbers[] = {{"parameters", &m->parameters},
                   {"trained", &m->trained},
                   {"frozen", &m->frozen},
                   {"quantized", &m->quantized},
                   {"bytes", &m->quantized_bytes},
                   {"active", &m->active},
                   {"embedding", &m->embedding},
                   {"largest", &m->layer},
                   {"layers", &m->layers},
                   {"hidden", &m->hidden},
                   {"outputs", &m->outputs},
                   {"words", &s->words},
                   {"tied", &s->tied}};
    char *end;
    if (take_text(word, value, "class", s->class, sizeof s->class) ||
        take_text(word, value, "version", s->version, sizeof s->version))
        return;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t n = strtoll(value, &end, 10);
        if (!strcmp(word, numbers[i].name) && !*end && n >= 0 && n < INT64_C(1) << 50)
            *numbers[i].to = n;
    }
}

/* 0, or -1 with the child's own reason. */
static int take(struct model *m, struct said *s, char *text, char *why, size_t size)
{
    for (char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = '\0';
        char *value = strchr(line, ' ');
        if (!value)
            continue;
        *value++ = '\0';
        if (!strcmp(line, "why")) {
            snprintf(why, size, "%s", value);
            return -1;
        }
        take_line(m, s, line, value);
    }
    return 0;
}

static void finish(struct model *m, const struct said *s)
{
    m->kind = MODEL_OTHER;
    m->words = s->words == 1;
    m->tied = m->words && s->tied == 1;
    m->vocab = m->words ? m->outputs : UNKNOWN;
    m->outputs = m->words ? m->outputs : UNKNOWN; /* nobody knows its loss */
    snprintf(m->counted_by, sizeof m->counted_by, "%.40s of transformers %.20s", s->class, s->version);
}

int model_ask(struct model *m, const char *path, const struct asked_options *o, char *why, size_t size)
{
    char *lora = xformat("--lora=%s", o->lora ? o->lora : ""),
         *qlora = xformat("--qlora=%s", o->qlora ? o->qlora : ""),
         *frozen = xformat("--frozen=%s", o->frozen ? o->frozen : ""), *text = xrealloc(NULL, TEXT);
    static const char *const settings[] = {"HF_HUB_OFFLINE=1",
                                           "TRANSFORMERS_OFFLINE=1",
                                           "TRANSFORMERS_VERBOSITY=error",
                                           "PYTHONWARNINGS=ignore",
                                           "PYTHONDONTWRITEBYTECODE=1",
                                           "CUDA_VISIBLE_DEVICES=",
                                           NULL};
    const char *arguments[8] = {"python3", o->script, path};
    int n = 3;
    if (o->lora)
        arguments[n++] = lora;
    if (o->qlora)
        arguments[n++] = qlora;
    if (o->frozen)
        arguments[n++] = frozen;
    char type[sizeof m->type];
    memcpy(type, m->type, sizeof type);
    *m = model_none();
    memcpy(m->type, type, sizeof type);
    struct said s = {.words = 0};
    int status = tool_output(arguments, settings, SECONDS, false, text, TEXT);
    int result = status ? -1 : take(m, &s, text, why, size);
    if (status == 127)
        snprintf(why, size,
                 "there is no python3 in PATH, whose transformers would count them by the model's own code");
    else if (status)
        snprintf(why, size, "python3 with the model's own code %s",
                 status == 124 ? "took more than two minutes"
                               : "failed: import transformers in it to see why");
    if (!result && (m->parameters == UNKNOWN || m->trained == UNKNOWN || m->frozen == UNKNOWN ||
                    m->quantized == UNKNOWN || m->quantized_bytes == UNKNOWN)) {
        snprintf(why, size, "python3 with the model's own code gave no count");
        result = -1;
    }
    if (!result)
        finish(m, &s);
    free(lora);
    free(qlora);
    free(frozen);
    free(text);
    return result;
}
