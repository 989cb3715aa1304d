/*
 * convert_stacks.c - texts, call stacks and tensors of a snapshot as rows of a journal's tables, and the room
 * that these need.
 */
#include <string.h>

#include "convert.h"

#define TEXT_MOST 4095 /* of a journal's string */
#define COUNTED   UINT32_MAX

/* ---- the journal's size ---- */

static uint64_t text_bytes(uint32_t length)
{
    return (length < TEXT_MOST ? length : TEXT_MOST) + 24;
}

/* A frame is one dict that many stacks refer to. */
static void count_frames(const struct pickle_object *stack, uint64_t *frames, uint64_t *bytes)
{
    for (size_t i = 0; i < stack->n; i++) {
        const struct pickle_value *f = &stack->at[i], *name = unpickle_get(f, "name"),
                                  *file = unpickle_get(f, "filename");
        if (f->kind != PICKLE_DICT || f->object->tag == COUNTED)
            continue;
        f->object->tag = COUNTED;
        *frames += 2; /* with that of a node */
        *bytes += text_bytes(name ? name->length : 0) * 2 + text_bytes(file ? file->length : 0);
    }
}

enum { TENSORS = 1 << 16, TENSOR_BYTES = sizeof(struct vs_tensor_row) + 8 * VS_TENSOR_DIMS_MAX };

struct vs_journal_config convert_room(const struct snapshot *s)
{
    uint64_t frames = 64, bytes = 1 << 16;
    for (size_t i = 0; i < s->stack_count; i++)
        count_frames(s->stacks[i], &frames, &bytes);
    for (size_t i = 0; i < s->range_count; i++)
        bytes += text_bytes(s->ranges[i].length);
    for (size_t i = 0; i < s->label_count; i++)
        bytes += text_bytes(s->labels[i].length);
    frames += s->label_count;
    uint64_t stacks = s->stack_frames + s->stack_count + s->labelled + 64;
    return (struct vs_journal_config){
        .ring_slots = DRAIN_EVERY * 2,
        .string_bytes = bytes < UINT32_MAX - 8 ? (uint32_t)bytes : UINT32_MAX - 8,
        .threads = 8,
        .contexts = 8,
        .devices = 8,
        .modules = 8,
        .frames = frames < UINT32_MAX ? (uint32_t)frames : UINT32_MAX,
        .tensor_bytes = 4096 + (uint32_t)(s->asked < TENSORS ? s->asked : TENSORS) * TENSOR_BYTES,
        .stacks = stacks < UINT32_MAX ? (uint32_t)stacks : UINT32_MAX,
        .start_ns = 1};
}

/* ---- stacks ---- */

uint32_t convert_string(const struct convert *c, const char *text, size_t n)
{
    return vs_journal_string(c->journal, text, n);
}

/* PATH of Windows with slashes, as who looks for a package in it expects them. */
static uint32_t file_of(struct convert *c, const struct snapshot_frame *f)
{
    char path[TEXT_MOST];
    size_t n = f->file_length < sizeof path ? f->file_length : sizeof path;
    if (n < 3 || f->file[1] != ':' || f->file[2] != '\\')
        return convert_string(c, f->file, f->file_length);
    for (size_t i = 0; i < n; i++)
        path[i] = f->file[i] == '\\' ? '/' : f->file[i];
    return convert_string(c, path, n);
}

static uint32_t make_frame(struct convert *c, const struct snapshot_frame *f)
{
    bool native = phases_native(f), placed = f->file_length && !(f->file_length == 2 && f->file[0] == '?');
    uint32_t name = f->name_length ? convert_string(c, f->name, f->name_length) : convert_string(c, "?", 1);
    uint32_t file = placed ? file_of(c, f) : 0;
    const char *node;
    size_t node_length = phases_exported_node(f, &node);
    if (node_length)
        return vs_journal_named_frame(c->journal, VS_FRAME_NODE, convert_string(c, node, node_length), 0, 0);
    return vs_journal_named_frame(c->journal, native ? VS_FRAME_NATIVE : VS_FRAME_PYTHON, name, file,
                                  phases_line(f));
}

/* Of a frame whose dict has been seen: the journal's. */
static uint32_t frame_of(struct convert *c, struct pickle_object *o, const struct snapshot_frame *f)
{
    if (o->tag == COUNTED || !o->tag)
        o->tag = make_frame(c, f);
    return o->tag;
}

/* How many frames from the innermost on are kept, and the node under them: autograd's threads run a node
 * below frames that are the same for every node.  Where Python called backward in the same thread its frames
 * stay, and the node is left to native frames: under a node the database has those of the forward. */
