/*
 * test_nvml.c - nvml.c over a stand-in for NVML: entries of each length that drivers write, and pids that are
 * of this namespace or of another one.
 *
 * What is found out stays, so each case is a process of its own.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"
#include "core/contracts.h"
#include "fake_nvml.h"
#include "sample/sampler.h"

#define NOBODY       0x7ffffff0u /* more than any pid */
#define NO_NAMESPACE 77

static struct fake_nvml *nvml;
static const uint8_t uuid[16];

static void load(const char *self)
{
    char path[4096];
    const char *slash = strrchr(self, '/');
    snprintf(path, sizeof path, "%.*s/fakes/libnvidia-ml.so.1", slash ? (int)(slash - self) : 1,
             slash ? self : ".");
    void *library = dlopen(path, RTLD_NOW);
    fake_nvml_fn *get = library ? (fake_nvml_fn *)dlsym(library, "fake_nvml") : NULL;
    nvml = get ? get() : NULL;
}

static void lists(unsigned pid, unsigned long long used)
{
    nvml->pid[nvml->count] = pid;
    nvml->used[nvml->count++] = used;
}

static uint64_t own_bytes(void)
{
    bool listed = false;
    return vs_nvml_load() ? vs_nvml_used(vs_nvml_find(uuid), &listed).process : 1;
}

static bool said(enum vs_contract_state state, const char *what)
{
    return vs_contract_state(VS_CONTRACT_NVML) == state &&
           strstr(vs_contract_detail(VS_CONTRACT_NVML), what) != NULL;
}

/* ---- the cases ---- */

static bool entries_of(size_t bytes, const char *how)
{
    *nvml = (struct fake_nvml){.entry = bytes};
    for (unsigned others = 0; others < 6; others++) {
        nvml->count = 0;
        for (unsigned i = 0; i < others; i++)
            lists(1, 1);
        lists((unsigned)getpid(), 4096);
        if (own_bytes() != 4096 || vs_nvml_others(vs_nvml_find(uuid)) != (others > 0))
            return false;
    }
    return said(VS_CONTRACT_PROVEN, how);
}

static bool short_entries(void)
{
    return entries_of(24, "24 bytes");
}

static bool long_entries(void)
{
    return entries_of(32, "32 bytes");
}

static bool a_list_of_the_hosts_pids(void)
{
    *nvml = (struct fake_nvml){.entry = 24};
    lists((unsigned)getpid(), 4096); /* another process of the host */
    lists(NOBODY, 512);
    /* once may be a process that has just ended */
    for (int i = 0; i < 7; i++)
        if (own_bytes() != VS_BYTES_UNKNOWN || vs_contract_state(VS_CONTRACT_NVML) != VS_CONTRACT_UNASKED)
            return false;
    return own_bytes() == VS_BYTES_UNKNOWN && said(VS_CONTRACT_BROKEN, "another namespace");
}

/* Whether a list with our entry and, unless it is 0, OTHER's says PROCESS. */
static bool then_says(bool *listed, unsigned other, uint64_t process)
{
    nvml->count = 0;
    lists((unsigned)getpid(), 4096);
    if (other)
        lists(other, 512);
    struct vs_used u = vs_nvml_used(vs_nvml_find(uuid), listed);
    return u.process == process && u.answered == (process != VS_BYTES_UNKNOWN);
}

static bool one_that_has_just_ended(void)
{
    bool listed = false;
    *nvml = (struct fake_nvml){.entry = 24};
    return vs_nvml_load() && then_says(&listed, 0, 4096) && then_says(&listed, NOBODY, VS_BYTES_UNKNOWN) &&
           then_says(&listed, 0, 4096) && listed;
}

static bool a_list_of_pids_that_are_here(void)
{
    pid_t other = fork();
    if (other == 0) {
        pause();
        _exit(0);
    }
    *nvml = (struct fake_nvml){.entry = 24};
    lists((unsigned)other, 512);
    lists((unsigned)getpid(), 4096);
    bool good = own_bytes() == 4096 && said(VS_CONTRACT_PROVEN, "that are here");
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return good;
}

/* ---- */

static int exit_of(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* In a process, whose pids are of a namespace of its own if that is wanted. */
static void in_process(bool (*test)(void), bool elsewhere)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (elsewhere && unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
            _exit(NO_NAMESPACE);
        pid_t inside = fork();
        if (inside == 0)
            _exit(test() ? 0 : 1);
        _exit(exit_of(inside));
    }
    int status = exit_of(child);
    if (status == NO_NAMESPACE)
        skip();
    assert_int_equal(status, 0);
}

#define CASE(name, test, elsewhere)                                                                          \
    TEST(name)                                                                                               \
    {                                                                                                        \
        in_process(test, elsewhere);                                                                         \
    }
CASE(the_length_of_short_entries_shows, short_entries, false)
CASE(the_length_of_long_entries_shows, long_entries, false)
CASE(a_pid_of_the_host_that_is_our_number_is_not_ours, a_list_of_the_hosts_pids, true)
CASE(beside_a_process_that_has_just_ended_ours_is_unknown_and_not_0, one_that_has_just_ended, true)
CASE(our_pid_among_pids_that_are_here_is_ours, a_list_of_pids_that_are_here, true)

int main(int argc, char **argv)
{
    load(argv[0]);
    return nvml ? run_all_tests(NULL, NULL) : 1;
}
