/*
 * title.c - turns a command line into a title: the program and its arguments, without paths.
 *
 *      /usr/bin/python3 /home/me/train.py --layers 8 --out /tmp/x/facts.json  -->  train.py --layers 8
 */
#include <stdlib.h>
#include <string.h>

#include "picture.h"

static const char *file_of(const char *word)
{
    const char *slash = strrchr(word, '/');
    return slash && slash[1] ? slash + 1 : word;
}

/* Whether the program is an interpreter of the script that is named next. */
static bool is_interpreter(const char *word)
{
    static const char *const names[] = {"python", "bash", "sh", "env", "torchrun"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (!strncmp(word, names[i], n) && strspn(word + n, "0123456789.") == strlen(word + n))
            return true;
    }
    return false;
}

static bool is_temporary(const char *path)
{
    static const char *const places[] = {"/tmp/", "/var/tmp/", "/dev/shm/", "/run/"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!strncmp(path, places[i], strlen(places[i])))
            return true;
    return false;
}

/* "--out=/a/b" is "--out=b", "" where it says nothing to a reader. */
static char *shorten(const char *word)
{
    const char *value = word[0] == '-' ? strchr(word, '=') : NULL;
    if (is_temporary(value ? value + 1 : word))
        return xstrdup("");
    if (value)
        return xformat("%.*s%s", (int)(value + 1 - word), word, file_of(value + 1));
    return xstrdup(file_of(word));
}

static char *join(char *title, const char *word)
{
    char *longer = *word ? xformat("%s%s%s", title, *title ? " " : "", word) : xstrdup(title);
    free(title);
    return longer;
}

char *title_of_command(const char *command)
{
    char *copy = xstrdup(command), *save = NULL, *title = xstrdup("");
    char *word = strtok_r(copy, " \t\n", &save), *next;
    for (size_t i = 0; word; word = next, i++) {
        next = strtok_r(NULL, " \t\n", &save);
        bool option = word[0] == '-' && !strchr(word, '=');
        if (i > 0 && option && next && is_temporary(next)) { /* both are removed */
            next = strtok_r(NULL, " \t\n", &save);
            continue;
        }
        if (i == 0 && next && next[0] != '-' && is_interpreter(file_of(word)))
            continue;
        char *brief = i == 0 ? xstrdup(file_of(word)) : shorten(word);
        if (!*title && !*brief) { /* a script in /tmp is shown all the same */
            free(brief);
            brief = xstrdup(file_of(word));
        }
        title = join(title, brief);
        free(brief);
    }
    free(copy);
    return title;
}
