/*
 * test_range_layers.c - the layer of a place in the program: the path of the ranges that are open, or the
 * module whose call is, in each thread and in backward (layers.c).
 */
#include <stdio.h>

#include "framework/layers.h"

#include "ranges_kit.h"

static const char *layer(bool backward)
{
    uint32_t number = vs_layer_here(backward);
    return number ? strings[vs_layer_frame((struct vs_journal *)log_, number)] : "";
}

TEST(a_layer_is_the_path_of_the_ranges_that_are_open, setup)
{
    assert_string_equal(layer(false), "");
    vs_range_push("step", NULL, MARKER);
    vs_range_push("forward", NULL, AUTO); /* a phase, and no part of it */
    vs_range_push("layer 3", "torch", NVTX);
    vs_range_push("attn", NULL, MARKER);
    assert_string_equal(layer(false), "step/layer 3/attn");
    vs_range_pop("torch", NVTX); /* domains interleave: what opened in it keeps its path */
    assert_string_equal(layer(false), "step/layer 3/attn");
    vs_range_pop(NULL, MARKER);
    assert_string_equal(layer(false), "step");
    vs_range_pop(NULL, AUTO);
    vs_range_push("attn", NULL, MARKER);
    assert_string_equal(layer(false), "step/attn");
    vs_range_pop(NULL, MARKER);
    vs_range_pop(NULL, MARKER);
    assert_string_equal(layer(false), "");
}

TEST(a_modules_call_is_the_layer_and_ranges_inside_of_it_go_on_from_it, setup)
{
    uint32_t module = vs_layer_of_module("Net.layers.3", "Block"),
             inner = vs_layer_of_module("Net.layers.3.mlp", "MLP");
    vs_range_push("step", NULL, MARKER);
    vs_layer_now.module = module;
    assert_string_equal(layer(false), "Net.layers.3");
    vs_range_push("softmax", NULL, NVTX);
    assert_string_equal(layer(false), "Net.layers.3/softmax");
    vs_layer_now.module = inner;
    assert_string_equal(layer(false), "Net.layers.3.mlp");
    vs_layer_now.module = 0; /* both calls ended, the range did not: it is of neither */
    assert_string_equal(layer(false), "");
    vs_range_pop(NULL, NVTX);
    assert_string_equal(layer(false), "step");
    vs_range_pop(NULL, MARKER);
}

TEST(in_backward_only_what_opened_in_the_same_run_counts, setup)
{
    vs_range_push("loop", NULL, MARKER);
    task = 4;
    assert_string_equal(layer(true), "");
    vs_range_push("hook", NULL, MARKER);
    assert_string_equal(layer(true), "loop/hook");
    task = 5; /* a backward inside of that one */
    assert_string_equal(layer(true), "");
    task = 4;
    vs_range_pop(NULL, MARKER);
    vs_layer_now.module = vs_layer_of_module("Net", "Net"); /* recomputed */
    assert_string_equal(layer(true), "Net");
    vs_layer_now.module = 0;
    task = -1;
    vs_range_pop(NULL, MARKER);
}

static void *in_own_thread(void *arg)
{
    assert_string_equal(layer(false), "");
    vs_range_push("worker", NULL, MARKER);
    assert_string_equal(layer(false), "worker");
    return NULL;
}

TEST(a_threads_layers_are_its_own, setup)
{
    pthread_t thread;
    vs_range_push("main", NULL, MARKER);
    pthread_create(&thread, NULL, in_own_thread, NULL);
    pthread_join(thread, NULL);
    assert_string_equal(layer(false), "main");
    vs_range_pop(NULL, MARKER);
}

TEST(layers_beyond_their_bound_are_those_around_them, setup)
{
    char name[16];
    uint32_t last = 1;
    for (int i = 0; i < 70000 && last; i++) {
        snprintf(name, sizeof name, "m%d", i);
        last = vs_layer_of_module(name, "M");
    }
    assert_int_equal(last, 0);
    vs_range_push("step", NULL, MARKER); /* was there before */
    vs_range_push("new", NULL, MARKER);
    assert_string_equal(layer(false), "step");
    vs_range_pop(NULL, MARKER);
    vs_range_pop(NULL, MARKER);
}

int main(void)
{
    vs_ranges_init();
    return run_all_tests(NULL, NULL);
}
