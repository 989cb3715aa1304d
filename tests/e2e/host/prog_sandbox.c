// link: cuda
/* Shuts itself in before it asks for anything of the driver: who asks for a limit (prlimit64, getrlimit)
 * kills the process.
 */
#include "prog.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(void)
{
    CUdeviceptr p[100];
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 1, 0),
#ifdef SYS_getrlimit
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrlimit, 0, 1),
#else
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 1),
#endif
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        return 77;
    begin(); /* where a recording begins */
    for (int i = 0; i < 100; i++)
        OK(cuMemAlloc(&p[i], 4096));
    for (int i = 0; i < 100; i++)
        OK(cuMemFree(p[i]));
    puts("done");
    return 0;
}
