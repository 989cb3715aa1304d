/*
 * workspace.c - how much room a plan wants beside its tensors.
 */
#include "dnn.h"

/* To channels last, as tensor cores want 16-bit elements, with the channels rounded up to 8. */
static int64_t turned(const struct dnn_shape *s)
{
    if (s->rank < 3 || s->layout == DNN_NHWC || dnn_width(s->data) != 2)
        return 0;
    return dnn_shape_bytes(s) / s->dims[1] * ((s->dims[1] + 7) / 8 * 8);
}

int64_t dnn_workspace(const struct dnn_task_of *task, bool tf32)
{
    (void)tf32;
    char text[768];
    int64_t bytes = 0;
    if (task->task == DNN_SDPA_FORWARD || task->task == DNN_SDPA_BACKWARD)
        bytes = 512 + task->reduced;
    else
        bytes = turned(&task->x) + turned(&task->w) + turned(&task->y);
    dnn_graph_text(task, text, sizeof text);
    dry_fact("guess\tcudnn\t%s\t%lld", text, (long long)bytes);
    return bytes;
}
