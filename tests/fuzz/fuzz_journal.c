/*
 * fuzz_journal.c - a journal in which anything may stand: opened, read, drained and recovered from without a
 * crash, a hang or a read beyond the file.
 *
 * The first byte says whether the rest is a whole file or patches to a good one, and what is done with it.
 */
#include "kit.h"

enum { RAW = 1, RECOVER = 2, WRITABLE = 4 };

static void look(struct vs_journal *j)
{
    static struct vs_event events[64];
    static uint64_t seqs[64];
    size_t n, length;
    for (int round = 0; round < 8 && (n = vs_journal_peek(j, events, seqs, 64, true)) > 0; round++)
        vs_journal_release(j, seqs[n - 1]);
    for (uint32_t id = 0; id < 600; id++) {
        const char *s = vs_journal_get_string(j, id, &length);
        if (s && strlen(s) > length)
            abort();
        vs_journal_get_thread(j, id);
        vs_journal_get_context(j, id);
        vs_journal_get_device(j, id);
        vs_journal_get_module(j, id);
        vs_journal_get_frame(j, id);
        vs_journal_get_stack(j, id);
    }
    vs_journal_fact(j, "host");
    vs_journal_owner_alive(j);
    if (strlen(vs_journal_database(j)) >= 4096)
        abort();
}

static void ask(struct vs_journal *j)
{
    struct vs_control_request request;
    struct vs_control_answer answer;
    if (!vs_journal_can_ask(j))
        return;
    if (vs_journal_requested(j, &request, 0) && !memchr(request.to, 0, sizeof request.to))
        abort();
    uint32_t number = vs_journal_ask(j, &(struct vs_control_request){.kind = VS_CONTROL_RESUME}, UINT64_MAX);
    if (number && (!vs_journal_requested(j, &request, 0) || request.number != number))
        abort();
    if (vs_journal_request_state(j, number, &answer) == VS_REQUEST_ANSWERED &&
        !memchr(answer.text, 0, sizeof answer.text))
        abort();
    if (number)
        vs_journal_answer(j, &(struct vs_control_answer){.number = number});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bytes good;
    char why[256], path[128], database[128];
    struct vs_journal *j;
    snprintf(path, sizeof path, "%s", kit_path("x.vsj"));
    snprintf(database, sizeof database, "%s", kit_path("x.db"));
    if (!good.at) {
        vs_journal_close(kit_journal(path, 128, 1));
        good = kit_read(path);
    }
    if (size < 1)
        return 0;
    kit_spoil(path, good, data + 1, size - 1, data[0] & RAW);
    if (data[0] & RECOVER) {
        vs_recover(path, database, why, sizeof why);
    } else if (vs_journal_open(&j, path, data[0] & WRITABLE) == 0) {
        look(j);
        ask(j);
        vs_journal_close(j);
    }
    unlink(path);
    kit_drop_database(database);
    return 0;
}
