/* convert_asked.c - what an export of ours says that a block was asked for as (see convert.h). */
#include "convert.h"

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
