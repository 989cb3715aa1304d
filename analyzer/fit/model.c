/* model.c - see model.h. */
#include "model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct split {
    char **own, **rest; /* of fit; of the program that trains */
    int owns, rests;
};

static const struct option_row *row_of(const struct option_row *rows, const char *word)
{
    size_t length = strcspn(word, "=");
    for (; rows->name; rows++) {
        bool is_long = !strncmp(word, "--", 2) && strlen(rows->name) == length - 2 &&
                       !strncmp(word + 2, rows->name, length - 2);
        if (is_long || (word[0] == '-' && rows->letter && word[1] == rows->letter))
            return rows;
    }
    return NULL;
}

/* How many words the option at WORD takes. */
static int words_of(const struct option_row *row, const char *word)
{
    bool has_value = word[1] == '-' ? strchr(word, '=') != NULL : word[2] != '\0';
    return row->value && !has_value ? 2 : 1;
}

static int first_operand(const struct option_row *rows, int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0) {
        const struct option_row *row = row_of(rows, argv[i]);
        i += row ? words_of(row, argv[i]) : 1;
    }
    return i < argc && !strcmp(argv[i], "--") ? i + 1 : i;
}

static bool is_model(const char *path)
{
    struct stat st;
    char *inside = xformat("%s/config.json", path);
    size_t length = strlen(path);
    bool is = (length > 5 && !strcmp(path + length - 5, ".json")) ||
              (!stat(path, &st) && S_ISDIR(st.st_mode) && !access(inside, F_OK));
    free(inside);
    return is;
}

/* "--zero=3:8" as "--zero=3", and "--ranks=8" for fit. */
static void take_zero(struct split *s, char *word)
{
    char *colon = strncmp(word, "--zero=", 7) ? NULL : strchr(word, ':');
    if (colon) {
        static char *ranks, *stage; /* for as long as the process lives */
        s->own[s->owns++] = ranks = xformat("--ranks=%s", colon + 1);
        word = stage = xformat("%.*s", (int)(colon - word), word);
    }
    s->rest[s->rests++] = word;
}

static void split_words(struct split *s, const struct option_row *rows, char **words, int n)
{
    for (int i = 0; i < n; i++) {
        const struct option_row *row = words[i][0] == '-' ? row_of(rows, words[i]) : NULL;
        if (!row) {
            take_zero(s, words[i]);
            continue;
        }
        for (int k = words_of(row, words[i]); k > 0 && i < n; k--)
            s->own[s->owns++] = words[k == 1 ? i : i++];
    }
}

char **model_arguments(const struct option_row *rows, int *argc, char **argv)
{
    static char trainer[][24] = {"--", "python3", "-m", "vramscope._fit_model"};
    enum { TRAINER = sizeof trainer / sizeof *trainer };
    int at = first_operand(rows, *argc, argv);
    if (at >= *argc || !is_model(argv[at]))
        return argv;
    size_t room = 2 * (size_t)*argc + TRAINER + 1;
    struct split s = {xrealloc(NULL, room * sizeof(char *)), xrealloc(NULL, room * sizeof(char *)), 0, 0};
    for (int i = 0; i < at; i++)
        if (strcmp(argv[i], "--") != 0)
            s.own[s.owns++] = argv[i];
    split_words(&s, rows, argv + at + 1, *argc - at - 1);
    for (int i = 0; i < TRAINER; i++)
        s.own[s.owns++] = trainer[i];
    s.own[s.owns++] = argv[at];
    for (int i = 0; i < s.rests; i++)
        s.own[s.owns++] = s.rest[i];
    free(s.rest);
    *argc = s.owns;
    return s.own;
}
