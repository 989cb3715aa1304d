/*
 * test_readable.c - readable.c on this kernel, and under filters of system calls that answer in its place:
 * what cannot be read is never said to be readable, whoever answers.
 *
 * A filter stays, so each case is a process of its own.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "unit/child.h"
#include "core/contracts.h"
#include "core/readable.h"

/* Has CALL answered with ERROR where the low half of its first argument is FIRST; anything for 0. */
static bool answer(long call, uint32_t first, int error)
{
    struct sock_filter all[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(first ? BPF_JMP | BPF_JEQ | BPF_K : BPF_JMP | BPF_JGE | BPF_K, first, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof all / sizeof *all, all};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static bool mask_answers(int error)
{
    return answer(SYS_rt_sigprocmask, UINT32_MAX, error);
}

static bool copy_answers(int error)
{
    return answer(SYS_process_vm_readv, 0, error);
}

static char *page;

static bool tells(void)
{
    char text[8];
    return !vs_readable((uintptr_t)page) && !vs_readable((uintptr_t)page + 4088) &&
           !vs_readable_bytes((uintptr_t)page - 8, 16) && vs_readable_bytes((uintptr_t)page - 8, 8) &&
           vs_readable((uintptr_t)&page) && vs_copy_text(text, sizeof text, (uintptr_t)page - 3) == 2;
}

static bool calls_nothing_readable(void)
{
    return !vs_readable((uintptr_t)page) && !vs_readable((uintptr_t)&page);
}

static bool said(enum vs_contract_state state, const char *what)
{
    return vs_contract_state(VS_CONTRACT_KERNEL_READABLE) == state &&
           strstr(vs_contract_detail(VS_CONTRACT_KERNEL_READABLE), what) != NULL;
}

CHILD_TEST(a_page_without_access_is_unreadable_and_the_stack_is_not)
{
    return tells() && said(VS_CONTRACT_PROVEN, "rt_sigprocmask");
}

static int error;

static int tells_by_copying(void)
{
    return !mask_answers(error) ? UNTRIED : tells() && said(VS_CONTRACT_PROVEN, "process_vm_readv");
}

/* As a filter, or a kernel that looks at the arguments in another order, may answer. */
TEST(another_answer_than_the_kernels_is_no_answer)
{
    static const int errors[] = {EPERM, ENOSYS, EINVAL, EFAULT};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        error = errors[i];
        int gave = in_child(tells_by_copying);
        if (gave == UNTRIED)
            skip();
        assert_int_equal(gave, HOLDS);
    }
}

CHILD_TEST(an_answer_that_changes_later_is_none_from_then_on)
{
    if (!tells())
        return BROKEN;
    return !mask_answers(EPERM) ? UNTRIED : tells();
}

CHILD_TEST(where_nobody_tells_nothing_is_readable)
{
    if (!mask_answers(EPERM) || !copy_answers(EPERM))
        return UNTRIED;
    return calls_nothing_readable() && said(VS_CONTRACT_BROKEN, "does not tell");
}

CHILD_TEST(where_nobody_tells_any_more_nothing_is_readable)
{
    if (!tells())
        return BROKEN;
    if (!mask_answers(EPERM) || !copy_answers(ENOSYS))
        return UNTRIED;
    return calls_nothing_readable() && said(VS_CONTRACT_BROKEN, "does not tell");
}

int main(void)
{
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page = pages + 4096;
    if (pages == MAP_FAILED || mprotect(page, 4096, PROT_NONE) != 0)
        return 1;
    page[-3] = page[-2] = 'a';
    return run_all_tests(NULL, NULL);
}
