/*
 * source_loss.c - what a line of Python gives a loss (source.h).
 *
 *      loss = F.cross_entropy(out.flatten(0, 1).float(), y)
 *
 *      logits = net(x).float()
 *      loss = criterion(logits.view(-1, n), y)
 *
 * A loss is given the first argument of its call, as in the first of these.  Where that is a name, as in the
 * second, the last statement that assigns to the name is read, if it ran for certain.  The answer is fp32 or
 * nothing: where no line asks for fp32, the model may still have returned it.
 */
#include <string.h>

#include "source.h"
#include "source_text.h"

static const char *const ways[] = {".float()", ".to(torch.float32)", ".to(dtype=torch.float32)"};

#define WAYS (sizeof ways / sizeof *ways)

/* The name before the parenthesis at OPEN, in the text from FROM on; empty where none stands there. */
static struct text_part name_before(const char *from, const char *open)
{
    struct text_part name = {open, open};
    while (name.from > from && text_is_word(name.from[-1]))
        name.from--;
    return name;
}

/* Whether NAME is of a loss: PyTorch's FUNCTION, or what people call a module that computes one. */
static bool is_loss_name(struct text_part name, const char *function)
{
    size_t n = (size_t)(name.to - name.from);
    char word[64] = {0};
    if (!n || n >= sizeof word)
        return false;
    memcpy(word, name.from, n);
    return !strcmp(word, function) || strcasestr(word, "loss") || strcasestr(word, "criterion") ||
           strcasestr(word, "entropy");
}

/* What follows the parenthesis of the only call of a loss in P; NULL: there is none, or several, or a class,
 * whose arguments are not those of the loss: "CrossEntropyLoss(weight.float())(out, y)". */
static const char *only_call(struct text_part p, const char *function)
{
    const char *found = NULL;
    for (const char *at = p.from; (at = memchr(at, '(', (size_t)(p.to - at))); at++) {
        struct text_part name = name_before(p.from, at);
        if (!is_loss_name(name, function))
            continue;
        if (found || isupper((unsigned char)*name.from))
            return NULL;
        found = at + 1;
    }
    return found;
}

/* The argument that begins at FROM: up to a comma, or to the parenthesis that closes the call. */
static struct text_part first_argument(const char *from, const char *to)
{
    int depth = 0;
    const char *at = from;
    for (; at < to && depth >= 0; at++) {
        if (!depth && *at == ',')
            break;
        depth += strchr("([{", *at) ? 1 : strchr(")]}", *at) ? -1 : 0;
    }
    struct text_part p = {from + strspn(from, " \t\n"), depth < 0 ? at - 1 : at};
    if (p.to - p.from > 6 && !strncmp(p.from, "input=", 6))
        p.from += 6;
    while (p.to > p.from && strchr(" \t\n", p.to[-1]))
        p.to--;
    return p;
}

/* Losses whose input and target may be swapped.  Code does swap them, so an argument in fp32 may be the
 * target: only if both are fp32, the input is. */
static bool is_symmetric(const char *function)
{
    static const char *const names[] = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(function, names[i]))
            return true;
    return false;
}

/* The last conversion to fp32 in P, outside of all parentheses; NULL: there is none. */
static const char *widens_at(struct text_part p)
{
    const char *found = NULL;
    int depth = 0;
    for (const char *at = p.from; at < p.to; at++) {
        for (size_t i = 0; i < WAYS && !depth; i++)
            if ((size_t)(p.to - at) >= strlen(ways[i]) && !strncmp(at, ways[i], strlen(ways[i])))
                found = at;
        depth += strchr("([{", *at) ? 1 : strchr(")]}", *at) ? -1 : 0;
    }
    return found;
}

/* Whether P is free of strings and comments, which are not read, and of conditions. */
static bool is_plain(struct text_part p)
{
    return p.to > p.from && !memchr(p.from, '#', (size_t)(p.to - p.from)) &&
           !memchr(p.from, '"', (size_t)(p.to - p.from)) && !memchr(p.from, '\'', (size_t)(p.to - p.from)) &&
           !text_has_word(p, "if") && !text_has_word(p, "else") && !text_has_word(p, "lambda");
}

/* Whether P is a chain of attributes, calls and indices alone, as "x[0].view(-1, n)" is. */
static bool is_chain(struct text_part p)
{
    int depth = 0;
    for (const char *at = p.from; at < p.to; at++) {
        depth += strchr("([{", *at) ? 1 : 0;
        if (!depth && !text_is_word(*at) && *at != '.')
            return false;
        depth -= strchr(")]}", *at) ? 1 : 0;
    }
    return true;
}

/* What follows the parenthesis that closes the one at FROM; TO: none closes it. */
static const char *closing(const char *from, const char *to)
{
    int depth = 0;
    for (; from < to; from++) {
        depth += strchr("([{", *from) ? 1 : strchr(")]}", *from) ? -1 : 0;
        if (!depth)
            return from + 1;
    }
    return to;
}

/* Whether P, which follows an expression, changes nothing but a shape: ".view(-1, n)[0]".  "(x)" is no such
 * P: what is called is a model and no tensor. */
static bool only_shapes(struct text_part p)
{
    static const char *const names[] = {"view",      "reshape", "flatten",   "squeeze",
                                        "unsqueeze", "permute", "transpose", "contiguous"};
    while (p.from < p.to) {
        size_t n = 0, i = 0;
        if (*p.from == '[') {
            p.from = closing(p.from, p.to);
            continue;
        }
        while (*p.from == '.' && p.from + n + 1 < p.to && text_is_word(p.from[n + 1]))
            n++;
        while (i < sizeof names / sizeof *names &&
               (strlen(names[i]) != n || strncmp(p.from + 1, names[i], n) != 0))
            i++;
        if (i == sizeof names / sizeof *names || p.from[n + 1] != '(')
            return false;
        const char *end = closing(p.from + n + 1, p.to);
        if (text_has((struct text_part){p.from, end}, "torch") ||
            text_has((struct text_part){p.from, end}, "dtype"))
            return false; /* view(torch.int16) changes the type */
        p.from = end;
    }
    return true;
}