static size_t cut_at_node(const struct snapshot *s, uint32_t stack, const char **node, size_t *node_length)
{
    struct snapshot_frame f;
    size_t at = 0, n = 0;
    *node_length = 0;
    for (; snapshot_frame(s, stack, n, &f); n++) {
        if (!phases_native(&f) && *node_length)
            break;
        if (!*node_length && (*node_length = phases_node(&f, node)))
            at = n + 1;
    }
    bool python = snapshot_frame(s, stack, n, &f);
    while (snapshot_frame(s, stack, n, &f))
        n++;
    if (python)
        *node_length = 0;
    return *node_length ? at : n;
}

static uint32_t make_stack(struct convert *c, uint32_t stack)
{
    const struct pickle_object *frames = c->s->stacks[stack - 1];
    const char *node = NULL;
    size_t node_length, n = cut_at_node(c->s, stack, &node, &node_length);
    uint32_t id = 0;
    struct snapshot_frame f;
    if (node_length)
        id = vs_journal_stack(
            c->journal, 0,
            vs_journal_named_frame(c->journal, VS_FRAME_NODE, convert_string(c, node, node_length), 0, 0));
    for (size_t i = n; i--;) {
        if (!snapshot_frame(c->s, stack, i, &f) || frames->at[i].kind != PICKLE_DICT || phases_recorder(&f) ||
            phases_nameless(&f))
            continue;
        uint32_t frame = frame_of(c, frames->at[i].object, &f);
        id = frame ? vs_journal_stack(c->journal, id, frame) : id;
    }
    return id;
}

/* A label is a layer: what the program says of where it was. */
static uint32_t put_label(struct convert *c, uint32_t stack, const struct snapshot_text *label)
{
    uint32_t name = convert_string(c, label->text, label->length);
    uint32_t frame = vs_journal_named_frame(c->journal, VS_FRAME_LAYER, name, 0, 0);
    return frame ? vs_journal_stack(c->journal, stack, frame) : stack;
}

uint32_t convert_stack(struct convert *c, uint32_t stack, uint32_t label)
{
    if (stack && !c->stacks[stack - 1])
        c->stacks[stack - 1] = make_stack(c, stack);
    uint32_t id = stack ? c->stacks[stack - 1] : 0;
    return label ? put_label(c, id, &c->s->labels[label - 1]) : id;
}

/* ---- what blocks were asked for as ---- */

/* "[4, 2048]": its extents and how many; VS_TENSOR_NO_SHAPE where it is none. */
static uint32_t read_shape(const struct pickle_value *v, int64_t *sizes)
{
    uint32_t n = 0;
    int64_t number = -1;
    if (!v || v->kind != PICKLE_TEXT || v->length < 2 || v->text[0] != '[')
        return VS_TENSOR_NO_SHAPE;
    for (uint32_t i = 1; i < v->length; i++) {
        char c = v->text[i];
        if (c >= '0' && c <= '9' && number < INT64_MAX / 16) {
            number = (number < 0 ? 0 : number) * 10 + (c - '0');
        } else if (c == ',' || c == ']') {
            if (number >= 0 && n == VS_TENSOR_DIMS_MAX)
                return VS_TENSOR_NO_SHAPE;
            if (number >= 0)
                sizes[n++] = number;
            number = -1;
        } else if (c != ' ') {
            return VS_TENSOR_NO_SHAPE;
        }
    }
    return n;
}

static uint32_t read_type(const struct pickle_value *v)
{
    static const struct {
        uint32_t number;
        const char *name;
    } types[] = {
#define X(number, name, bytes) {number, name},
        VS_ELEMENT_TYPES(X)
#undef X
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (unpickle_is(v, types[i].name))
            return types[i].number;
    return VS_TENSOR_NO_TYPE;
}

uint32_t convert_asked(const struct convert *c, const struct snapshot_event *e)
{
    const struct pickle_value *made_for = unpickle_get(e->asked, "made_for");
    int64_t sizes[VS_TENSOR_DIMS_MAX];
    if (!made_for)
        return 0;
    if (unpickle_is(made_for, "raw"))
        return vs_journal_tensor(
            c->journal, vs_tensor_what(VS_TENSOR_RAW, VS_TENSOR_NO_TYPE, VS_TENSOR_NO_SHAPE), 0, NULL);
    bool tensor = unpickle_is(made_for, "tensor");
    uint32_t dims = tensor ? read_shape(unpickle_get(e->asked, "shape"), sizes) : VS_TENSOR_NO_SHAPE;
    return vs_journal_tensor(
        c->journal,
        vs_tensor_what(tensor ? VS_TENSOR_WHOLE : VS_TENSOR_STORAGE,
                       tensor ? read_type(unpickle_get(e->asked, "element_type")) : VS_TENSOR_NO_TYPE, dims),
        e->size, sizes);
}
