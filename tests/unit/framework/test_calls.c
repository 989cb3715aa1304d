/*
 * test_calls.c - which calls of modules go past the wrapper, and what layer they have.
 *
 * The interpreter is a stand-in: a type's specification is kept as it came, and an object of it is a piece of
 * memory.  What CPython makes of it is shown by tests/e2e/frameworks/torch_layers.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "framework/layers.h"

typedef void *object;
typedef object vectorcall_fn(object callable, object const *args, size_t count, object names);
struct spec {
    const char *name;
    int size, item_size;
    unsigned flags;
    struct {
        int slot;
        void *function;
    } * slots;
};
struct python_calls {
    vectorcall_fn *vectorcall;
    object (*tuple_call)(object, object, object);
    object (*method_new)(object, object);
    void (*inc_ref)(object);
    object (*type_from_spec)(struct spec *);
    object (*call_object)(object, object);
    object call, wrapper;
};
object vramscope_auto_caller(const struct python_calls *);
int vramscope_auto_call(object module, uint32_t layer);

static char torchs, wrapper, type, method, result, keywords;
static struct {
    uintptr_t head[2];
    vectorcall_fn *call;
} caller;
static object (*attribute)(object, object, object);
static unsigned references;
static struct {
    object callable, names, answer;
    size_t count;
    uint32_t layer;
} seen;

static object called(object callable, object const *args, size_t count, object names)
{
    seen.callable = callable;
    seen.names = names;
    seen.count = count;
    seen.layer = vs_layer_now.module;
    return seen.answer;
}

static object tuple_call(object a, object b, object c)
{
    return NULL;
}

static object method_of(object function, object self)
{
    return function == &wrapper && self ? &method : NULL;
}

static void referenced(object o)
{
    references += o == &wrapper;
}

static object type_of(struct spec *s)
{
    assert_int_equal(s->size, sizeof caller);
    assert_true(s->flags & 1u << 11); /* is called by a vector of arguments, */
    assert_true(s->flags & 1u << 17); /* with the module in front, as a function is */
    for (int i = 0; s->slots[i].slot; i++)
        if (s->slots[i].slot == 54)
            memcpy(&attribute, &s->slots[i].function, sizeof attribute);
    return &type;
}

static object object_of(object t, object arguments)
{
    return t == &type && !arguments ? &caller : NULL;
}

static const struct python_calls calls = {called,  tuple_call, method_of, referenced,
                                          type_of, object_of,  &torchs,   &wrapper};

static int setup(void **state)
{
    vs_layer_now = (struct vs_layer_now){.module = 3, .inside = 1};
    seen.answer = &result;
    return vramscope_auto_caller(&calls) == &caller ? 0 : -1;
}

static object call(uintptr_t module)
{
    object args[2] = {(object)module, &result};
    return caller.call(&caller, args, 2 | (size_t)1 << 63, &keywords);
}

static void a_known_module_within_another_call_has_its_layer_without_the_wrapper(void **state)
{
    assert_int_equal(vramscope_auto_call((object)0x1000, 7), 0);
    assert_ptr_equal(call(0x1000), &result);
    assert_ptr_equal(seen.callable, &torchs);
    assert_int_equal(seen.layer, 7);
    assert_true(seen.count == (2 | (size_t)1 << 63) && seen.names == &keywords);
    assert_int_equal(vs_layer_now.module, 3);
}

static void a_call_that_raises_gives_the_layer_back(void **state)
{
    assert_int_equal(vramscope_auto_call((object)0x1000, 7), 0);
    seen.answer = NULL;
    assert_null(call(0x1000));
    assert_int_equal(seen.layer, 7);
    assert_int_equal(vs_layer_now.module, 3);
}

static void all_other_calls_go_through_the_wrapper(void **state)
{
    assert_int_equal(vramscope_auto_call((object)0x1000, 7), 0);
    vs_layer_now.inside = 0; /* an outermost call */
    assert_ptr_equal(call(0x1000), &result);
    assert_true(seen.callable == &wrapper && seen.layer == 3);
    vs_layer_now.inside = 1;
    call(0x2000); /* never heard of */
    assert_ptr_equal(seen.callable, &wrapper);
    vramscope_auto_call((object)0x1000, 0); /* it is gone, and its address may come back */
    call(0x1000);
    assert_ptr_equal(seen.callable, &wrapper);
    caller.call(&caller, NULL, 0, NULL); /* a wrong call, which says so itself */
    assert_ptr_equal(seen.callable, &wrapper);
}

static void a_module_that_comes_back_has_its_new_layer(void **state)
{
    vramscope_auto_call((object)0x1000, 7);
    vramscope_auto_call((object)0x1000, 0);
    vramscope_auto_call((object)0x1000, 9);
    call(0x1000);
    assert_true(seen.callable == &torchs && seen.layer == 9);
    vramscope_auto_call((object)0x1000, 10); /* another path */
    call(0x1000);
    assert_int_equal(seen.layer, 10);
}

static void the_attribute_is_the_wrapper(void **state)
{
    references = 0;
    assert_ptr_equal(attribute(&caller, NULL, &type), &wrapper);
    assert_int_equal(references, 1);
    assert_ptr_equal(attribute(&caller, (object)0x1000, &type), &method);
}

static void modules_for_which_there_is_no_room_go_through_the_wrapper(void **state)
{
    uintptr_t refused = 0;
    for (uintptr_t at = 0x100000; !refused; at += 16)
        if (vramscope_auto_call((object)at, 5) != 0)
            refused = at;
    assert_true(refused > 0x100000 + 16 * 30000);
    call(refused);
    assert_ptr_equal(seen.callable, &wrapper);
    call(refused - 16);
    assert_true(seen.callable == &torchs && seen.layer == 5);
    assert_int_equal(vramscope_auto_call((object)(refused - 16), 6), 0); /* it has a place */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_known_module_within_another_call_has_its_layer_without_the_wrapper, setup),
        cmocka_unit_test_setup(a_call_that_raises_gives_the_layer_back, setup),
        cmocka_unit_test_setup(all_other_calls_go_through_the_wrapper, setup),
        cmocka_unit_test_setup(a_module_that_comes_back_has_its_new_layer, setup),
        cmocka_unit_test_setup(the_attribute_is_the_wrapper, setup),
        cmocka_unit_test_setup(modules_for_which_there_is_no_room_go_through_the_wrapper, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
