/*
 * test_journal.c - the journal as a file: where it may be made, what it keeps when its process is killed, and
 * no trust in others' files or damaged ones.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "trace/journal/format.h"

#include "journal_kit.h"

TEST(nothing_is_overwritten_and_a_full_disk_is_an_error_not_a_signal, make_dir, drop_dir)
{
    struct vs_journal *j = create(64), *k;
    struct vs_journal_config c = {.ring_slots = 64};
    assert_int_equal(vs_journal_create(&k, path, &c), -EEXIST);
    vs_journal_close(j);
    unlink(path);
    assert_int_equal(vs_journal_create(&k, "/dev/full/x.vsj", &c), -ENOTDIR);
    assert_int_equal(vs_journal_create(&k, "/nonexistent/x.vsj", &c), -ENOENT);
    struct stat st;
    create(64);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, vs_journal_bytes(&c));
    assert_true(st.st_blocks * 512 >= st.st_size); /* every page has its space */
    assert_int_equal(st.st_mode & 0777, 0600);
}

TEST(a_limit_on_file_sizes_is_an_error_not_a_signal, make_dir, drop_dir)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        struct rlimit limit = {65536, 65536};
        struct vs_journal_config c = {.ring_slots = 1024};
        struct vs_journal *j;
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(vs_journal_create(&j, path, &c) != -EFBIG || access(path, F_OK) == 0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

TEST(a_killed_process_leaves_every_event_that_it_was_told_of, make_dir, drop_dir)
{
    int told[2];
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct vs_journal *j = create(1u << 16);
        for (uint64_t i = 1; i <= 30000; i++) {
            add(j, i);
            if (write(told[1], &i, sizeof i) < 0)
                _exit(1);
        }
        pause();
    }
    close(told[1]);
    uint64_t count = 0, last = 0;
    while (count < 20000 && read(told[0], &last, sizeof last) == sizeof last)
        count++;
    struct vs_journal *j;
    assert_int_equal(vs_journal_open(&j, path, true), 0);
    assert_true(vs_journal_owner_alive(j));
    kill(pid, SIGKILL);
    while (read(told[0], &last, sizeof last) == sizeof last)
        count++;
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_false(vs_journal_owner_alive(j)); /* dead, though nobody has waited for it yet */
    waitpid(pid, NULL, 0);
    assert_false(vs_journal_owner_alive(j));
    vs_journal_close(j);

    assert_int_equal(vs_journal_open(&j, path, true), 0);
    uint64_t got = 0, highest = 0;
    size_t n;
    while ((n = take_all(j, true)) != 0) {
        got += n;
        highest = events[n - 1].address;
    }
    assert_int_equal(got, highest);
    assert_true(got == count || got == count + 1); /* + 1: recorded, killed before it could say so */
    assert_int_equal(stats_of(j).head, stats_of(j).tail);
    vs_journal_close(j);
    close(told[0]);
}

TEST(read_only_peek_changes_nothing, make_dir, drop_dir)
{
    struct vs_journal *j = create(64), *r;
    add(j, 1);
    assert_int_equal(vs_journal_open(&r, path, false), 0);
    assert_int_equal(vs_journal_peek(r, events, seqs, 10, true), 1);
    vs_journal_release(r, 1);
    assert_int_equal(vs_journal_peek(r, events, seqs, 10, true), 1);
    assert_int_equal(vs_journal_string(r, "x", 1), 0);
    vs_journal_close(r);
    vs_journal_close(j);
}

static void use_everything(struct vs_journal *j)
{
    size_t n;
    int rounds = 0;
    while ((n = take_all(j, true)) != 0 && rounds++ < 100)
        ;
    for (uint32_t id = 0; id < 20000; id += 7) {
        size_t length;
        const char *s = vs_journal_get_string(j, id, &length);
        assert_true(!s || strlen(s) <= length);
        vs_journal_get_thread(j, id);
        vs_journal_get_context(j, id);
        vs_journal_get_device(j, id);
        vs_journal_get_module(j, id);
        vs_journal_get_frame(j, id);
        vs_journal_get_stack(j, id);
    }
    vs_journal_fact(j, "host");
    vs_journal_owner_alive(j);
}

TEST(foreign_and_truncated_files_are_refused, make_dir, drop_dir)
{
    struct vs_journal *j;
    assert_int_equal(vs_journal_open(&j, "/nonexistent", false), -ENOENT);
    assert_int_equal(vs_journal_open(&j, "/tmp", false), -EINVAL);
    assert_int_equal(vs_journal_open(&j, "/dev/null", false), -EINVAL);
    assert_int_equal(vs_journal_open(&j, "/proc/self/exe", false), -EINVAL);
    j = create(64);
    off_t full = (off_t)j->file_bytes;
    vs_journal_close(j);
    for (off_t size = 0; size < full; size += full / 50 + 1) {
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(vs_journal_open(&j, path, true), -EINVAL);
        unlink(path);
        vs_journal_close(create(64));
    }
    int fd = open(path, O_RDWR);
    uint32_t newer = VS_JOURNAL_FORMAT + 1;
    assert_int_equal(pwrite(fd, &newer, 4, offsetof(struct vs_journal_header, format)), 4);
    close(fd);
    assert_int_equal(vs_journal_open(&j, path, true), -EPROTO);
    fd = open(path, O_RDWR);
    uint32_t older = VS_JOURNAL_FORMAT - 1;
    assert_int_equal(pwrite(fd, &older, 4, offsetof(struct vs_journal_header, format)), 4);
    close(fd);
    assert_int_equal(vs_journal_open(&j, path, true), -ENOTSUP);
}

TEST(damaged_headers_and_tables_never_crash_a_reader, make_dir, drop_dir)
{
    struct vs_journal *j = create(64);
    for (uint64_t i = 0; i < 40; i++)
        add(j, i);
    vs_journal_string(j, "hello", 5);
    vs_journal_set_fact(j, "host", "here");
    size_t bytes = j->file_bytes;
    unsigned char *copy = malloc(bytes);
    memcpy(copy, j->header, bytes);
    vs_journal_close(j);
    srand(1);
    int opened = 0;
    for (int round = 0; round < 1500; round++) {
        int fd = open(path, O_RDWR);
        assert_int_equal(pwrite(fd, copy, sizeof(struct vs_journal_header), 0),
                         sizeof(struct vs_journal_header));
        size_t limit = round % 3 ? sizeof(struct vs_journal_header) : bytes;
        for (int k = 0; k < 3; k++) {
            uint64_t junk = (uint64_t)rand() << (rand() % 40);
            size_t at = (size_t)rand() % (limit - 8);
            assert_int_equal(pwrite(fd, &junk, 1 + (size_t)rand() % 8, (off_t)at) > 0, 1);
        }
        close(fd);
        if (vs_journal_open(&j, path, true) == 0) {
            opened++;
            use_everything(j);
            vs_journal_close(j);
        }
    }
    assert_true(opened > 100);
    free(copy);
}
