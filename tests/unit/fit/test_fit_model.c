/*
 * test_fit_model.c - `fit config.json`: which words are fit's own and which go to the program that trains,
 * wherever they stand; and that a command of the user's is left as it is.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"
#include "fit/model.h"

static const struct option_row rows[] = {{"gpu", 0, "KEY", ARG_TEXT, 0, ""},
                                         {"output", 'o', "FILE", ARG_TEXT, 0, ""},
                                         {"ranks", 0, "N", ARG_TEXT, 0, ""},
                                         {"json", 0, NULL, ARG_FLAG, 0, ""},
                                         {0}};

/* WORDS and what is made of them, with blanks between; they may be changed. */
static void expect(const char *words, const char *wanted)
{
    char *copy = xstrdup(words), *argv[32], joined[512] = "";
    int argc = 0;
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    char **made = model_arguments(rows, &argc, argv);
    for (int i = 0; i < argc; i++)
        snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%s", i ? " " : "", made[i]);
    assert_string_equal(joined, wanted);
    if (made != argv)
        free(made);
    free(copy);
}

#define TRAINER "-- python3 -m vramscope._fit_model "

TEST(test_options_of_fit_are_its_own_wherever_they_stand)
{
    expect("fit a.json", "fit " TRAINER "a.json");
    expect("fit --gpu=H100 a.json --batch=4 --seq 8 --json",
           "fit --gpu=H100 --json " TRAINER "a.json --batch=4 --seq 8");
    expect("fit --gpu H100 a.json --lora=8 -o x.db -oy.db",
           "fit --gpu H100 -o x.db -oy.db " TRAINER "a.json --lora=8");
    expect("fit a.json --gpu", "fit --gpu " TRAINER "a.json"); /* whose value is lacking, as it says then */
}

TEST(test_zero_over_ranks_is_an_option_of_both)
{
    expect("fit a.json --zero=3:8 --batch=1", "fit --ranks=8 " TRAINER "a.json --zero=3 --batch=1");
    expect("fit a.json --zero=3 --ranks=8", "fit --ranks=8 " TRAINER "a.json --zero=3");
}

TEST(test_a_command_stays_as_it_is)
{
    expect("fit --gpu a.json python train.py", "fit --gpu a.json python train.py");
    expect("fit -- python a.json", "fit -- python a.json");
    expect("fit", "fit");
    expect("fit --gpu", "fit --gpu");
    expect("fit -o a.json train", "fit -o a.json train");
}

TEST(test_a_directory_with_a_config_is_a_model)
{
    char directory[] = "/tmp/fit-model-XXXXXX", words[128], wanted[256];
    assert_non_null(mkdtemp(directory));
    snprintf(words, sizeof words, "fit -- %s", directory);
    expect(words, words);
    char *config = xformat("%s/config.json", directory);
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fclose(file);
    snprintf(wanted, sizeof wanted, "fit " TRAINER "%s", directory);
    expect(words, wanted);
    unlink(config);
    rmdir(directory);
    free(config);
}
