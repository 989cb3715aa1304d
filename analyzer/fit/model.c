/* model.c - the command that trains a model by its config.json (attempt.h). */
#include "attempt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool model_is(const char *path)
{
    struct stat st;
    char *inside = xformat("%s/config.json", path);
    size_t length = strlen(path);
    bool is = (length > 5 && !strcmp(path + length - 5, ".json")) ||
              (!stat(path, &st) && S_ISDIR(st.st_mode) && !access(inside, F_OK));
    free(inside);
    return is;
}

char **model_command(const struct command *fit, char **words, int n, void *options, const char **ranks)
{
    static const char *const trainer[] = {"python3", "-m", "vramscope._fit_model"};
    char **command = NULL;
    size_t count = 0;
    int left = command_take(fit, words + 1, n - 1, options);
    if (left < 0)
        return NULL;
    for (size_t i = 0; i < sizeof trainer / sizeof *trainer; i++)
        *PUSH(command, count) = (char *)trainer[i];
    for (int i = 0; i <= left; i++) {
        char *colon = strncmp(words[i], "--zero=", 7) ? NULL : strchr(words[i], ':');
        if (colon) {
            *colon = 0;
            *ranks = colon + 1;
        }
        *PUSH(command, count) = words[i];
    }
    *PUSH(command, count) = NULL;
    return command;
}
