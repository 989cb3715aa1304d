/*
 * stacks.c - call stacks on their way into the database: their frames, and what is said of a stack as a
 * whole, so that no query has to walk it.
 *
 *      owner   the library that asked: the file of the first native frame outward that is not CUDA's own
 *      line    the innermost line of the program's own Python code, which is what a person can change.  Of
 * what was born in backward that is a line that ran there (a custom function's, a hook's), else one of the
 * forward that made the node: `forward` says so node    the autograd node in whose run it was layer   where
 * the program was in its modules or ranges
 *
 * A stack is the path from its row to the root, and both are found by walking that path outward.  A row is
 * written once, after the rows of its callers, and both follow from the frames alone.
 */
#include "internal.h"

#include <string.h>

#define DEPTH_MAX 512

/* ---- who asked ---- */

static bool asks_for_others(const char *name)
{
    static const char *const between[] = {"libvramscope", "libcuda.so", "libcudart", "libc.so",
                                          "libpthread",   "ld-linux",   "libdl.so",  "libcudart_static"};
    for (size_t i = 0; i < sizeof between / sizeof *between; i++)
        if (strncmp(name, between[i], strlen(between[i])) == 0)
            return true;
    return false;
}

/* String id of the file name of MODULE; 0 where it is the driver, the runtime, libc or vramscope. */
static uint32_t owner_of_module(struct vs_store *s, uint32_t module)
{
    uint32_t id = vs_table_get(&s->owner_ids, module);
    if (id != VS_TABLE_NONE)
        return id;
    const struct vs_module_row *m = vs_journal_get_module(s->journal, module);
    const char *path = m ? vs_journal_get_string(s->journal, m->path, NULL) : NULL;
    const char *name = path && strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!name)
        return 0;
    id = asks_for_others(name) ? 0 : s->next_string++;
    if (id && vs_sql_run(s, VS_SQL_STRING, "it", (int64_t)id, name) < 0)
        return 0;
    vs_table_put(&s->owner_ids, module, id);
    return id;
}

static uint32_t owner_of_stack(struct vs_store *s, uint32_t id)
{
    const struct vs_stack_row *node;
    for (int depth = 0; depth < DEPTH_MAX && (node = vs_journal_get_stack(s->journal, id));
         depth++, id = node->parent) {
        const struct vs_frame_row *f = vs_journal_get_frame(s->journal, node->frame);
        bool native = f && f->kind == VS_FRAME_ADDRESS && f->module;
        uint32_t owner = native ? owner_of_module(s, f->module) : 0;
        if (owner)
            return owner;
    }
    return 0;
}

/* ---- the program's own line ---- */

/* The frameworks between a program and the driver, as folders of site-packages or dist-packages. */
static bool in_framework(const char *path)
{
    static const char *const frameworks[] = {"torch/", "functorch/", "triton/", "jax/", "jaxlib/",
                                             "cupy/",  "numba/",     "rmm/",    "cuda/"};
    const char *packages = strstr(path, "-packages/");
    for (size_t i = 0; packages && i < sizeof frameworks / sizeof *frameworks; i++)
        if (strncmp(packages + strlen("-packages/"), frameworks[i], strlen(frameworks[i])) == 0)
            return true;
    return false;
}

/* lib/python3.12/threading.py, but not lib/python3.12/site-packages/model.py */
static bool in_standard_library(const char *path)
{
    const char *library = strstr(path, "/lib/python3");
    const char *slash = library ? strchr(library + strlen("/lib/"), '/') : NULL;
    return slash && strncmp(slash, "/site-packages/", 15) != 0 && strncmp(slash, "/dist-packages/", 15) != 0;
}

/* Code that a compiler of the framework wrote, Python's own that is kept inside the interpreter, and ours. */
static bool made_by_tools(const char *path)
{
    return strncmp(path, "<frozen ", 8) == 0 || strncmp(path, "<eval_with_key>", 15) == 0 ||
           strstr(path, "/torchinductor_") != NULL || strstr(path, "/vramscope/python/") != NULL;
}

bool vs_store_users_file(const char *path)
{
    return !made_by_tools(path) && !in_framework(path) && !in_standard_library(path);
}

