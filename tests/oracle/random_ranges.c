/*
 * random_ranges.c - markers, NVTX ranges, automatic ranges, marks and steps.
 *
 *     push SOURCE DOMAIN NAME     pop SOURCE DOMAIN    SOURCE: 1 marker, 2 NVTX, 3 automatic; DOMAIN -: none
 *     start ID NAME               end ID               NVTX start/end: on no thread's stack
 *     mark SOURCE NAME            step
 */
#define _GNU_SOURCE
#include "random.h"

#include "vramscope.h"

#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

static const char *const names[] = {"forward", "logits", "backward", "optimizer", "data", "attention", "mlp"};
static nvtxDomainHandle_t domain;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int (*auto_push)(const char *), (*auto_pop)(void);

static void prepare(void)
{
    domain = nvtxDomainCreateA("library");
    auto_push = (int (*)(const char *))dlsym(RTLD_DEFAULT, "vramscope_auto_push");
    auto_pop = (int (*)(void))dlsym(RTLD_DEFAULT, "vramscope_auto_pop");
}

static void domain_push(const char *name)
{
    nvtxEventAttributes_t a = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .messageType = NVTX_MESSAGE_TYPE_ASCII,
                               .message.ascii = name};
    nvtxDomainRangePushEx(domain, &a);
}

static void push(struct task *t, const char *name)
{
    int kind = (int)pick(t, 4);
    if (t->depth >= 40 || (kind == 3 && !auto_push))
        return;
    t->depth++;
    say(t, "push %d %s %s", kind == 0 ? 1 : kind == 3 ? 3 : 2, kind == 2 ? "library" : "-", name);
    if (kind == 0)
        vramscope_range_push(name);
    else if (kind == 1)
        nvtxRangePushA(name);
    else if (kind == 2)
        domain_push(name);
    else
        auto_push(name);
}

static void pop(struct task *t, int kind)
{
    if (kind == 3 && !auto_pop)
        return;
    say(t, "pop %d %s", kind == 0 ? 1 : kind == 3 ? 3 : 2, kind == 2 ? "library" : "-");
    int left = kind == 0   ? vramscope_range_pop()
               : kind == 1 ? nvtxRangePop()
               : kind == 2 ? nvtxDomainRangePop(domain)
                           : auto_pop();
    if (left >= 0 && t->depth)
        t->depth--;
}

/* Another thread ends it. */
static void cross(struct task *t, const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static nvtxRangeId_t open;
    static int number;
    pthread_mutex_lock(&lock);
    if (open) {
        say(t, "end %d", number);
        nvtxRangeEnd(open);
        open = 0;
    } else {
        say(t, "start %d %s", ++number, name);
        open = nvtxRangeStartA(name);
    }
    pthread_mutex_unlock(&lock);
}

void ranges_turn(struct task *t)
{
    const char *name = names[pick(t, sizeof names / sizeof *names)];
    pthread_once(&once, prepare);
    switch (pick(t, 12)) {
    case 0:
        cross(t, name);
        return;
    case 1:
        say(t, "mark 1 %s", name);
        vramscope_mark(name);
        return;
    case 2:
        say(t, "mark 2 %s", name);
        nvtxMarkA(name);
        return;
    case 3:
        say(t, "step");
        vramscope_step();
        return;
    case 4:
    case 5:
    case 6:
    case 7:
        push(t, name);
        return;
    default:
        pop(t, (int)pick(t, 4));
    }
}

/* Most threads close what they opened; of the others the library closes it at the thread's end. */
void ranges_end(struct task *t)
{
    pthread_once(&once, prepare);
    for (int i = 0; chance(t, 60) && i < 20; i++)
        pop(t, (int)pick(t, 4));
}
