/* SPDX-License-Identifier: Apache-2.0 */
/* drift_test.c - resamples of the same data raise no alarm, shifts are found; looks and copies are
 * alike. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tools/description.h"
#include "tools/look.h"

static uint64_t state = 20261115;

static double unit(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(unit() + 1e-300)) * cos(6.283185307179586 * unit());
}

typedef struct shift {           /* of what a data set is drawn from */
    double move, scale, classes; /* classes: how much more likely the first one is */
} shift;

/* Three features of n samples: normal numbers, skewed ones, and one of 50 classes. */
static stk_description *drawn(uint64_t n, shift by)
{
    double *v = stk_alloc(n * sizeof *v), *skew = stk_alloc(n * sizeof *skew);
    stk_description *d;
    stk_feature *f;

    assert_int_equal(stk_description_open(&d, NULL), 0);
    for (uint64_t i = 0; i < n; i++) {
        v[i] = 100 + 20 * (normal() * by.scale + by.move);
        skew[i] = exp(normal());
    }
    stk_feature_numbers(stk_description_add(d, "jpg.width", 9), v, n);
    stk_feature_numbers(stk_description_add(d, "jpg.bytes", 9), skew, n);
    f = stk_description_add(d, "cls", 3);
    f->category = 1;
    f->count = n;
    f->n_values = 50;
    f->value = stk_zalloc(STK_MAX_VALUES, sizeof *f->value);
    for (int k = 0; k < 50; k++)
        snprintf(f->value[k].text, sizeof f->value[k].text, "%d", k);
    for (uint64_t i = 0; i < n; i++)
        f->value[unit() < by.classes ? 0 : (int)(50 * unit())].count++;
    stk_free(v);
    stk_free(skew);
    return d;
}

/* How many features drifted; of: only of this one. */
static uint32_t drift(uint64_t n, shift by, const stk_description *before, const char *of)
{
    stk_description *now = drawn(n, by);
    stk_drift_row row[8];
    uint32_t rows, drifted = stk_drift(before, now, row, 8, &rows);

    assert_int_equal(rows, 3);
    for (uint32_t i = 0; i < rows; i++)
        drifted -= of && row[i].drifted && strcmp(row[i].feature, of);
    stk_description_close(&now);
    return drifted;
}

static void resamples_raise_no_alarm(void **unused)
{
    stk_description *before = drawn(5000, (shift){ 0, 1, 0 });
    unsigned alarms = 0;

    (void)unused;
    for (int i = 0; i < 100; i++)
        alarms += drift(5000, (shift){ 0, 1, 0 }, before, NULL) > 0;
    print_message("%u alarms in 100 resamples, seed 20261115\n", alarms);
    assert_int_equal(alarms, 0);
    stk_description_close(&before);
}

static void shifts_are_found(void **unused)
{
    stk_description *large = drawn(5000, (shift){ 0, 1, 0 }),
                    *small = drawn(600, (shift){ 0, 1, 0 });
    unsigned found = 0;

    (void)unused;
    for (int i = 0; i < 20; i++) {
        double much = 1 + 0.1 * i;
        shift by = i % 3 == 0   ? (shift){ 0.4 * much, 1, 0 }
                   : i % 3 == 1 ? (shift){ 0, 1 + 0.5 * much, 0 }
                                : (shift){ 0, 1, 0.15 * much };

        found += drift(i % 2 ? 5000 : 600, by, i % 2 ? large : small,
                       i % 3 == 2 ? "cls" : "jpg.width");
    }
    print_message("%u of 20 shifts found\n", found);
    assert_int_equal(found, 20);
    stk_description_close(&large);
    stk_description_close(&small);
}

static void what_is_missing_is_drift(void **unused)
{
    stk_description *a = drawn(2000, (shift){ 0, 1, 0 }), *b = drawn(2000, (shift){ 0, 1, 0 });
    stk_drift_row row[8];
    uint32_t n;

    (void)unused;
    strcpy(b->feature[0].name, "txt.bytes");
    assert_int_equal(stk_drift(a, b, row, 8, &n), 2);
    assert_int_equal(n, 4);
    assert_string_equal(row[0].test, "missing");
    assert_string_equal(row[3].feature, "txt.bytes");
    strcpy(b->feature[0].name, "png.width"); /* the only pictures of both, by another name */
    assert_int_equal(stk_drift(a, b, row, 8, &n), 0);
    assert_int_equal(n, 3);
    stk_description_close(&a);
    stk_description_close(&b);
}

static void make_picture(uint8_t *data, uint32_t w, uint32_t h, unsigned seed, double gain)
{
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++)
            for (int k = 0; k < 3; k++) {
                double u = (double)x / w, v = (double)y / h;

                data[4 * ((size_t)y * w + x) + (size_t)k] =
                    (uint8_t)(127 + gain * 40 *
                                        (sin(6 * u * (1 + seed % 5) + seed) +
                                         cos(5 * v * (1 + seed % 3) + 2 * seed) +
                                         sin(9 * u * v + 4 * v + 3 * u + seed)));
            }
}

static uint64_t look(uint32_t w, uint32_t h, unsigned seed, double gain)
{
    uint8_t *data = stk_zalloc((size_t)w * h, 4);
    stk_pixels p = { .data = data, .stride = 4 * (size_t)w, .area = { 0, 0, w, h } };
    stk_look l;

    make_picture(data, w, h, seed, gain);
    stk_look_at(&p, w, h, &l);
    assert_true(l.mean[0] > 0 && l.mean[0] < 255);
    stk_free(data);
    return l.hash;
}

static void looks_survive_size_and_contrast(void **unused)
{
    uint64_t hash[40], group[40];
    uint8_t has[40];

    (void)unused;
    for (unsigned i = 0; i < 40; i++) {
        hash[i] = i % 2 ? look(120, 90, i / 2, 0.9) : look(256, 192, i / 2, 1);
        has[i] = 1;
    }
    assert_int_equal(stk_look_groups(hash, has, 40, group, NULL), 0);
    for (unsigned i = 0; i < 40; i++)
        assert_true(group[i] == (i % 2 ? group[i - 1] : group[i]));
    assert_true(group[38] == 38 || group[38] % 2 == 0);
    assert_int_equal(__builtin_popcountll(hash[0] ^ hash[2]) > STK_LOOK_ALIKE, 1);
}

static void copies_are_found(void **unused)
{
    stk_same s[5] = { { 0 } };
    uint64_t group[5];

    (void)unused;
    stk_same_add(&s[0], "jpg", "abc", 3);
    stk_same_add(&s[1], "jpg", "abd", 3);
    stk_same_add(&s[2], "jpg", "abc", 3);
    stk_same_add(&s[3], "png", "abc", 3);
    stk_same_add(&s[4], "jpg", "ab", 2);
    stk_same_add(&s[4], "c", "", 0);
    assert_int_equal(stk_same_groups(s, 5, group, NULL), 0);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(group[i], i == 2 ? 0 : i);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(resamples_raise_no_alarm),
        cmocka_unit_test(shifts_are_found),
        cmocka_unit_test(what_is_missing_is_drift),
        cmocka_unit_test(looks_survive_size_and_contrast),
        cmocka_unit_test(copies_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
