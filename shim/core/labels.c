/* labels.c - see labels.h. */
#include "labels.h"

#include <string.h>

static bool is_name(const char *text, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
    return length >= 1 && length <= VS_LABEL_NAME_MOST && strspn(text, letters) >= length;
}

static bool is_value(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return length >= 1 && length <= VS_LABEL_VALUE_MOST;
}

static struct vs_label first_of(const char *list)
{
    size_t length = strcspn(list, ","), name = strcspn(list, "=");
    name = name < length ? name : length;
    bool divided = name < length;
    return (struct vs_label){list, list + name + divided, name, length - name - divided};
}

bool vs_label_next(const char **list, struct vs_label *out)
{
    struct vs_label label = first_of(*list);
    if (!is_name(label.name, label.name_length) || !is_value(label.value, label.value_length))
        return false;
    *out = label;
    *list = label.value + label.value_length;
    *list += **list == ',';
    return true;
}

static bool is_there(const char *list, const struct vs_label *label)
{
    struct vs_label other;
    while (list < label->name && vs_label_next(&list, &other))
        if (other.name < label->name && other.name_length == label->name_length &&
            memcmp(other.name, label->name, label->name_length) == 0)
            return true;
    return false;
}

const char *vs_labels_wrong(const char *list, size_t *at)
{
    const char *rest = list;
    struct vs_label label;
    for (int n = 0; *rest; n++) {
        label = first_of(rest);
        *at = (size_t)(rest - list);
        if (n == VS_LABELS_MOST || strlen(list) > VS_LABELS_BYTES)
            return "there are too many labels";
        if (label.value == label.name + label.name_length)
            return "a label is NAME=VALUE";
        if (!is_name(label.name, label.name_length))
            return "a label's name is of letters, digits and ._+-, 64 at most";
        if (!vs_label_next(&rest, &label))
            return "a label's value has 1 to 256 characters, none a comma or a control character";
        if (is_there(list, &label))
            return "a label comes twice";
    }
    return NULL;
}
