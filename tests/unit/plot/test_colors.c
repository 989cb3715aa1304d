/* test_colors.c - every colour can be read on white, and the phases that peaked highest have one of their
 * own. */
#include <math.h>

#include "unit/test.h"
#include "plot/picture.h"

static double linear(unsigned byte)
{
    double v = byte / 255.0;
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

/* Against white, as WCAG counts it. */
static double contrast(const char *color)
{
    unsigned rgb = (unsigned)strtoul(color + 1, NULL, 16);
    return 1.05 /
           (0.2126 * linear(rgb >> 16) + 0.7152 * linear(rgb >> 8 & 255) + 0.0722 * linear(rgb & 255) + 0.05);
}

static void add(struct picture *p, const char *name, int64_t peak)
{
    *PUSH(p->phases, p->phase_count) =
        (struct picture_phase){.name = xstrdup(name), .ns = 1, .shown = true, .peak = peak};
}

TEST(phases_can_be_read_on_white)
{
    static const char *const names[] = {"none", "forward", "logits", "backward", "optimizer",
                                        "a",    "b",       "c",      "d",        "e"};
    struct picture p = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        add(&p, names[i], 100 - (int64_t)i);
    picture_color(&p);
    for (size_t i = 1; i < p.phase_count; i++) {
        if (contrast(p.phases[i].color) < 2.2)
            fail_msg("%s, %s: %.2f", p.phases[i].name, p.phases[i].color, contrast(p.phases[i].color));
    }
    assert_true(contrast(p.phases[4].color) > 3);
    picture_free(&p);
}

TEST(of_sixty_phases_the_highest_eight_have_colours)
{
    struct picture p = {0};
    add(&p, "none", 0);
    for (int i = 0; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        add(&p, name, i * 37 % 60);
    }
    picture_color(&p);
    for (size_t i = 1; i < p.phase_count; i++) {
        bool own = true;
        for (size_t k = 1; k < p.phase_count; k++)
            own = own && (i == k || strcmp(p.phases[i].color, p.phases[k].color) != 0);
        assert_int_equal(own, p.phases[i].peak >= 60 - PICTURE_PHASES);
    }
    picture_free(&p);
}
