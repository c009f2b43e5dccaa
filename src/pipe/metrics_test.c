/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_test.c - OpenMetrics text: how numbers and histograms are written, and how much of it
 * where there is little room.  python/tests/test_diagnosis.py compares all rows with stats(). */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <stoker/stoker.h>

static char out[1 << 15];

static void expect_line(const stk_stats *s, const char *line)
{
    size_t len = stk_stats_metrics(s, out, sizeof out);

    assert_true(len < sizeof out && strlen(out) == len);
    if (!strstr(out, line))
        fail_msg("no \"%s\" in\n%s", line, out);
}

static void seconds_read_back_as_they_were(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = { { 0, "0.0" },
                  { 1, "1e-09" },
                  { 15000, "1.5e-05" },
                  { 100000, "0.0001" },
                  { 300000000, "0.30000000000000004" }, /* as 300000000 * 1e-9 is */
                  { 1000000000, "1.0" },
                  { 128000000000, "128.0" },
                  { 123456789123456789, "123456789.12345679" } };
    static const char *const locales[] = { "C", "de_DE.UTF-8" };

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        setlocale(LC_ALL,
                  locales[k]); /* where there is no German one, the C locale is tried twice */
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            stk_stats s = { .size = sizeof s, .stage_ns[STK_STAGE_FETCH] = cases[i].ns };
            char line[128];

            snprintf(line, sizeof line, "\nstoker_stage_seconds_total{stage=\"fetch\"} %s\n",
                     cases[i].text);
            expect_line(&s, line);
        }
    }
    setlocale(LC_ALL, "C");
}

static void a_histogram_has_no_holes(void **state)
{
    stk_stats s = { .size = sizeof s, .tick_ns = 0.5 };

    (void)state;
    s.stage_times[STK_STAGE_DECODE][10] = 3;
    s.stage_times[STK_STAGE_DECODE][12] = 1;
    expect_line(&s, "\nstoker_row_seconds_bucket{stage=\"decode\",le=\"1.024e-06\"} 3\n"
                    "stoker_row_seconds_bucket{stage=\"decode\",le=\"2.048e-06\"} 3\n"
                    "stoker_row_seconds_bucket{stage=\"decode\",le=\"4.096e-06\"} 4\n"
                    "stoker_row_seconds_bucket{stage=\"decode\",le=\"+Inf\"} 4\n"
                    "stoker_row_seconds_count{stage=\"decode\"} 4\n"
                    "stoker_row_seconds_sum{stage=\"decode\"} 5.376e-06\n");
    expect_line(&s, "\nstoker_row_seconds_sum{stage=\"idle\"} 0\n# EOF\n");
}

static void little_room_cuts_the_text(void **state)
{
    stk_stats s = { .size = sizeof s, .samples = UINT64_MAX };
    size_t len = stk_stats_metrics(&s, NULL, 0);
    char few[40];

    (void)state;
    assert_int_equal(stk_stats_metrics(&s, few, sizeof few), len);
    assert_int_equal(stk_stats_metrics(&s, out, sizeof out), len);
    assert_int_equal(strlen(few), sizeof few - 1);
    assert_memory_equal(few, out, sizeof few - 1);
    expect_line(&s, "\nstoker_samples_total 18446744073709551615\n");
}

static void fields_that_a_caller_does_not_know_are_zero(void **state)
{
    stk_stats s = {
        .size = offsetof(stk_stats, skipped), .samples = 7, .skipped = 9, .handed_out = 9
    };

    (void)state;
    expect_line(&s, "\nstoker_samples_total 7\n");
    expect_line(&s, "\nstoker_skipped_total 0\n");
    expect_line(&s, "\nstoker_handed_out_total 0\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_read_back_as_they_were),
        cmocka_unit_test(a_histogram_has_no_holes),
        cmocka_unit_test(little_room_cuts_the_text),
        cmocka_unit_test(fields_that_a_caller_does_not_know_are_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