static bool is_users(struct vs_store *s, uint32_t file)
{
    uint32_t known = vs_table_get(&s->users_files, file);
    if (known == VS_TABLE_NONE) {
        const char *path = vs_journal_get_string(s->journal, file, NULL);
        known = path && vs_store_users_file(path);
        vs_table_put(&s->users_files, file, known); /* without memory: looked at again */
    }
    return known;
}

/* What a stack says; all but `forward` are frame ids, 0: it says nothing. */
struct said {
    uint32_t line, node, layer;
    bool forward;
};

/* Where no Python frame is the program's own the innermost one is the line. */
static void see_python(struct vs_store *s, struct said *said, uint32_t *innermost, uint32_t id, uint32_t file)
{
    bool users = is_users(s, file);
    if (!users && *innermost)
        return;
    *(users ? &said->line : innermost) = id;
    said->forward = said->node != 0;
}

static struct said said_by(struct vs_store *s, uint32_t id)
{
    const struct vs_stack_row *row;
    struct said said = {0};
    uint32_t innermost = 0;
    for (int depth = 0; depth < DEPTH_MAX && (row = vs_journal_get_stack(s->journal, id));
         depth++, id = row->parent) {
        const struct vs_frame_row *f = vs_journal_get_frame(s->journal, row->frame);
        if (f && f->kind == VS_FRAME_PYTHON && !said.line)
            see_python(s, &said, &innermost, row->frame, f->file);
        else if (f && f->kind == VS_FRAME_NODE && !said.node)
            said.node = row->frame;
        else if (f && f->kind == VS_FRAME_LAYER && !said.layer)
            said.layer = row->frame;
    }
    if (!said.line)
        said.line = innermost;
    return said;
}

/* ---- rows ---- */

static int write_address(struct vs_store *s, uint32_t id, const struct vs_frame_row *f)
{
    const struct vs_module_row *m = vs_journal_get_module(s->journal, f->module);
    return vs_sql_run(s, VS_SQL_FRAME, "iiiittn", (int64_t)id, (int64_t)f->kind, (int64_t)f->module,
                      (int64_t)(f->address - (m ? m->base : 0)), NULL, NULL, (int64_t)-1);
}

static int write_named(struct vs_store *s, uint32_t id, const struct vs_frame_row *f)
{
    return vs_sql_run(s, VS_SQL_FRAME, "iinnttn", (int64_t)id, (int64_t)f->kind, (int64_t)-1, (int64_t)-1,
                      vs_journal_get_string(s->journal, f->function, NULL),
                      vs_journal_get_string(s->journal, f->file, NULL),
                      f->line ? (int64_t)f->line : (int64_t)-1);
}

static int write_frame(struct vs_store *s, uint32_t id)
{
    const struct vs_frame_row *f;
    if (!id || vs_bits_has(&s->frames, id) || !(f = vs_journal_get_frame(s->journal, id)))
        return 0;
    int rc = f->kind == VS_FRAME_ADDRESS ? write_address(s, id, f) : write_named(s, id, f);
    if (rc == 0)
        vs_bits_add(&s->frames, id);
    return rc;
}

static int64_t or_null(uint32_t id)
{
    return id ? (int64_t)id : -1;
}

int vs_store_stack(struct vs_store *s, uint32_t id)
{
    const struct vs_stack_row *node;
    for (int depth = 0; id && depth < DEPTH_MAX && !vs_bits_has(&s->stacks, id); depth++, id = node->parent) {
        if (!(node = vs_journal_get_stack(s->journal, id)))
            return 0;
        int rc = write_frame(s, node->frame);
        uint32_t owner = owner_of_stack(s, id);
        struct said said = said_by(s, id);
        if (rc == 0)
            rc = vs_sql_run(s, VS_SQL_STACK, "iiinninn", (int64_t)id, (int64_t)node->parent,
                            (int64_t)node->frame, or_null(owner), or_null(said.line), (int64_t)said.forward,
                            or_null(said.node), or_null(said.layer));
        if (rc < 0)
            return rc;
        vs_bits_add(&s->stacks, id);
    }
    return 0;
}
