/* test.c - the list of a program's tests, and the main of those that have none. */
#include "unit/test.h"

#define MAX_TESTS 100

static struct CMUnitTest tests[MAX_TESTS];
static int lines[MAX_TESTS];
static size_t count;

/* Constructors run in any order. */
void add_test(int line, const struct CMUnitTest *test)
{
    if (count == MAX_TESTS)
        abort();
    size_t i = count++;
    for (; i > 0 && lines[i - 1] > line; i--) {
        lines[i] = lines[i - 1];
        tests[i] = tests[i - 1];
    }
    lines[i] = line;
    tests[i] = *test;
}

int run_all_tests(CMFixtureFunction before_all, CMFixtureFunction after_all)
{
    return _cmocka_run_group_tests("tests", tests, count, before_all, after_all);
}

__attribute__((weak)) int main(void)
{
    return run_all_tests(NULL, NULL);
}
