/* test_symbols.c - names for frames: the test program asks for its own functions, as a recording would. */
#define _GNU_SOURCE

#include <fcntl.h>
#include <link.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"
#include "read/symbols.h"

static char exe[4096], build_id[130], directory[] = "/tmp/vramscope-symbols-XXXXXX", path[128];
static uintptr_t bias;

static const int a_line = __LINE__ + 1;
static __attribute__((noinline)) int a_static_function(int x)
{
    __asm__ volatile("nop");
    return x + 1;
}

/* A symbol of four bytes with 60 nobody's bytes behind it. */
__asm__(".text\n.type short_symbol, @function\n.p2align 6\nshort_symbol: nop\nnop\nnop\nnop\n"
        ".size short_symbol, 4\n.p2align 6\n");
extern char short_symbol[];

static int find_self(struct dl_phdr_info *info, size_t size, void *data)
{
    bias = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const char *at = (const char *)(bias + info->dlpi_phdr[i].p_vaddr);
        const char *end = at + info->dlpi_phdr[i].p_memsz;
        while (info->dlpi_phdr[i].p_type == PT_NOTE && at < end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const unsigned char *id = (const unsigned char *)(note + 1) + ((note->n_namesz + 3) & ~3u);
            for (unsigned b = 0; note->n_type == NT_GNU_BUILD_ID && b < note->n_descsz; b++)
                sprintf(build_id + 2 * b, "%02x", id[b]);
            at = (const char *)id + ((note->n_descsz + 3) & ~3u);
        }
    }
    return 1;
}

