/* test_fit_model.c - `fit config.json`: what is a model, which words are fit's, and which the trainer's. */
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"
#include "fit/attempt.h"

struct options {
    const char *gpu, *output, *ranks;
    bool json;
};

static const struct option_row rows[] = {{"gpu", 0, "KEY", ARG_TEXT, AT(gpu), ""},
                                         {"output", 'o', "FILE", ARG_TEXT, AT(output), ""},
                                         {"ranks", 0, "N", ARG_TEXT, AT(ranks), ""},
                                         {"json", 0, NULL, ARG_FLAG, AT(json), ""},
                                         {0}};
static const struct command fit = {.name = "fit", .rows = rows};

/* What WORDS become: "GPU OUTPUT RANKS JSON: command"; "wrong" where an option is. */
static void expect(const char *words, const char *wanted)
{
    char *copy = xstrdup(words), *argv[32], *made = xstrdup("");
    struct options o = {0};
    int n = 0;
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[n++] = word;
    char **command = model_command(&fit, argv, n, &o, &o.ranks);
    xappend(&made, "%s %s %s %d:", o.gpu ? o.gpu : "-", o.output ? o.output : "-", o.ranks ? o.ranks : "-",
            o.json);
    for (char **word = command; word && *word; word++)
        xappend(&made, " %s", *word);
    assert_string_equal(command ? made : "wrong", wanted);
    free(command);
    free(made);
    free(copy);
}

#define TRAINER " python3 -m vramscope._fit_model "

TEST(test_options_of_fit_are_its_own_wherever_they_stand)
{
    expect("a.json", "- - - 0:" TRAINER "a.json");
    expect("a.json --batch=4 --seq 8 --json --gpu=H100", "H100 - - 1:" TRAINER "a.json --batch=4 --seq 8");
    expect("a.json --lora=8 -o x.db -b --gpu H100", "H100 x.db - 0:" TRAINER "a.json --lora=8 -b");
    expect("a.json -oy.db --help", "- y.db - 0:" TRAINER "a.json --help");
    expect("a.json --gpu", "wrong");
}

TEST(test_zero_over_ranks_is_an_option_of_both)
{
    expect("a.json --zero=3:8 --batch=1", "- - 8 0:" TRAINER "a.json --zero=3 --batch=1");
    expect("a.json --zero=3 --ranks=8", "- - 8 0:" TRAINER "a.json --zero=3");
}

TEST(test_a_config_or_a_directory_with_one_is_a_model)
{
    char directory[] = "/tmp/fit-model-XXXXXX";
    assert_non_null(mkdtemp(directory));
    assert_true(model_is("a.json"));
    assert_false(model_is("python") || model_is(".json") || model_is(directory));
    char *config = xformat("%s/config.json", directory);
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fclose(file);
    assert_true(model_is(directory));
    unlink(config);
    rmdir(directory);
    free(config);
}
