/* test_unpickle.c - the unpickler: what makes data is read, what would run code is refused by name, and no
 * input takes more than it is allowed. */

#include "unit/test.h"
#include "import/unpickle.h"

static struct pickle *p;
static struct pickle_value root;
static char why[256];

static int reads(const char *bytes, size_t n)
{
    *why = '\0';
    p = NULL;
    return unpickle_read(&p, bytes, n, 4 << 20, &root, why, sizeof why);
}
#define READS(bytes) reads(bytes, sizeof bytes - 1)

static void refused(const char *bytes, size_t n, const char *text)
{
    assert_int_equal(reads(bytes, n), -1);
    if (!strstr(why, text))
        fail_msg("'%s' does not say '%s'", why, text);
}
#define REFUSED(bytes, text) refused(bytes, sizeof bytes - 1, text)

TEST(test_numbers_of_every_width)
{
    assert_int_equal(
        READS("\x80\x02](K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\x01\x80\x8a\x02\x80\x00\x8a\x00"
              "\x8a\x07\xff\xff\xff\xff\xff\xff\x7fG\x3f\xf8\x00\x00\x00\x00\x00\x00\x88\x89Ne."),
        0);
    const int64_t wanted[] = {255, 65535, -1, -128, 128, 0, 0x7fffffffffffff};
    assert_int_equal(unpickle_items(&root), 11);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(unpickle_int(unpickle_item(&root, i), 7), wanted[i]);
    assert_true(unpickle_item(&root, 7)->real == 1.5);
    assert_int_equal(unpickle_int(unpickle_item(&root, 8), 7), 1);
    assert_int_equal(unpickle_int(unpickle_item(&root, 9), 7), 0);
    assert_int_equal(unpickle_int(unpickle_item(&root, 10), 7), 7); /* None */
    unpickle_free(p);
}

TEST(test_what_the_memo_keeps_is_one_object)
{
    assert_int_equal(READS("\x80\x04}\x94(\x8c\x01"
                           "a]\x94(K\x01K\x02"
                           "e\x8c\x01"
                           "bh\x01\x8c\x01"
                           "cK\x05\x86u."),
                     -1);
    assert_int_equal(READS("\x80\x04}\x94(\x8c\x01"
                           "a]\x94(K\x01K\x02"
                           "e\x8c\x01"
                           "bh\x01\x8c\x01"
                           "cK\x05K\x06\x86u."),
                     0);
    assert_ptr_equal(unpickle_get(&root, "a")->object, unpickle_get(&root, "b")->object);
    assert_int_equal(unpickle_items(unpickle_get(&root, "a")), 2);
    assert_int_equal(unpickle_items(unpickle_get(&root, "c")), 2);
    assert_null(unpickle_get(&root, "d"));
    assert_true(unpickle_is(&root.object->at[0], "a"));
    unpickle_free(p);
}

TEST(test_code_is_refused_by_name)
{
    REFUSED("\x80\x02"
            "cos\nsystem\n.",
            "GLOBAL");
    REFUSED("\x80\x04\x8c\x02os\x8c\x06system\x93.", "GLOBAL");
    REFUSED("\x80\x02NNR.", "REDUCE");
    REFUSED("\x80\x02NNb.", "BUILD");
    REFUSED("\x80\x02NN\x81.", "NEWOBJ");
    REFUSED("\x80\x02NQ.", "PERSID");
    REFUSED("\x80\x02\x82\x01.", "EXT");
    REFUSED("\x80\x05\x97.", "NEXT_BUFFER");
}

TEST(test_damage_is_said_and_never_followed)
{
    REFUSED("", "is not a pickle");
    REFUSED("\x80", "is not a pickle");
    REFUSED("\x80\x07N.", "protocol 7");
    REFUSED("\x80\x02", "truncated");
    REFUSED("\x80\x02X\xff\xff\xff\xffx.", "truncated");
    REFUSED("\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xffx.", "truncated");
    REFUSED("\x80\x02.", "other than one value");
    REFUSED("\x80\x02NN.", "other than one value");
    REFUSED("\x80\x02(N.", "other than one value");
    REFUSED("\x80\x02"
            "e.",
            "needs a mark");
    REFUSED("\x80\x02(e.", "cannot hold");
    REFUSED("\x80\x02Na.", "cannot hold");
    REFUSED("\x80\x02NNNs.", "cannot hold");
    REFUSED("\x80\x02}(Nu.", "cannot hold");
    REFUSED("\x80\x02](\x85.", "fewer items");
    REFUSED("\x80\x02h\x00.", "never set");
    REFUSED("\x80\x02Nr\xff\xff\xff\x7f.", "memo number is beyond");
    REFUSED("\x80\x02I1\n.", "protocol 0 or 1");
    REFUSED("\x80\x02\xff.", "no such opcode");
}

TEST(test_memory_is_bounded_and_nesting_is_not_recursion)
{
    enum { DEEP = 1000000 };
    char *deep = malloc(DEEP + 8);
    memset(deep, ']', DEEP);
    memcpy(deep, "\x80\x04", 2);
    refused(deep, DEEP, "takes more than 4 MiB");
    memset(deep + 2, '(', DEEP - 2);
    refused(deep, DEEP, "takes more than 4 MiB");
    /* a list in a list in a list ... */
    memset(deep + 2, ']', 1000);
    memset(deep + 1002, 'a', 999);
    deep[2001] = '.';
    assert_int_equal(reads(deep, 2002), 0);
    unpickle_free(p);
    free(deep);
    /* one that holds itself */
    assert_int_equal(READS("\x80\x04]\x94h\x00"
                           "a."),
                     0);
    assert_ptr_equal(unpickle_item(&root, 0)->object, root.object);
    unpickle_free(p);
}
