/*
 * fuzz_phases.c - VRAMSCOPE_PHASES, and the patterns in it against a name: the first line is the rules, the
 * rest the name.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "framework/glob.h"
#include "framework/names.h"
#include "record/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct vs_journal *vs_record_journal(void)
{
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    size_t rules = end ? (size_t)(end - data) : size, name = end ? size - rules - 1 : 0;
    /* copies of exactly their size, so that a byte too many is seen */
    char *text = malloc(rules + 1), *of = malloc(name + 1);
    memcpy(text, data, rules);
    text[rules] = 0;
    memcpy(of, end ? (const void *)(end + 1) : data, name);
    int count = vs_names_set_rules(text);
    if (count < -1 - (int)rules || count > (int)rules)
        abort();
    char *exact = malloc(rules ? rules : 1);
    memcpy(exact, text, rules);
    if (rules < 64 && name < 256) /* many stars take long: not in a process that has no such rules */
        vs_glob(exact, rules, of, name);
    struct vs_name *n = vs_name_intern(of, name);
    if (n && n->length != (name > VS_NAME_MAX ? VS_NAME_MAX : name))
        abort();
    if (n && rules < 64 && name < 256)
        vs_name_phase(n);
    vs_names_set_rules("");
    free(exact);
    free(text);
    free(of);
    return 0;
}
