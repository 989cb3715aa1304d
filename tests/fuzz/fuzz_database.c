/*
 * fuzz_database.c - a database in which anything may stand: every command that reads one ends with one of its
 * statuses.
 *
 * The first byte chooses how it is spoiled (spoil_sql.h), the second the command.
 */
#include "spoil_sql.h"

#include "base/args.h"

static void quiet(void)
{
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    if (!getenv("FUZZ_LOUD")) { /* what the commands say of the file; sanitizers have a way of their own */
        FILE *f = fdopen(null, "w");
        if (f)
            stderr = f;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bytes good;
    static char path[128], other[128], merged[160], name[16], option[160];
    static const struct {
        const struct command *command;
        const char *option;
    } ways[] = {{&command_report, NULL},
                {&command_report, "--json"},
                {&command_peak, NULL},
                {&command_peak, "--json"},
                {&command_plot, NULL},
                {&command_export, "--format=perfetto"},
                {&command_export, "--format=pytorch"},
                {&command_export, "--format=folded"},
                {&command_export, "--format=pprof"},
                {&command_export, "--format=csv"},
                {&command_view, "--output=-"},
                {&command_whatif, "--capacity=1GiB"},
                {&command_whatif, "--json"},
                {&command_diff, NULL},
                {&command_diff, "--json"},
                {&command_plot, "--overlay"},
                {&command_check, "--no-growth"},
                {&command_check, "--max=line=a.py:1"},
                {&command_merge, merged}};
    enum { ALONE = 14, WAYS = sizeof ways / sizeof *ways }; /* from there on beside a whole file */
    if (!good.at) {
        good = kit_database();
        snprintf(path, sizeof path, "%s", kit_path("x.db"));
        snprintf(other, sizeof other, "%s", kit_path("other.db"));
        snprintf(merged, sizeof merged, "--output=%s", kit_path("merged.db"));
        kit_write(other, good.at, good.n);
        quiet();
    }
    if (size < 2)
        return 0;
    spoil_database(path, good, data + 1, size - 1);
    size_t way = data[0] < 150 ? data[0] % ALONE : ALONE + data[0] % (WAYS - ALONE);
    bool two = way >= ALONE;
    snprintf(name, sizeof name, "%s", ways[way].command->name);
    snprintf(option, sizeof option, "%s", ways[way].option ? ways[way].option : "");
    char *argv[5] = {name, path};
    int argc = 2;
    if (two)
        argv[argc++] = other;
    if (ways[way].option)
        argv[argc++] = option;
    int status = command_call(ways[way].command, argc, argv);
    if (status < 0 || status > 3)
        abort();
    kit_drop_database(path);
    return 0;
}
