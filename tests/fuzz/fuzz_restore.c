/*
 * fuzz_restore.c - recovering into a database in which anything may stand: the ledger is restored from it, or
 * it is refused, and nothing breaks.
 */
#include "spoil_sql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bytes good, journal;
    static char path[128], journal_path[128];
    char why[512];
    if (!good.at) {
        struct vs_journal *j;
        good = kit_database();
        snprintf(path, sizeof path, "%s", kit_path("x.db"));
        snprintf(journal_path, sizeof journal_path, "%s", kit_path("good.vsj")); /* that it names */
        j = kit_journal(journal_path, 1024, 6); /* goes on where the database ends */
        vs_journal_close(j);
        journal = kit_read(journal_path);
    }
    if (size < 1)
        return 0;
    spoil_database(path, good, data, size);
    kit_write(journal_path, journal.at, journal.n);
    vs_recover(journal_path, path, why, sizeof why);
    unlink(journal_path);
    kit_drop_database(path);
    return 0;
}
