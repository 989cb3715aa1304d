/*
 * tape_settings.c - the settings of PyTorch's allocator, as Python code says them under `run`, or a
 * snapshot; where neither does, by the environment's variables that libc10_cuda reads.
 *
 *      PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4]
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "tape_parts.h"
#include "tape.h"

/* ---- the environment ---- */

/* Whether a replay does what the setting NAME of N characters says, or has nothing to do with it: host
 * memory, which allocator it is (only one reports its blocks), and a lock. */
static bool is_imitated(const char *name, size_t n, const char *value)
{
    static const char *const words[] = {"max_split_size_mb",
                                        "large_segment_size_mb",
                                        "garbage_collection_threshold",
                                        "per_process_memory_fraction",
                                        "roundup_power2_divisions",
                                        "expandable_segments",
                                        "expandable_segments_reserve",
                                        "backend",
                                        "release_lock_on_cudamalloc",
                                        "release_lock_on_hipmalloc"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n == strlen(words[i]) && !strncmp(name, words[i], n))
            return true;
    return (n > 7 && !strncmp(name, "pinned_", 7)) || !strncmp(value, "False", 5);
}

#define MIB(n) ((int64_t)((uint64_t)(n) << 20))

/* A share of the device's memory, or gibibytes with a G behind them; PyTorch ignores what is neither. */
static void take_reserve(struct trace_tape *tape, const char *value)
{
    char *end;
    double number = strtod(value, &end);
    bool gibibytes = *end == 'G';
    tape->reserve_share = !gibibytes && number > 0 && number <= 1 ? number : 0;
    tape->reserve_bytes = gibibytes && number > 0 && number < 0x1p20 ? (int64_t)(number * 0x1p30) : 0;
}

static void take_setting(struct trace_tape *tape, const char *name, size_t n, const char *value)
{
    uint64_t number = strtoull(value, NULL, 10) & 0xffffffff;
    double share = strtod(value, NULL);
#define IS(word) (n == strlen(word) && !strncmp(name, word, n))
    if (IS("max_split_size_mb"))
        tape->max_split = MIB(number);
    else if (IS("large_segment_size_mb"))
        tape->large_segment = MIB(number & 0xffff);
    else if (IS("garbage_collection_threshold") && share > 0 && share < 1)
        tape->gc_threshold = share;
    else if (IS("per_process_memory_fraction") && share > 0 && share <= 1)
        tape->fraction = share;
    else if (IS("roundup_power2_divisions"))
        tape->roundup =
            *value == '[' ? -1 : (int64_t)(number & 0xffff); /* a list: not the same for all sizes */
    else if (IS("expandable_segments_reserve"))
        take_reserve(tape, value);
#undef IS
}

static void note_setting(struct trace *t, struct trace_tape *tape, const char *name, const char *end)
{
    const char *before = tape->not_imitated;
    char *text = xformat("%s%s%.*s", before ? before : "", before ? ", " : "", (int)(end - name), name);
    tape->not_imitated = *PUSH(t->texts, t->text_count) = text;
}

/* "name:value,name:[value,value]" */
static void read_conf(struct trace *t, struct trace_tape *tape, const char *text)
{
    while (*text) {
        text += strspn(text, " ");
        size_t name = strcspn(text, ":,");
        const char *value = text + name + (text[name] == ':');
        value += strspn(value, " ");
        const char *end = *value == '[' ? strchrnul(value, ']') : value;
        end += strcspn(end, ",");
        if (text[name] == ':' && is_imitated(text, name, value))
            take_setting(tape, text, name, value);
        else if (text[name] == ':')
            note_setting(t, tape, text, end);
        text = end + (*end == ',');
    }
}

/* Which version reads the new name (2.10 on) a recording without Python does not say. */
static void read_environment(struct trace *t, struct trace_tape *tape)
{
    const char *cuda = trace_fact(t, "environment_torch_cuda_alloc_conf"),
               *any = trace_fact(t, "environment_torch_alloc_conf");
    if (!cuda || !any || (*cuda != '=' && *any == '='))
        return;
    tape->environment = *cuda == '=' ? cuda + 1 : "";
    read_conf(t, tape, tape->environment);
    tape->settings_known = true;
}

/* ---- the whole ---- */

int64_t trace_imported_misfits(struct trace *t)
{
    const char *misfits = trace_fact(t, "imported_misfits");
    return misfits ? strtoll(misfits, NULL, 10) : 0;
}

bool trace_imported_told(struct trace *t)
{
    return trace_fact(t, "imported_phases") != NULL;
}

bool trace_imported_plain(struct trace *t)
{
    return trace_fact(t, "imported") && !trace_fact(t, "imported_pairs");
}

int64_t trace_imported_before(struct trace *t)
{
    const char *bytes = trace_fact(t, "imported_before");
    return bytes ? strtoll(bytes, NULL, 10) : UNKNOWN;
}

void tape_read_settings(struct trace *t, struct trace_tape *tape)
{
    const char *split = trace_fact(t, "torch_max_split_size"),
               *gc = trace_fact(t, "torch_garbage_collection_threshold"),
               *roundup = trace_fact(t, "torch_roundup_power2_divisions");
    tape->imported = trace_fact(t, "imported") != NULL;
    tape->requests = tape->imported && !trace_fact(t, "sizes_of_blocks");
    tape->settings_known = split && gc && roundup;
    const char *conf = trace_fact(t, "torch_alloc_conf");
    tape->conf = conf;
    if (conf)
        read_conf(t, tape, conf);
    tape->max_split = split ? strtoll(split, NULL, 10) : -1;
    tape->gc_threshold = gc ? strtod(gc, NULL) : 0;
    tape->roundup = roundup ? strtoll(roundup, NULL, 10) : 0;
    const char *fraction = trace_fact(t, "torch_memory_fraction");
    tape->fraction = fraction ? strtod(fraction, NULL) : 0;
    const char *pools = trace_fact(t, "torch_pools_unknown");
    tape->pools_unknown = pools ? strtoll(pools, NULL, 10) : 0;
    tape->driver_blocks = trace_fact(t, "driver_blocks") != NULL;
    tape->version = trace_fact(t, "torch_version");
    tape->changed = trace_fact(t, "torch_settings_changed") != NULL;
    tape->calls_known = !tape->imported && tape->version;
    if (!tape->settings_known && !tape->imported)
        read_environment(t, tape);
}
