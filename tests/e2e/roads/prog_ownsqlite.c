// link: cuda
/* Opens our database with the system's SQLite in the very process that is recorded, and closes it again:
 * POSIX locks of the recorder would be gone with that close. */
#include "prog.h"
#include <dlfcn.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void pairs(int count)
{
    CUdeviceptr p;
    for (int i = 0; i < count; i++) {
        OK(cuMemAlloc(&p, 4096));
        OK(cuMemFree(p));
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2); /* the database */
    begin();
    pairs(500);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL), *db = NULL;
    CHECK(library);
    int (*open_db)(const char *, void **) = (int (*)(const char *, void **))dlsym(library, "sqlite3_open");
    int (*execute)(void *, const char *, void *, void *, char **) =
        (int (*)(void *, const char *, void *, void *, char **))dlsym(library, "sqlite3_exec");
    int (*close_db)(void *) = (int (*)(void *))dlsym(library, "sqlite3_close");
    if (access(argv[1], F_OK) == 0) { /* there is none without the shim */
        enum { ERROR = 1, BUSY = 5 };
        int asked = ERROR; /* the recorder may not have made the table yet, or be about to begin its log */
        for (int i = 0; i < 3000 && (asked == ERROR || asked == BUSY); i++) {
            CHECK(open_db(argv[1], &db) == 0);
            asked = execute(db, "SELECT count(*) FROM event", NULL, NULL, NULL);
            CHECK(close_db(db) == 0);
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
        CHECK(asked == 0);
        pairs(500);
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        CHECK(open_db(argv[1], &db) == 0);
        CHECK(execute(db, "PRAGMA integrity_check", NULL, NULL, NULL) == 0);
        CHECK(close_db(db) == 0);
    } else {
        pairs(500);
    }
    pairs(500);
    puts("done");
    return 0;
}
