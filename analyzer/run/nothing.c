/*
 * nothing.c - why a run recorded nothing (outputs.h). What is asked first is the answer; last comes that it
 * never used the GPU.
 */
#include "outputs.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/shown.h"
#include "start.h"

/* The loader that the 64-bit program in FD names, into NAME; "" where it names none. */
static bool read_loader(int fd, char *name, size_t size)
{
    Elf64_Ehdr head;
    *name = 0;
    if (pread(fd, &head, sizeof head, 0) != sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    for (int i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr p;
        if (pread(fd, &p, sizeof p, (off_t)(head.e_phoff + (Elf64_Off)i * sizeof p)) != sizeof p)
            return false;
        if (p.p_type != PT_INTERP)
            continue;
        size_t n = p.p_filesz < size ? p.p_filesz : size - 1;
        ssize_t got = pread(fd, name, n, (off_t)p.p_offset);
        name[got > 0 ? got : 0] = 0;
        return got > 0;
    }
    return true;
}

/* Why no library can be preloaded into FILE; NULL: nothing is known against it. */
static char *unreachable(const char *file)
{
    char loader[256];
    struct stat st;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    char *why = NULL;
    if (fd < 0)
        return NULL;
    bool program = read_loader(fd, loader, sizeof loader), held = fstat(fd, &st) == 0;
    close(fd);
    if (held && (((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
                 ((st.st_mode & S_ISGID) && st.st_gid != getgid())))
        why = xformat(
            "%s runs with its owner's rights (set-uid, set-gid), and such a program ignores LD_PRELOAD: put "
            "vramscope run -- in front of what it starts",
            shown(file));
    else if (program && !*loader)
        why = xformat(
            "%s is linked statically, and no library can be preloaded into it: link it without -static",
            shown(file));
    else if (program && !strstr(loader, "ld-linux"))
        why = xformat("%s is no program of glibc (its loader is %s), and vramscope records no other: build "
                      "it for glibc",
                      shown(file), shown(loader));
    return why;
}

/* Whether COMMAND starts programs without our LD_PRELOAD. */
static bool is_outside(const char *command)
{
    static const char *const names[] = {"sudo", "doas", "docker", "podman", "kubectl", "ssh"};
    const char *slash = strrchr(command, '/');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(slash ? slash + 1 : command, names[i]))
            return true;
    return false;
}

/* Whether a CUDA driver can be loaded, tried in a process of its own. */
static bool has_driver(void)
{
    int status = 1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) ? 0 : 1);
    return pid < 0 || waitpid(pid, &status, 0) != pid || status == 0;
}

char *run_nothing(const char *output, char *const *command, int status)
{
    const char *cannot = output_cannot_be_made(output);
    if (cannot)
        return xformat("%s can't be made: %s: give another -o", shown(output), cannot);
    char *file = start_file(command[0]), *why = file ? unreachable(file) : NULL;
    free(file);
    if (why)
        return why;
    if (WIFSIGNALED(status))
        return xformat(
            "signal %d (%s) ended the command before it used the GPU: vramscope doctor says whether "
            "the library is to blame",
            WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (is_outside(command[0]))
        return xformat(
            "what %s starts has an environment of its own, without the library: put vramscope run -- "
            "in front of that",
            shown(command[0]));
    int code = WEXITSTATUS(status);
    if (code == 126 || code == 127)
        return xformat(
            "the command ended with status %d, as loaders and shells do that miss something: what they "
            "wrote says what, and vramscope doctor whether the library is to blame",
            code);
    if (!getenv("VRAMSCOPE_SIMULATED") && !has_driver())
        return xstrdup(
            "the command never used the GPU: no CUDA driver (libcuda.so.1) is found here, vramscope "
            "doctor says more (programs of PyTorch's run without one under vramscope fit)");
    return code && !getenv("VRAMSCOPE_SIMULATED")
               ? xformat(
                     "the command never used the GPU, and ended with status %d: what it wrote says why, and "
                     "vramscope doctor whether the library is to blame",
                     code)
               : NULL;
}
