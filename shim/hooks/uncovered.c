/*
 * uncovered.c - reports ways past the hooks, each once: a row of the database's table `loss`, without a
 * number of events, which cannot be known.
 *
 * Kept here until there is a journal, and handed to it as facts: so those of a killed process are not lost.
 * No lock, no allocation.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "hooks/loader/loader.h"
#include "record/record.h"
#include "trace/journal/journal.h"

struct note {
    _Atomic int state; /* 0 free, 1 being written, 2 there */
    char text[240];
};
static struct note notes[VS_UNCOVERED_FACTS];

void vs_uncovered_to_journal(void)
{
    char key[24];
    struct vs_journal *j = vs_record_journal();
    for (int i = 0; j != NULL && i < VS_UNCOVERED_FACTS; i++) {
        /* acquire: pairs with the release in put() */
        if (atomic_load_explicit(&notes[i].state, memory_order_acquire) != 2)
            continue;
        snprintf(key, sizeof key, VS_UNCOVERED_FACT, i);
        vs_journal_set_fact(j, key, notes[i].text);
    }
}

/* A second thread that says the same at the same moment makes a second line: no harm. */
static void put(const char *text)
{
    for (size_t i = 0; i < VS_UNCOVERED_FACTS; i++) {
        int none = 0;
        if (atomic_load_explicit(&notes[i].state, memory_order_acquire) == 2 &&
            strcmp(notes[i].text, text) == 0)
            return;
        if (!atomic_compare_exchange_strong_explicit(&notes[i].state, &none, 1, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        snprintf(notes[i].text, sizeof notes[i].text, "%s", text);
        atomic_store_explicit(&notes[i].state, 2, memory_order_release);
        vs_uncovered_to_journal();
        return;
    }
}

void vs_uncovered(const char *format, ...)
{
    char text[sizeof notes[0].text];
    int saved = errno;
    va_list args;
    size_t n = (size_t)snprintf(text, sizeof text, "not covered: ");
    va_start(args, format);
    vsnprintf(text + n, sizeof text - n, format, args);
    va_end(args);
    put(text);
    errno = saved;
}

static const char *referred[VS_UNCOVERED_FACTS];
static size_t referred_count;

void vs_uncovered_reference(const char *name)
{
    for (size_t i = 0; i < referred_count; i++)
        if (strcmp(referred[i], name) == 0)
            return;
    if (referred_count < VS_UNCOVERED_FACTS)
        referred[referred_count++] = name;
}

void vs_uncovered_references(void)
{
    for (size_t i = 0; i < referred_count; i++)
        if (vs_cuda_real(referred[i]) != NULL)
            vs_uncovered(VS_UNCOVERED_REFERRED, referred[i]);
}

void vs_uncovered_driver(const void *found)
{
    struct vs_loaded object;
    if (vs_driver_owns(found) || !vs_loaded_at(found, &object) || !object.is_driver)
        return;
    vs_uncovered("a second CUDA driver in the process, %.180s", object.name);
}
