/*
 * suspend.c - vramscope_suspend and vramscope_resume (vramscope.h): the program suspends its own memory.
 */
#include <errno.h>
#include <stdio.h>

#include "hooks/provided.h"
#include "vramscope.h"

#define PATIENCE_NS UINT64_C(60000000000)

static void say(char *why, size_t size, const char *text)
{
    if (why != NULL && size != 0)
        snprintf(why, size, "%s", text);
}

static int ask(enum vs_control_kind kind, char *why, size_t size)
{
    const struct vs_control_request request = {.kind = kind, .timeout_ns = PATIENCE_NS};
    struct vs_control_answer answer;
    int saved = errno;
    if (vs_providing == NULL || vs_providing->carry_out == NULL) {
        say(why, size, "this process does not run under the arena: vramscope run --allocator=arena");
        return -1;
    }
    vs_providing->carry_out(&request, NULL, 0, false, &answer);
    say(why, size, answer.text);
    errno = saved;
    return answer.status == VS_CONTROL_DONE ? 0 : -1;
}

int vramscope_suspend(char *why, size_t size)
{
    return ask(VS_CONTROL_SUSPEND, why, size);
}

int vramscope_resume(char *why, size_t size)
{
    return ask(VS_CONTROL_RESUME, why, size);
}
