/*
 * test.h - what the unit tests are made of.
 *
 *      TEST(NAME)                    a test, called by what it shows: its body follows; `state` is cmocka's
 *      TEST(NAME, before, after)     the same with functions around it, NULL for none
 *
 * All tests of a program run in the order of their lines, unless it has a main of its own with
 * run_all_tests() in it.
 */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST(...) TEST_(__VA_ARGS__, NULL, NULL, NULL)
#define TEST_(name, before, after, ...)                                                                      \
    static void name(void **state);                                                                          \
    __attribute__((constructor)) static void name##_is_a_test(void)                                          \
    {                                                                                                        \
        add_test(__LINE__, &(struct CMUnitTest){#name, name, before, after, NULL});                          \
    }                                                                                                        \
    static void name(void **state)

void add_test(int line, const struct CMUnitTest *test);
int run_all_tests(CMFixtureFunction before_all, CMFixtureFunction after_all);

#endif
