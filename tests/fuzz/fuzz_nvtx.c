/*
 * fuzz_nvtx.c - what a program hands to NVTX: attributes of any claimed size in a buffer of just that size,
 * texts of every kind, handles, ids that were never given out.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "framework/autograd.h"
#include "framework/nvtx_abi.h"
#include "record/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the neighbours ---- */

uint64_t vs_record(struct vs_event *event)
{
    return 1;
}

bool vs_record_start(void)
{
    return true;
}

bool vs_record_enabled(void)
{
    return true;
}

struct vs_journal *vs_record_journal(void)
{
    return NULL;
}

bool vs_record_takes(void)
{
    return true;
}

void vs_journal_count_lost(struct vs_journal *j, uint8_t op) {}

int vs_autograd_task(void)
{
    return -1;
}

/* ---- the program's tables ---- */

int InitializeInjectionNvtx2(nvtx_get_export_table *get);

static nvtx_function *core[CORE_SLOTS], *core2[CORE2_SLOTS];

static int get_table(int module, nvtx_function ****table, unsigned *slots)
{
    static nvtx_function **places[CORE2_SLOTS];
    nvtx_function **of = module == NVTX_CORE ? core : core2;
    *slots = module == NVTX_CORE ? (unsigned)CORE_SLOTS : (unsigned)CORE2_SLOTS;
    for (unsigned i = 0; i < *slots; i++)
        places[i] = &of[i];
    *table = places;
    return 1;
}

static const void *get_callbacks(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof callbacks, get_table};
    return &callbacks;
}

typedef void *string_fn(void *domain, const char *text);
typedef int push_fn(const void *a);
typedef uint64_t start_fn(const void *a);
typedef void mark_fn(const void *a);
typedef void end_fn(uint64_t id);
typedef int pop_fn(void);

/* Attributes in memory of the size that they claim, with a text of the kind that they claim. */
static void *attributes(const uint8_t *data, size_t size, uint16_t claimed, void **text)
{
    size_t room = claimed < 4 ? 4 : claimed;
    uint8_t *a = calloc(1, room);
    memcpy(a + 4, data, room - 4 < size ? room - 4 : size);
    memcpy(a + 2, &claimed, 2);
    *text = NULL;
    if (room < sizeof(struct nvtx_attributes))
        return a;
    struct nvtx_attributes *whole = (void *)a;
    whole->text_type %= 5;
    if (whole->text_type == NVTX_TEXT_REGISTERED) {
        whole->text.registered = size % 3 == 2 ? *text = malloc(64) /* not ours */
                                 : size % 3 == 1
                                     ? ((string_fn *)(void *)core2[CORE2_STRING_A])(NULL, "registered")
                                     : NULL;
    } else {
        size_t n = size / sizeof(wchar_t) * sizeof(wchar_t);
        *text = calloc(1, n + sizeof(wchar_t));
        memcpy(*text, data, n);
        whole->text.ascii = *text;
    }
    return a;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint16_t claimed;
    uint64_t id;
    void *text;
    if (size < 4)
        return 0;
    memcpy(&claimed, data, 2);
    claimed %= 600;
    if (core[CORE_PUSH_EX] == NULL)
        InitializeInjectionNvtx2(get_callbacks);
    void *a = attributes(data + 3, size - 3, claimed, &text);
    ((push_fn *)(void *)core[CORE_PUSH_EX])(data[2] & 2 ? NULL : a);
    ((mark_fn *)(void *)core[CORE_MARK_EX])(a);
    id = ((start_fn *)(void *)core[CORE_START_EX])(a);
    ((end_fn *)(void *)core[CORE_END])(data[2] & 4 ? id : id + 1);
    memcpy(&id, data, 4);
    ((end_fn *)(void *)core[CORE_END])(id);
    ((pop_fn *)(void *)core[CORE_POP])();
    if (data[2] & 8)
        ((pop_fn *)(void *)core[CORE_POP])();
    free(text);
    free(a);
    return 0;
}
