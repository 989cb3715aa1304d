/* test_box.c - box.c: which words of a copy's memory are looked at. */
#include <sys/mman.h>

#include "access/box.h"
#include "unit/test.h"

#define ROWS  9000u
#define PITCH 4096u

static char *memory;
static uint64_t seen, sum; /* words, of those that are not 0, and not half of one and half of the next */

static void see(void *context, uint64_t word)
{
    assert_ptr_equal(context, memory);
    bool whole = word >> 32 == 0;
    seen += word != 0 && whole;
    sum += whole ? word : 0;
}

static bool looks(const struct vs_box *b)
{
    seen = sum = 0;
    return vs_box_read(b, 0, see, memory);
}

static void put(size_t row, size_t word, uint64_t value)
{
    memcpy(memory + row * PITCH + word * sizeof value, &value, sizeof value);
}

/* Each row begins with 1, behind which lies what is not of it. */
static int begin(void **state)
{
    memory = mmap(NULL, ROWS * PITCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t row = 0; row < ROWS; row++) {
        put(row, 0, 1);
        put(row, 1, 1u << 20);
    }
    return memory == MAP_FAILED;
}

static int end(void **state)
{
    return munmap(memory, ROWS * PITCH);
}

static struct vs_box box(size_t width, size_t rows, size_t slices, size_t height)
{
    return (struct vs_box){(uintptr_t)memory, width, rows, slices, PITCH, height};
}

TEST(rows_are_looked_at_and_not_what_lies_between, begin, end)
{
    struct vs_box narrow = box(8, 300, 1, 0), slices = box(8, 2, 100, 3), wide = box(20, 3, 1, 0);
    assert_true(looks(&narrow));
    assert_int_equal(sum, 300);
    put(2, 0, 1000); /* between two slices */
    put(3, 0, 77);
    assert_true(looks(&slices));
    assert_int_equal(sum, 199 + 77);
    assert_true(looks(&wide));
    assert_int_equal(sum, 1002 + (3 << 20));
    assert_int_equal(vs_box_bytes(&wide), 60);
}

TEST(rows_that_lie_close_together_and_long_ones_are_whole, begin, end)
{
    for (size_t width = 8; width <= 64; width += 4)
        for (size_t pitch = width; pitch < 1300; pitch += 4 + pitch / 3) {
            struct vs_box b = {(uintptr_t)memory, width, 400, 1, pitch, 0};
            memset(memory, 0, ROWS * 100);
            for (size_t row = 0; row < 400; row++)
                memcpy(memory + row * pitch + width - 8, &(uint64_t){row + 1}, 8);
            assert_true(looks(&b));
            assert_int_equal(sum, 400 * 401 / 2);
        }
}

static uint64_t wanted, found;

static void find(void *context, uint64_t word)
{
    found += word == wanted;
}

TEST(an_address_is_seen_wherever_it_lies_on_the_device, begin, end)
{
    struct {
        uint64_t to;
        size_t width, pitch, at[2]; /* of its halves */
    } way[] = {{0, 12, 12, {24, 28}}, {4, 64, 64, {4, 8}},        {3, 64, 64, {5, 9}},
               {0, 4, 8, {16, 24}},   {0, 4, 4096, {4096, 8192}}, {0, 10, 10, {50, 54}}};
    wanted = 0x7f12345678901230;
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        struct vs_box b = {(uintptr_t)memory, way[i].width, 1000, 1, way[i].pitch, 0};
        memset(memory, 0, ROWS * 100);
        memcpy(memory + way[i].at[0], &wanted, 4);
        memcpy(memory + way[i].at[1], (const char *)&wanted + 4, 4);
        found = 0;
        assert_true(vs_box_read(&b, way[i].to, find, NULL));
        assert_int_equal(found, 1);
    }
}

TEST(of_long_copies_the_first_64_kib_are_looked_at, begin, end)
{
    struct vs_box narrow = box(8, ROWS, 1, 0), flat = VS_BOX_FLAT((uintptr_t)memory, ROWS * PITCH);
    assert_true(looks(&narrow));
    assert_int_equal(sum, VS_BOX_MAX / 8);
    assert_true(looks(&flat));
    assert_int_equal(seen, 2 * VS_BOX_MAX / PITCH);
}

TEST(memory_that_cannot_be_read_ends_it, begin, end)
{
    struct vs_box narrow = box(8, 300, 1, 0);
    assert_int_equal(mprotect(memory + 100 * PITCH, PITCH, PROT_NONE), 0);
    assert_false(looks(&narrow));
    assert_int_equal(sum, 100);
    assert_false(looks(&VS_BOX_FLAT((uintptr_t)memory + 100 * PITCH, 16)));
    assert_int_equal(seen, 0);
}

TEST(nothing_is_looked_at_where_nothing_is_copied)
{
    struct vs_box none[] = {
        VS_BOX_FLAT(0, 64), VS_BOX_FLAT(64, 7), {64, 64, 0, 1, 64, 1}, {64, 64, 1, 0, 64, 1}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_true(looks(&none[i]));
}
