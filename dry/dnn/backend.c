/*
 * backend.c - descriptors of the backend API: a kind, and a list of attributes.
 *
 * A descriptor lives while the program or another descriptor refers to it.  cuDNN copies what it is given;
 * here it is shared, as nothing changes after it is finalized.
 */
#include "dnn.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct attribute {
    int name, type;
    int64_t count;
    void *values;
};
struct dnn_backend {
    atomic_int references;
    int kind, n;
    struct attribute *attributes;
};

static size_t value_width(int type)
{
    enum { HANDLE = 0, BOOLEAN = 2, DOUBLE = 5, POINTER = 6, CHAR = 24, FRACTION = 26 };
    switch (type) {
    case BOOLEAN:
    case CHAR:
        return 1;
    case HANDLE:
    case DNN_TYPE_INT64:
    case DOUBLE:
    case POINTER:
    case DNN_TYPE_DESCRIPTOR:
        return 8;
    case FRACTION:
        return 16;
    default:
        return 4;
    }
}

static struct attribute *find(const struct dnn_backend *descriptor, int name)
{
    for (int i = 0; descriptor && i < descriptor->n; i++)
        if (descriptor->attributes[i].name == name)
            return &descriptor->attributes[i];
    return NULL;
}

struct dnn_backend *dnn_backend_new(int kind)
{
    struct dnn_backend *made = calloc(1, sizeof *made);
    if (made) {
        made->kind = kind;
        atomic_init(&made->references, 1);
    }
    return made;
}

struct dnn_backend *dnn_backend_keep(struct dnn_backend *descriptor)
{
    if (descriptor) /* relaxed: who takes a reference has one already */
        atomic_fetch_add_explicit(&descriptor->references, 1, memory_order_relaxed);
    return descriptor;
}

static void forget(struct attribute *attribute)
{
    struct dnn_backend **children = attribute->values;
    for (int64_t i = 0; attribute->type == DNN_TYPE_DESCRIPTOR && i < attribute->count; i++)
        dnn_backend_drop(children[i]);
    free(attribute->values);
}

static void forget_all(struct dnn_backend *descriptor)
{
    for (int i = 0; i < descriptor->n; i++)
        forget(&descriptor->attributes[i]);
    free(descriptor->attributes);
    descriptor->attributes = NULL;
    descriptor->n = 0;
}

void dnn_backend_drop(struct dnn_backend *descriptor)
{
    /* acquire and release: the last one sees what all others wrote */
    if (!descriptor || atomic_fetch_sub_explicit(&descriptor->references, 1, memory_order_acq_rel) != 1)
        return;
    forget_all(descriptor);
    free(descriptor);
}

int dnn_backend_kind(const struct dnn_backend *descriptor)
{
    return descriptor ? descriptor->kind : -1;
}

static struct attribute *room(struct dnn_backend *descriptor, int name)
{
    struct attribute *old = find(descriptor, name);
    if (old) {
        forget(old);
        return old;
    }
    struct attribute *more =
        realloc(descriptor->attributes, ((size_t)descriptor->n + 1) * sizeof *descriptor->attributes);
    if (!more)
        return NULL;
    descriptor->attributes = more;
    return &more[descriptor->n++];
}

bool dnn_backend_set(struct dnn_backend *descriptor, int name, int type, int64_t count, const void *values)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)count, value_width(type), &bytes) || bytes > PTRDIFF_MAX - 1)
        return false;
    void *copy = malloc(bytes + 1);
    if (!copy)
        return false;
    if (bytes)
        memcpy(copy, values, bytes);
    for (int64_t i = 0; type == DNN_TYPE_DESCRIPTOR && i < count; i++)
        dnn_backend_keep(((struct dnn_backend **)copy)[i]);
    struct attribute *attribute = room(descriptor, name);
    if (!attribute) {
        free(copy);
        return false;
    }
    *attribute = (struct attribute){name, type, count, copy};
    return true;
}

int64_t dnn_backend_get(const struct dnn_backend *descriptor, int name, int64_t want, void *values)
{
    const struct attribute *attribute = find(descriptor, name);
    if (!attribute)
        return -1;
    int64_t n = want < attribute->count ? want : attribute->count;
    for (int64_t i = 0; attribute->type == DNN_TYPE_DESCRIPTOR && values && i < n; i++)
        dnn_backend_assign(((struct dnn_backend **)values)[i], ((struct dnn_backend **)attribute->values)[i]);
    if (attribute->type != DNN_TYPE_DESCRIPTOR && values && n > 0)
        memcpy(values, attribute->values, (size_t)n * value_width(attribute->type));
    return attribute->count;
}

int64_t dnn_backend_numbers(const struct dnn_backend *descriptor, int name, int64_t want, int64_t *values)
{
    const struct attribute *attribute = find(descriptor, name);
    return attribute && attribute->type == DNN_TYPE_INT64 ? dnn_backend_get(descriptor, name, want, values)
                                                          : -1;
}

int dnn_backend_enum(const struct dnn_backend *descriptor, int name)
{
    const struct attribute *attribute = find(descriptor, name);
    int value = 0;
    if (attribute && attribute->count > 0 && value_width(attribute->type) == sizeof value)
        memcpy(&value, attribute->values, sizeof value);
    return value;
}

struct dnn_backend *dnn_backend_child(const struct dnn_backend *descriptor, int name, int64_t index)
{
    const struct attribute *attribute = find(descriptor, name);
    bool there =
        attribute && attribute->type == DNN_TYPE_DESCRIPTOR && index >= 0 && index < attribute->count;
    return there ? ((struct dnn_backend **)attribute->values)[index] : NULL;
}

void dnn_backend_assign(struct dnn_backend *to, const struct dnn_backend *from)
{
    if (!to || !from || to == from)
        return;
    forget_all(to);
    for (int i = 0; i < from->n; i++) {
        const struct attribute *one = &from->attributes[i];
        dnn_backend_set(to, one->name, one->type, one->count, one->values);
    }
}
