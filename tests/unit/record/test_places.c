/* test_places.c - names: patterns, claims that overwrite nothing, and the journal's place. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "unit/test.h"
#include "unit/core/capture.h"
#include "core/options.h"
#include "record/recording.h"

static char dir[64];

static void set(const char *output, const char *journal_dir)
{
    char o[PATH_MAX + 32], d[PATH_MAX + 32];
    snprintf(o, sizeof o, "VRAMSCOPE_OUTPUT=%s", output);
    snprintf(d, sizeof d, "VRAMSCOPE_JOURNAL_DIR=%s", journal_dir);
    char *environment[] = {o, d, NULL};
    vs_options_load(environment);
}

static int make_dir(void **state)
{
    static const char *const names[] = {"RANK",     "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK", "SLURM_JOB_ID", "VRAMSCOPE_CLAIM"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    strcpy(dir, "/tmp/vs-output-XXXXXX");
    return mkdtemp(dir) && chdir(dir) == 0 ? (vs_output_init(), 0) : -1;
}

static int drop_dir(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return chdir("/") || system(command);
}

static void claims(const char *expected)
{
    char path[PATH_MAX], whole[PATH_MAX];
    struct stat st;
    snprintf(whole, sizeof whole, "%s/%s", dir, expected);
    assert_int_equal(vs_output_claim(path, sizeof path), 0);
    assert_string_equal(path, whole);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
}

TEST(patterns_are_expanded, make_dir, drop_dir)
{
    char path[PATH_MAX], expected[PATH_MAX], host[256];
    gethostname(host, sizeof host);
    vs_output_expand(path, sizeof path, "/x/%h-%p-%r-%%-%");
    snprintf(expected, sizeof expected, "/x/%s-%d-none-%%-%%", host, (int)getpid());
    assert_string_equal(path, expected);
    setenv("SLURM_PROCID", "7", 1);
    setenv("RANK", "12", 1);
    vs_output_expand(path, sizeof path, "/x/%r");
    assert_string_equal(path, "/x/12");
    setenv("RANK", "many", 1); /* no number: the next one counts */
    vs_output_expand(path, sizeof path, "/x/%r");
    assert_string_equal(path, "/x/7");
    char small[8];
    vs_output_expand(small, sizeof small, "/0123456789");
    assert_string_equal(small, "/012345");
}

TEST(relative_names_mean_where_the_program_started, make_dir, drop_dir)
{
    set("run.db", "");
    assert_int_equal(chdir("/"), 0);
    claims("run.db");
}

TEST(nothing_is_overwritten, make_dir, drop_dir)
{
    set("run.db", "");
    claims("run.db");
    claims("run-2.db");
    claims("run-3.db");
    set("plain", "");
    claims("plain");
    claims("plain-2");
    set(".hidden", "");
    claims(".hidden");
    claims(".hidden-2");
    assert_int_equal(symlink("/nonexistent/elsewhere", "link.db"), 0);
    set("link.db", "");
    claims("link-2.db"); /* a dangling link is somebody's too */
}

TEST(under_run_the_first_claims_the_file_and_others_insert_rank_and_pid, make_dir, drop_dir)
{
    char name[64];
    setenv("VRAMSCOPE_CLAIM", "1", 1);
    set("run.db", "");
    claims("run.db");
    snprintf(name, sizeof name, "run-pid%d.db", (int)getpid());
    claims(name);
    setenv("RANK", "3", 1);
    snprintf(name, sizeof name, "run-rank3-pid%d.db", (int)getpid());
    claims(name);
    snprintf(name, sizeof name, "run-rank3-pid%d-2.db", (int)getpid());
    claims(name);
}

TEST(places_that_cannot_be_written_are_errors_with_their_name, make_dir, drop_dir)
{
    char path[PATH_MAX];
    set("/nonexistent/run.db", "");
    assert_int_equal(vs_output_claim(path, sizeof path), -ENOENT);
    assert_string_equal(path, "/nonexistent/run.db");
    set("/proc/run.db", "");
    assert_true(vs_output_claim(path, sizeof path) < 0);
}

static void journal_in(const char *directory, const char *start)
{
    char path[PATH_MAX], database[PATH_MAX];
    struct vs_journal *j;
    snprintf(database, sizeof database, "%s/run.db", dir);
    struct vs_journal_config c = {.ring_slots = 1024, .database = database};
    set("run.db", directory);
    assert_int_equal(vs_output_journal(&j, path, sizeof path, &c), 0);
    assert_int_equal(strncmp(path, start, strlen(start)), 0);
    assert_non_null(strstr(path, VS_JOURNAL_SUFFIX));
    vs_journal_close(j);
    unlink(path);
}

TEST(the_journal_goes_where_it_is_told_and_elsewhere_when_it_cannot, make_dir, drop_dir)
{
    journal_in(dir, dir);
    journal_in(".", dir); /* relative to the start */
    capture_begin();
    journal_in("/nonexistent", "/");
    const char *said = capture_end();
    assert_int_equal(lines_in(said), 1);
    assert_non_null(strstr(said, "/nonexistent"));
    assert_non_null(strstr(said, "VRAMSCOPE_JOURNAL_DIR"));
}
