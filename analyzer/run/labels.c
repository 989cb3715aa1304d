/* labels.c - see labels.h. */
#include "labels.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "core/labels.h"

char *labels_join(const struct arg_list *list, size_t n)
{
    char *text = xstrdup("");
    for (size_t i = 0; i < n; i++) {
        char *longer = xformat("%s%s%s", text, i ? "," : "", list->values[i]);
        free(text);
        text = longer;
    }
    return text;
}

int labels_check(const struct arg_list *list)
{
    for (size_t i = 0; i < list->count; i++) { /* the first that makes the list wrong */
        size_t at;
        char *text = labels_join(list, i + 1);
        const char *wrong = strchr(list->values[i], ',') ? "a label has no comma: give each its own --label"
                            : !*list->values[i]          ? "a label is NAME=VALUE"
                                                         : vs_labels_wrong(text, &at);
        free(text);
        if (wrong)
            return complain("run: --label '%s': %s", shown(list->values[i]), wrong);
    }
    return 0;
}