/* Whether the value of P is fp32: only changes of shape follow its last conversion. */
static bool ends_wide(struct text_part p)
{
    const char *at = is_plain(p) && is_chain(p) ? widens_at(p) : NULL;
    if (!at)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < WAYS; i++)
        n = strncmp(at, ways[i], strlen(ways[i])) ? n : strlen(ways[i]);
    return only_shapes((struct text_part){at + n, p.to});
}

/* ---- a name ---- */

/* The first equals sign of an assignment in LINE, outside of parentheses; NULL: there is none. */
static const char *assigns_at(struct text_part line)
{
    int depth = 0;
    for (const char *at = line.from; at + 1 < line.to; at++) {
        depth += strchr("([{", *at) ? 1 : strchr(")]}", *at) ? -1 : 0;
        if (!depth && *at == '=' && at[1] != '=' && at > line.from && !strchr("=!<>:", at[-1]))
            return at;
    }
    return NULL;
}

/* Whether LINE assigns to NAME, also after another target or statement: "a = out = net(x)". */
static bool assigns_to(struct text_part line, const char *name)
{
    const char *equals;
    for (struct text_part rest = line; (equals = assigns_at(rest)); rest.from = equals + 1)
        if (text_has_word((struct text_part){line.from, equals}, name))
            return true;
    return false;
}

/* Whether LINE may have lines of other statements at its end: a parenthesis in a string, which counts as one,
 * may have hidden where it ends. */
static bool may_end_before(struct text_part line)
{
    size_t n = (size_t)(line.to - line.from), first = (size_t)(strchrnul(line.from, '\n') - line.from) + 1;
    return first < n && (memchr(line.from, '"', n) || memchr(line.from, '\'', n));
}

/* Whether NAME may be something else after LINE. */
static bool may_change(struct text_part line, const char *name)
{
    static const char *const others[] = {"for", "with", "del", "as", "global", "nonlocal"};
    bool other = may_end_before(line) || memmem(line.from, (size_t)(line.to - line.from), ":=", 2) != NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        other = other || text_has_word(line, others[i]);
    return (other && text_has_word(line, name)) || assigns_to(line, name);
}

/* Whether LINE is "NAME = ...", and nothing before that; RIGHT gets its right side. */
static bool is_assignment(struct text_part line, const char *name, struct text_part *right)
{
    size_t n = strlen(name);
    const char *at = line.from + text_indent(line.from), *equals = assigns_at(line);
    if (!equals || strncmp(at, name, n) != 0 || at + n + 1 != equals || at[n] != ' ')
        return false;
    *right = (struct text_part){equals + 1 + strspn(equals + 1, " "), line.to};
    while (right->to > right->from && strchr(" \t\r\n", right->to[-1]))
        right->to--;
    return true;
}

/* Whether NAME is fp32 at the line AT of a function whose statements begin at BODY: the last statement that
 * assigns to it makes it so, and has run whenever AT is reached. */
static bool is_made_wide(const char *body, const char *at, const char *name)
{
    bool wide = false;
    size_t indent = 0;
    for (const char *line = body; line < at;) {
        struct text_part p = text_statement(line), right;
        size_t here = text_indent(line);
        if (!text_is_blank(line)) {
            wide = wide && here >= indent; /* else it was in a block that may not have run */
            if (is_assignment(p, name, &right)) {
                wide = ends_wide(right);
                indent = here;
            } else if (may_change(p, name)) {
                wide = false;
            }
            wide = wide && p.to <= at; /* else it may have hidden a change, or is AT's own statement */
        }
        line = p.to > line ? p.to : at;
    }
    return wide && text_indent(at) == indent; /* deeper, AT may be in a loop that assigns to it later */
}

enum source_says source_says_of_loss(const char *text, int64_t line, const char *caller, const char *function)
{
    const char *at = line > 0 ? text_line(text, line) : NULL, *dot = strrchr(caller, '.');
    struct text_part statement = at && *at ? text_statement(at) : (struct text_part){text, text};
    const char *call = only_call(statement, function);
    struct text_part given = call ? first_argument(call, statement.to) : (struct text_part){text, text};
    const char *comma = given.to + strspn(given.to, " \t\n");
    if (!call || !is_plain(given) || text_has_word(statement, "if") || text_has_word(statement, "lambda"))
        return SOURCE_UNKNOWN;
    if (comma >= statement.to || *comma != ',') /* without a target it takes a loss: "log_loss(...)" */
        return SOURCE_UNKNOWN;
    if (is_symmetric(function))
        return ends_wide(given) && ends_wide(first_argument(comma + 1, statement.to)) ? SOURCE_FP32
                                                                                      : SOURCE_UNKNOWN;
    if (ends_wide(given))
        return SOURCE_FP32;
    char name[64] = {0};
    size_t n = 0;
    while (given.from + n < given.to && text_is_word(given.from[n]) && n + 1 < sizeof name)
        n++;
    memcpy(name, given.from, n);
    const char *def = text_function(text, at, dot ? dot + 1 : caller);
    if (!n || !def || !only_shapes((struct text_part){given.from + n, given.to}))
        return SOURCE_UNKNOWN;
    return is_made_wide(text_statement(def).to, at, name) ? SOURCE_FP32 : SOURCE_UNKNOWN;
}
