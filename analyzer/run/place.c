/* place.c - see place.h. */
#include "place.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alias.h"

char *place_of(const char *relative)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return xformat("/usr/%s", relative);
    self[n] = 0;
    for (int up = 0; up < 2; up++) { /* removes the command's name, then bin/ */
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = 0;
    }
    return xformat("%s/%s", self, relative);
}

char *place_listed(const char *relative)
{
    char *path = place_of(relative), *prefix, *alias;
    if (alias_needless(path))
        return path;
    prefix = xformat("%.*s", (int)(strlen(path) - strlen(relative) - 1), path);
    if ((alias = alias_of(prefix))) {
        free(path);
        path = xformat("%s/%s", alias, relative);
    }
    free(alias);
    free(prefix);
    return path;
}

char *place_library(char *why, size_t why_size)
{
    char *path = place_listed("lib/libvramscope.so");
    if (!access(path, R_OK))
        return path;
    snprintf(why, why_size, "%s is missing: reinstall vramscope, bin/ and lib/ belong side by side", path);
    free(path);
    return NULL;
}

char *place_python(void)
{
    char *path = place_listed("share/vramscope/python");
    if (!access(path, X_OK))
        return path;
    free(path);
    return NULL;
}
