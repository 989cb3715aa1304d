/* mounts.c - see mounts.h. */
#include "mounts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* "\040" is a blank. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++)
        if (*at == '\\' && at[1] && at[2] && at[3]) {
            *to++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            at += 3;
        } else {
            *to++ = *at;
        }
    *to = 0;
}

/* /dev is whatever is mounted there: where it is a file system of memory, its devices must stay devices. */
static bool is_kernels(const char *path, const char *type)
{
    static const char *const types[] = {"proc",        "sysfs",    "devtmpfs", "devpts",  "mqueue",
                                        "securityfs",  "cgroup",   "cgroup2",  "debugfs", "tracefs",
                                        "bpf",         "configfs", "pstore",   "autofs",  "efivarfs",
                                        "binfmt_misc", "fusectl",  "hugetlbfs"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i]))
            return true;
    return !strcmp(path, "/dev") || !strcmp(path, "/proc") || !strcmp(path, "/sys");
}

static bool has_option(const char *list, const char *option)
{
    size_t n = strlen(option);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && !strncmp(at, option, n))
            return true;
    return false;
}

/* "36 35 98:0 /root /path rw,noatime shared:1 - ext4 /dev/sda rw" */
static void take_line(struct mounts *m, char *line)
{
    char *fields[6], *at = line, *behind = strstr(line, " - ");
    for (int i = 0; i < 6; i++)
        if (!(fields[i] = strsep(&at, " ")))
            return;
    if (!behind)
        return;
    char *rest = behind + 3, *type = strsep(&rest, " ");
    strsep(&rest, " ");
    unescape(fields[4]);
    *PUSH(m->all, m->n) = (struct mount_point){
        xstrdup(fields[4]), has_option(fields[5], "ro") || (rest && has_option(strsep(&rest, " \n"), "ro")),
        is_kernels(fields[4], type)};
}

int mounts_read(struct mounts *m)
{
    char *line = NULL;
    size_t size = 0;
    *m = (struct mounts){0};
    FILE *in = fopen("/proc/self/mountinfo", "re");
    if (!in)
        return errno;
    while (getline(&line, &size, in) > 0)
        take_line(m, line);
    free(line);
    fclose(in);
    return m->n ? 0 : ENOENT;
}

void mounts_free(struct mounts *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->all[i].path);
    free(m->all);
}

const struct mount_point *mounts_at(const struct mounts *m, const char *path)
{
    for (size_t i = m->n; i > 0; i--)
        if (!strcmp(m->all[i - 1].path, path))
            return &m->all[i - 1];
    return NULL;
}

bool mounts_below(const char *path, const char *directory)
{
    size_t n = strcmp(directory, "/") ? strlen(directory) : 0;
    return !strncmp(path, directory, n) && path[n] == '/' && path[n + 1];
}

bool mounts_next_below(const struct mounts *m, size_t i, const char *directory)
{
    const char *path = m->all[i].path;
    if (!mounts_below(path, directory) || mounts_at(m, path) != &m->all[i])
        return false;
    for (size_t k = 0; k < m->n; k++)
        if (mounts_below(path, m->all[k].path) && mounts_below(m->all[k].path, directory))
            return false;
    return true;
}