static sqlite3 *new_database(void)
{
    static char schema[1 << 18];
    sqlite3 *db;
    FILE *f = fopen(SCHEMA, "r");
    schema[fread(schema, 1, sizeof schema - 1, f)] = 0;
    assert_true(feof(f));
    fclose(f);
    snprintf(path, sizeof path, "%s/run.db", directory);
    unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY", NULL, NULL, NULL);
    assert_int_equal(sqlite3_exec(db, schema, NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void add(sqlite3 *db, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *sql = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_free(sql);
}

static void add_module(sqlite3 *db, int id, const char *file, const char *its_build_id)
{
    add(db, "INSERT INTO module(id, path, build_id, base, size) VALUES(%d, %Q, %Q, 0, 1)", id, file,
        its_build_id);
}

static void add_frame(sqlite3 *db, int id, int module, uintptr_t address)
{
    add(db, "INSERT INTO frame(id, module, offset) VALUES(%d, %d, %lld)", id, module,
        (long long)(address - bias));
}

static const char *answer(sqlite3 *db, const char *column, int frame)
{
    static char text[2][4096];
    static int turn;
    char *into = text[turn ^= 1];
    sqlite3_stmt *row;
    char *sql = sqlite3_mprintf("SELECT %s FROM frame WHERE id = %d", column, frame);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    const char *value = (const char *)sqlite3_column_text(row, 0);
    snprintf(into, sizeof text[0], "%s", value ? value : "NULL");
    sqlite3_finalize(row);
    sqlite3_free(sql);
    return into;
}

TEST(a_static_function_gets_its_name_file_and_line)
{
    sqlite3 *db = new_database();
    add_module(db, 1, exe, build_id);
    add_frame(db, 1, 1, (uintptr_t)a_static_function + 1);
    assert_int_equal(vs_symbols_fill_db(db, 10), 1);
    assert_string_equal(answer(db, "function", 1), "a_static_function");
    assert_non_null(strstr(answer(db, "file", 1), "test_symbols.c"));
    assert_in_range(atoi(answer(db, "line", 1)), a_line, a_line + 3);
    sqlite3_close(db);
}

TEST(an_address_behind_a_symbols_end_has_no_name)
{
    sqlite3 *db = new_database();
    add_module(db, 1, exe, build_id);
    add_frame(db, 1, 1, (uintptr_t)short_symbol + 3);
    add_frame(db, 2, 1, (uintptr_t)short_symbol + 4);
    assert_int_equal(vs_symbols_fill_db(db, 10), 1);
    assert_string_equal(answer(db, "function", 1), "short_symbol");
    assert_string_equal(answer(db, "function", 2), "NULL");
    sqlite3_close(db);
}

TEST(a_file_with_another_build_id_is_not_asked)
{
    char other[130];
    snprintf(other, sizeof other, "%s", build_id);
    other[0] = other[0] == '0' ? '1' : '0';
    sqlite3 *db = new_database();
    add_module(db, 1, exe, other);
    add_module(db, 2, "/nowhere/libgone.so", build_id);
    add_module(db, 3, SCHEMA, build_id); /* no ELF file */
    add_module(db, 4, directory, build_id);
    for (int i = 1; i <= 4; i++)
        add_frame(db, i, i, (uintptr_t)a_static_function + 1);
    assert_int_equal(vs_symbols_fill_db(db, 10), 0);
    for (int i = 1; i <= 4; i++)
        assert_string_equal(answer(db, "function", i), "NULL");
    sqlite3_close(db);
}

TEST(without_a_build_id_the_file_must_be_older_than_the_run)
{
    struct stat st;
    stat(exe, &st);
    for (int younger = 0; younger < 2; younger++) {
        sqlite3 *db = new_database();
        add(db, "INSERT INTO process(id, start_realtime_ns) VALUES(1, %lld)",
            (long long)(st.st_mtim.tv_sec + (younger ? -5 : 5)) * 1000000000LL);
        add_module(db, 1, exe, NULL);
        add_frame(db, 1, 1, (uintptr_t)a_static_function + 1);
        assert_int_equal(vs_symbols_fill_db(db, 10), !younger);
        sqlite3_close(db);
    }
}

TEST(a_truncated_or_damaged_file_is_survived)
{
    char copy[128], command[8400];
    snprintf(copy, sizeof copy, "%s/damaged", directory);
    for (int i = 0; i < 100; i++) {
        snprintf(command, sizeof command, "cp %s %s", exe, copy);
        if (i == 0)
            assert_int_equal(system(command), 0);
        int fd = open(copy, O_RDWR);
        struct stat st;
        fstat(fd, &st);
        for (int k = 0; k < 8; k++) { /* the headers, then anywhere */
            unsigned char byte = (unsigned char)rand();
            off_t at = k < 2 ? rand() % 1024 : rand() % st.st_size;
            if (at > 16 && pwrite(fd, &byte, 1, at) != 1)
                fail();
        }
        if (i % 20 == 19 && ftruncate(fd, st.st_size * 9 / 10) != 0)
            fail();
        close(fd);
        sqlite3 *db = new_database();
        add(db, "INSERT INTO process(id, start_realtime_ns) VALUES(1, %lld)", INT64_MAX);
        add_module(db, 1, copy, NULL);
        add_frame(db, 1, 1, (uintptr_t)a_static_function + 1);
        assert_true(vs_symbols_fill_db(db, 1) >= 0);
        sqlite3_close(db);
    }
    unlink(copy);
}

TEST(a_database_is_left_alone_while_its_process_writes_it)
{
    sqlite3 *db = new_database();
    add_module(db, 1, exe, build_id);
    add_frame(db, 1, 1, (uintptr_t)a_static_function + 1);
    add(db, "INSERT INTO meta(key, value) VALUES('journal', %Q)", exe); /* a file that exists */
    assert_int_equal(vs_symbols_fill_db(db, 10), 0);
    add(db, "UPDATE meta SET value = '/nowhere.vsj'");
    assert_int_equal(vs_symbols_fill_db(db, 10), 1);
    sqlite3_close(db);
}

TEST(a_second_time_asks_nothing_but_new_frames)
{
    sqlite3 *db = new_database();
    char why[128] = "";
    add_module(db, 1, exe, build_id);
    add_frame(db, 1, 1, (uintptr_t)a_static_function + 1);
    add_frame(db, 2, 1, (uintptr_t)short_symbol + 10);
    sqlite3_close(db);
    assert_int_equal(vs_symbols_fill(path, why, sizeof why), 1);
    assert_int_equal(vs_symbols_fill(path, why, sizeof why), 0);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    add_frame(db, 3, 1, (uintptr_t)a_static_function + 1);
    sqlite3_close(db);
    assert_int_equal(vs_symbols_fill(path, why, sizeof why), 1);
}

TEST(what_time_did_not_suffice_for_is_asked_again)
{
    sqlite3 *db = new_database();
    add_module(db, 1, exe, build_id);
    add_frame(db, 1, 1, (uintptr_t)a_static_function + 1);
    assert_int_equal(vs_symbols_fill_db(db, 0), 0);
    assert_int_equal(vs_symbols_fill_db(db, 10), 1);
    assert_int_equal(vs_symbols_fill_db(db, 10), 0);
    sqlite3_close(db);
}

TEST(a_foreign_file_is_one_line)
{
    char why[256] = "";
    assert_true(vs_symbols_fill(SCHEMA, why, sizeof why) < 0);
    assert_non_null(strstr(why, "schema.sql"));
    assert_null(strchr(why, '\n'));
    assert_true(vs_symbols_fill("/nowhere/run.db", why, sizeof why) < 0);
}

TEST(cxx_names_are_demangled)
{
#ifdef VS_HAVE_DEMANGLE
    char *name = elf_demangle("_ZN3c104cuda20CUDACachingAllocator7malloc_Em");
    assert_string_equal(name, "c10::cuda::CUDACachingAllocator::malloc_(unsigned long)");
    free(name);
    name = elf_demangle("_Znot_a_name");
    assert_string_equal(name, "_Znot_a_name");
    free(name);
#else
    skip();
#endif
}

int main(void)
{
    exe[readlink("/proc/self/exe", exe, sizeof exe - 1)] = 0;
    dl_iterate_phdr(find_self, NULL);
    if (!mkdtemp(directory))
        return 1;
    int failed = run_all_tests(NULL, NULL);
    unlink(path);
    rmdir(directory);
    return failed + a_static_function(-1);
}
