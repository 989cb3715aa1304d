/* claim.c - see claim.h. */
#include "claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/destination.h"

/* Held until we and every process of a point have ended, also where we are killed: whoever of them runs on
 * has the GPU, and its recording. */
static int lock_folder(const char *who, const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY); /* children have it, too */
    if (fd < 0)
        return complain("%s: %s can't be opened: %s", who, folder, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) { /* some file systems have none */
        close(fd);
        return complain("%s: another sweep runs in %s, or a process that one left behind: give another -o",
                        who, folder);
    }
    return 0;
}

/* 1: PATH has these SIZE bytes; 0: others; -1 and errno */
static int has_text(const char *path, const char *text, size_t size)
{
    char *was = xrealloc(NULL, size + 1);
    FILE *in = fopen(path, "re");
    int same = -1;
    if (in) {
        size_t n = fread(was, 1, size + 1, in);
        same = ferror(in) ? -1 : n == size && !memcmp(was, text, size);
        fclose(in);
    }
    free(was);
    return same;
}

static int write_text(const char *who, const char *path, const char *text, size_t size)
{
    struct destination to;
    destination_find(&to, path);
    FILE *out = fopen(destination_name(&to), "we");
    bool good = out && fwrite(text, 1, size, out) == size;
    int error = good ? 0 : errno;
    if (out && fclose(out) && good) {
        error = errno;
        good = false;
    }
    int ended = destination_end(&to, good);
    error = good ? ended : error;
    return good && !ended ? 0 : destination_failed(who, path, error);
}

static void write_words(char *const *list, FILE *out)
{
    for (; list && *list; list++)
        fwrite(*list, 1, strlen(*list) + 1, out);
}

/* A folder belongs to one command, its words each with a 0 behind it: points of another would be beside its
 * own. */
int claim_folder(const char *who, const char *folder, char *const *own, char *const *command)
{
    char *path = xformat("%s/command", folder), *text = NULL;
    size_t size;
    FILE *words = xmemstream(&text, &size);
    write_words(own, words);
    write_words(command, words);
    fclose(words);
    int bad = mkdir(folder, 0777) && errno != EEXIST
                  ? complain("%s: %s can't be made: %s: give another -o", who, folder, strerror(errno))
                  : lock_folder(who, folder);
    int same = bad ? 1 : has_text(path, text, size);
    if (same == 0)
        bad = complain("%s: %s has points of another command (%s/command): give another -o", who, folder,
                       folder);
    else if (same < 0)
        bad = errno == ENOENT ? write_text(who, path, text, size)
                              : complain("%s: %s can't be read: %s", who, path, strerror(errno));
    free(path);
    free(text);
    return bad;
}
