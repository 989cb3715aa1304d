/*
 * whatif.c - `vramscope whatif`: the recorded blocks under other allocators, and where each would run out.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/relabel.h"
#include "base/args.h"
#include "base/shown.h"
#include "base/page.h"
#include "show/report/report.h"
#include "read/tape.h"
#include "whatif.h"
#include "read/trace.h"

static const struct option_row rows[] = {
    {"edit", 'e', "NAME=VALUE", ARG_LIST, AT(edits),
     "the program changed so; several are made one after the other"},
    {"policy", 'p', "LIST", ARG_TEXT, AT(policy), "live,torch-native,torch-expandable,arena: these alone"},
    {"capacity", 'c', "SIZE", ARG_TEXT, AT(capacity), "what the allocator can have, such as 80GiB"},
    {"batch", 0, "LIST", ARG_TEXT, AT(sizes.batch),
     "from several recordings: at these batches, 1..64 (doubled), 1,2,3 or 4"},
    {"seq", 0, "LIST", ARG_TEXT, AT(sizes.seq),
     "from several recordings: at these lengths (of images: sides)"},
    {"plot", 0, "FILE", ARG_TEXT, AT(plot), "gone: vramscope fit --max tries sizes"},
    {"device", 'd', "N", ARG_COUNT, AT(device), "this device alone"},
    {"process", 0, "N", ARG_COUNT, AT(process), "of a file with several processes this one"},
    {"why", 0, NULL, ARG_FLAG, AT(why), "and what each row rests on"},
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-whatif(1)"},
    {"bytes", 'b', NULL, ARG_FLAG, AT(bytes), "exact bytes instead of rounded GiB"},
    {0}};

/* A replay of some of the events would be one of another run. */
static int check_whole(struct trace *t)
{
    if (absent_events(t))
        return complain("whatif: %s", t->why);
    if (trace_imported_misfits(t))
        return complain(
            "whatif: %s lacks entries, as some of its snapshot's do not fit to its own end: dump one "
            "(_dump_snapshot) whose history was not stopped before",
            t->path);
    return 0;
}

static int answer(struct trace *t, const struct question *q)
{
    struct json json, *j = q->o->json ? &json : NULL;
    int64_t first = q->o->device == UNKNOWN ? 0 : q->o->device,
            last = q->o->device == UNKNOWN ? 63 : q->o->device;
    int answered = 0, one = 0;
    int bad = check_whole(t);
    if (bad)
        return bad;
    if (j) {
        json_document(j, stdout);
        json_text(j, "file", t->path);
        json_text(j, "dry", trace_dry(t));
        json_begin(j, "devices", '[');
    } else {
        report_dry_text(t, stdout);
    }
    for (int64_t d = first; d <= last && one >= 0; d++)
        if (trace_find_peak(t, d, "framework") && (one = whatif_device(t, q, d, j)) > 0)
            answered++;
    if (!j && answered && trace_unproven(t, "replay"))
        wrap_print(stdout, 2, 4, "%s", shown(trace_unproven(t, "replay")));
    if (j)
        json_close(j);
    if (one < 0)
        return EXIT_USAGE;
    if (!answered)
        return complain("whatif: %s", absent_blocks(t, q->o->device));
    return EXIT_GOOD;
}

/* Laws of several recordings: whatif --batch=1..64 a.db:batch=1,seq=512 b.db:batch=2,seq=512 ... */
static int answer_sizes(const struct options *o, char **files, int n)
{
    struct law_request request = o->sizes;
    request.device = o->device;
    request.json = o->json;
    request.bytes = o->bytes;
    if (o->policy)
        return complain("whatif: --policy does not go with --batch and --seq, which answer for all");
    if (o->edits.count)
        return complain("whatif: --edit does not go with --batch and --seq: ask it of one recording");
    int bad = o->capacity ? question_capacity(o->capacity, &request.capacity) : 0;
    return bad ? bad : law_whatif(&request, files, (size_t)n);
}

static int answer_file(struct options *o, char **operands, int n)
{
    struct question q = {.o = o};
    struct trace t;
    if (n > 1 && strchr(operands[0], '=') && access(operands[0], F_OK))
        return complain("whatif: the recording comes first: vramscope whatif %s %s", shown_word(operands[1]),
                        shown_word(operands[0]));
    int status = question_read(&q, operands + 1, n - 1);
    if (status)
        return status;
    if (relabel_open(&t, operands[0], &(struct relabel){.process = o->process, .chosen = true}))
        return complain("%s", t.why);
    if (!o->json)
        wrap_page_begin(false);
    status = answer(&t, &q);
    wrap_page_end();
    trace_close(&t);
    return status;
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    if (n == 0)
        return complain("whatif: name a recording: vramscope whatif run.db");
    if (o->plot)
        return complain(
            "whatif: --plot is gone: vramscope fit -o DIR --max NAME=1..64 -- COMMAND tries sizes, "
            "and vramscope plot draws DIR, and recordings");
    if (o->sizes.batch || o->sizes.seq)
        return answer_sizes(o, operands, n);
    return answer_file(o, operands, n);
}

const struct command command_whatif = {
    "whatif",
    "the recorded blocks under other allocators: what each would hold",
    "[options] FILE [SETTING=VALUE...]",
    "Replays the recorded blocks of PyTorch's allocator under others, and tells what each would have "
    "held of the driver: what was alive (of the recorded sizes no allocator needs less), PyTorch's own, "
    "native and with expandable segments, vramscope's arena, and a packing that knows the run "
    "beforehand. Where the recording was made under one of them, the replay is held against it, address "
    "by address. With --capacity: where each would have run out.\n"
    "Changes of the program are replayed, too: each of a list by itself, or those of --edit, which takes "
    "loss=fused foreach=no optimizer=fused states=bf16|8bit|host gradients=in-backward "
    "set_to_none=yes accumulate=N checkpoint=K[:PATH] batch=X sequence=X types=bf16[,loss=fp32|bf16] "
    "zero=STAGE:RANKS.\n"
    "Settings of PyTorch's: max_split_size=SIZE large_segment_size=SIZE roundup_power2_divisions=N "
    "garbage_collection_threshold=0.8 (needs --capacity).\n"
    "With --batch or --seq give several short recordings, each with its size as run.db:batch=2,seq=512: "
    "it tells what the program would hold at other sizes, and the longest that fits.",
    rows,
    call,
    COMMAND_OPTIONS(.device = UNKNOWN)};
