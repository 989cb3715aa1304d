/* test_limits.c - limits as they are written, what they mean, and when they are kept. */

#include "unit/test.h"
#include "analysis/limits.h"
#include "base/units.h"

#define GiB (INT64_C(1) << 30)

static struct limit parsed(const char *text)
{
    struct limit l;
    char why[256] = "";
    if (limit_parse(&l, text, why, sizeof why))
        fail_msg("%s: %s", text, why);
    return l;
}

static void refused(const char *text, const char *reason)
{
    struct limit l;
    char why[256] = "";
    assert_int_equal(limit_parse(&l, text, why, sizeof why), -1);
    if (!strstr(why, reason))
        fail_msg("%s: '%s' does not say '%s'", text, why, reason);
    limit_free(&l);
}

TEST(amounts_are_read_in_units_of_1024_and_of_1000)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"20GiB", 20 * GiB},   {"1.5 GiB", 3 * GiB / 2}, {"512M", 512 << 20}, {"2k", 2048},
                {"20GB", 20000000000}, {"4096", 4096},           {"7 B", 7},          {"0", 0},
                {"20gib", 20 * GiB},   {"80gb", 80000000000},    {"3 Mb", 3000000},   {"2t", 2048 * GiB}};
    static const char *const bad[] = {"",        "GiB",  "20 gigs", "-1GiB", "nan",
                                      "1e30TiB", "2 Gi", "3GiBs",   "4G iB"};
    int64_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(units_read_bytes(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (units_read_bytes(bad[i], &bytes))
            fail_msg("'%s' was read as %lld", bad[i], (long long)bytes);
}

TEST(a_line_may_have_a_colon_and_a_name_a_comma)
{
    struct limit l = parsed("line=src/train.py:41,device=1,rank=3:2GiB");
    assert_string_equal(l.line, "src/train.py:41");
    assert_int_equal(l.device, 1);
    assert_int_equal(l.rank, 3);
    assert_int_equal(l.bytes, 2 * GiB);
    limit_free(&l);
    l = parsed("phase=step 1, warm:1GiB");
    assert_string_equal(l.phase, "step 1, warm");
    limit_free(&l);
    l = parsed("reserved:1GiB");
    assert_true(l.reserved && !limit_is_held(&l));
    assert_string_equal(l.words, "peak reserved");
    limit_free(&l);
    l = parsed("layer=a.b,born=backward:1GiB");
    assert_true(limit_is_held(&l));
    assert_string_equal(l.words, "held by layer a.b, made in backward");
    limit_free(&l);
    l = parsed("role=logits,made=logits:1GiB"); /* a role's former word, and what born= is now */
    assert_string_equal(l.words, "held by role output, made in logits");
    limit_free(&l);
}

TEST(what_is_no_limit_is_said)
{
    refused("20GiB", "is no limit");
    refused("phase=logits", "is no limit");
    refused("phase=logits:much", "is no limit");
    refused(":4GiB", "does not say of what");
    refused("logits:4GiB", "'logits' is none of allocated");
    refused("phase=:4GiB", "phase= takes a name");
    refused("device=first:4GiB", "device= takes a number");
    refused("phase=logits,layer=head:4GiB", "phase= is about all that was allocated");
    refused("reserved,line=a.py:4GiB", "reserved is about all that was reserved");
}

TEST(a_line_is_met_by_its_end_and_a_layer_by_what_lies_in_it)
{
    const char *line = "/home/ada/src/train.py:41 train",
               *backward = "forward: /home/ada/src/train.py:41 train";
    assert_true(limit_meets_line("train.py", line));
    assert_true(limit_meets_line("src/train.py:41", line));
    assert_true(limit_meets_line("train.py:41 train", line));
    assert_true(limit_meets_line("/home/ada/src/train.py", line));
    assert_true(limit_meets_line("train.py:41", backward));
    assert_true(limit_meets_line("forward: train.py:41", backward));
    assert_false(limit_meets_line("forward: train.py:41", line));
    assert_false(limit_meets_line("train.py:4", line));
    assert_false(limit_meets_line("rain.py", line));
    assert_false(limit_meets_line("train", line));
    assert_true(limit_meets_layer("Llama.layers.0", "Llama.layers.0.mlp"));
    assert_true(limit_meets_layer("layers.0", "Llama.layers.0"));
    assert_true(limit_meets_layer("attn", "step/forward/attn"));
    assert_false(limit_meets_layer("layers.1", "Llama.layers.10"));
    assert_false(limit_meets_layer("ayers.1", "Llama.layers.1"));
    assert_false(limit_meets_layer("mlp.up", "mlp"));
}

TEST(a_limit_is_kept_only_where_every_possible_figure_keeps_it)
{
    struct measured exact = {10, 10, 10}, more = {10, 10, NO_BOUND}, less = {10, 0, 10},
                    between = {10, 5, 20};
    assert_int_equal(limit_verdict(&exact, 10, 10), VERDICT_WITHIN);
    assert_int_equal(limit_verdict(&exact, 9, 9), VERDICT_BEYOND);
    assert_int_equal(limit_verdict(&more, 10, 10), VERDICT_UNTOLD); /* events were lost */
    assert_int_equal(limit_verdict(&more, INT64_MAX, INT64_MAX), VERDICT_UNTOLD);
    assert_int_equal(limit_verdict(&more, 9, 9), VERDICT_BEYOND);
    assert_int_equal(limit_verdict(&less, 10, 10), VERDICT_WITHIN); /* frees were lost */
    assert_int_equal(limit_verdict(&less, 9, 9), VERDICT_UNTOLD);
    assert_int_equal(limit_verdict(&between, 20, 30), VERDICT_WITHIN); /* the other run is in doubt, too */
    assert_int_equal(limit_verdict(&between, 3, 4), VERDICT_BEYOND);
    assert_int_equal(limit_verdict(&between, 4, 30), VERDICT_UNTOLD);
}

TEST(tolerance_is_a_share_or_an_amount)
{
    struct tolerance t;
    assert_true(tolerance_parse(&t, "1%"));
    assert_int_equal(tolerance_limit(&t, 1000), 1010);
    assert_true(tolerance_parse(&t, "0.5 %"));
    assert_int_equal(tolerance_limit(&t, 1000), 1005);
    assert_true(tolerance_parse(&t, "1KiB"));
    assert_int_equal(tolerance_limit(&t, 1000), 2024);
    assert_true(tolerance_parse(&t, "0"));
    assert_int_equal(tolerance_limit(&t, INT64_C(151397597184)), INT64_C(151397597184));
    assert_false(tolerance_parse(&t, "one"));
    assert_false(tolerance_parse(&t, "-1%"));
    assert_false(tolerance_parse(&t, "%"));
}
