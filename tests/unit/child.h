/*
 * child.h - tests whose body runs in a child, because what it finds out or changes stays in a process:
 *
 *   CHILD_TEST(name) { return it_holds(); }     # or UNTRIED, where the machine does not let it be tried
 */
#ifndef TESTS_UNIT_CHILD_H
#define TESTS_UNIT_CHILD_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"

enum { BROKEN = 0, HOLDS = 1, UNTRIED = 77 };

/* What BODY gave in a child of its own; a signal that ended it, negative. */
static inline int in_child(int (*body)(void))
{
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int gave = body();
        fflush(NULL);
        _exit(gave);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

#define CHILD_TEST(name)                                                                                     \
    static int name##_in_child(void);                                                                        \
    TEST(name)                                                                                               \
    {                                                                                                        \
        int gave = in_child(name##_in_child);                                                                \
        if (gave == UNTRIED)                                                                                 \
            skip();                                                                                          \
        assert_int_equal(gave, HOLDS);                                                                       \
    }                                                                                                        \
    static int name##_in_child(void)

#endif
