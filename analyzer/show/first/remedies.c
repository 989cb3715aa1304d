/* remedies.c - see remedies.h. */
#include "first.h"

#include <stdlib.h>

#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"

#define ROWS 6

/* What a person writes; the caller frees it. */
static char *how(const struct edit *e)
{
    switch (e->what) {
    case EDIT_LOSS:
        return xstrdup("vramscope.patch_loss(model)");
    case EDIT_FOREACH:
        return xstrdup("the optimizer with foreach=False");
    case EDIT_OPTIMIZER:
        return xstrdup("the optimizer with fused=True");
    case EDIT_STATES:
        return xformat("the optimizer's states %s", e->n == STATES_HOST   ? "on the host"
                                                    : e->n == STATES_8BIT ? "in 8 bits"
                                                                          : "in bfloat16");
    case EDIT_GRADIENTS:
        return xstrdup("update in backward");
    case EDIT_SET_TO_NONE:
        return xstrdup("zero_grad(set_to_none=True)");
    case EDIT_CHECKPOINT:
        return e->n == 1 ? xstrdup("recompute each layer")
                         : xformat("recompute every %lld%s layer", (long long)e->n,
                                   e->n == 2   ? "nd"
                                   : e->n == 3 ? "rd"
                                               : "th");
    case EDIT_BATCH:
        return e->factor == 0.5 ? xstrdup("half the samples") : xformat("%g times the samples", e->factor);
    default:
        return xstrdup("");
    }
}

static void row(struct table *table, const struct remedy *r, bool exact)
{
    char *words = r->edit.text && !r->and.text ? how(&r->edit) : xstrdup("");
    table_cell(table, "%s%s%s", r->name, *words ? ": " : "", words);
    if (r->not_made)
        table_cell(table, "request gone");
    else
        table_cell(table, "%s", units_bytes(r->then, exact).s);
    table_cell(table, "%s",
               !r->edit.text ? "no code change"
               : r->and.text ? "both"
                             : edit_brief_cost(&r->edit));
    free(words);
}

/* No other allocator helps; of changes none does, or nothing is known. */
static void nothing(const struct trace *t, const struct remedies *r, bool refused, FILE *out)
{
    const char *what =
        refused ? "have let this request pass with a margin" : "lower what is reserved by 2 % or more";
    if (r->why && !r->events)
        wrap_print(out, 4, 6, "which setting or change would %s is not known: %s", what, r->why);
    else if (r->why)
        wrap_print(
            out, 4, 6,
            "neither PyTorch's other allocator nor vramscope's arena would %s; changes of the program were "
            "not tried: %s",
            what, r->why);
    else if (r->events)
        wrap_print(
            out, 4, 6,
            "neither PyTorch's other allocator, nor vramscope's arena, nor a change of the program that "
            "vramscope tries would %s (all of them: vramscope whatif %s)",
            what, shown_word(t->path));
}

void first_remedies_text(const struct trace *t, const struct remedies *r, bool refused, FILE *out, bool exact)
{
    const char *header[] = {refused ? "would have let it pass" : "would lower what is reserved",
                            refused ? "left then" : "to at most", "costs"};
    struct table table;
    if (!r->count) {
        nothing(t, r, refused, out);
        return;
    }
    table_init(&table, "<><", header);
    for (size_t i = 0; i < r->count && i < ROWS; i++)
        row(&table, &r->rows[i], exact);
    table_print(&table, out, 2);
    table_free(&table);
    if (refused)
        fputs("  left then: the largest request that passes next; what comes later is unknown\n", out);
    else
        fprintf(out, "  of the part that is the allocator's, %s%s; each row is a replay\n",
                units_bytes(r->now, exact).s, r->replayed ? " as replayed" : "");
    if (r->count > ROWS)
        fprintf(out, "  %s, and what each assumes: vramscope whatif --why %s\n",
                units_count((int64_t)(r->count - ROWS), "more row").s, shown_word(t->path));
    else
        fprintf(out, "  what each assumes: vramscope whatif --why %s\n", shown_word(t->path));
}
