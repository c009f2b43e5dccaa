/* SPDX-License-Identifier: Apache-2.0 */
/* exif_test - orientations in three containers and two byte orders; cut and damaged metadata says
 * nothing and reads nothing that is not there (each case is at the end of its own memory). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/exif.h"

#define II "II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"
#define MM "MM\0\x2a\0\0\0\x08\0\x02\x01\x0f\0\x02\0\0\0\1a\0\0\0\x01\x12\0\x03\0\0\0\x01\0\x08\0\0"
#define JPEG                                                                                       \
    "\xff\xd8\xff\xe0\0\4ab\xff\xff\xe1\0\x1e"                                                     \
    "Exif\0\0" II "\xff\xda\0\0"
#define PNG                                                                                        \
    "\x89PNG\r\n\x1a\n\0\0\0\1aaaaxcrc_\0\0\0\x22"                                                 \
    "eXIf" MM "crc_"
#define PROFILE                                                                                    \
    "\x89PNG\r\n\x1a\n\0\0\0\1aaaaxcrc_\0\0\0\x53"                                                 \
    "tEXtRaw profile type exif\0\nexif\n    22\n"                                                  \
    "49492a000800000001001201\n0300010000000600000000\ncrc_"
#define WEBP                                                                                       \
    "RIFF\x00\0\0\0WEBPVP8 \1\0\0\0x\0"                                                            \
    "EXIF\x16\0\0\0" II

static unsigned turn_of(const void *data, size_t len)
{
    uint8_t *exact = malloc(len + 1); /* a byte past the end is an error under ASan */
    unsigned turn;

    memcpy(exact + 1, data, len);
    turn = stk_exif_turn((stk_bytes){ exact + 1, len });
    free(exact);
    return turn;
}

static void found(void **state)
{
    (void)state;
    assert_int_equal(turn_of(JPEG, sizeof JPEG - 1), 6);
    assert_int_equal(turn_of(PNG, sizeof PNG - 1), 8);
    assert_int_equal(turn_of(WEBP, sizeof WEBP - 1), 6);
    assert_int_equal(turn_of(PROFILE, sizeof PROFILE - 1), 6);
}

static void not_found(void **state)
{
    static const char late[] = "\xff\xd8\xff\xda\0\x04xx\xff\xe1\0\x1e"
                               "Exif\0\0" II;

    (void)state;
    assert_int_equal(turn_of("", 0), 1);
    assert_int_equal(turn_of(late, sizeof late - 1), 1);
    assert_int_equal(turn_of("GIF89a", 6), 1);
}

static void damaged(void **state)
{
    static const struct {
        const char *data;
        size_t len;
    } whole[] = { { JPEG, sizeof JPEG - 1 },
                  { PNG, sizeof PNG - 1 },
                  { WEBP, sizeof WEBP - 1 },
                  { PROFILE, sizeof PROFILE - 1 } };
    char bad[160];

    (void)state;
    for (size_t k = 0; k < 4; k++) {
        for (size_t n = 0; n < whole[k].len; n++)
            assert_in_range(turn_of(whole[k].data, n), 1, 8);
        for (size_t i = 0; i < whole[k].len * 255; i++) {
            memcpy(bad, whole[k].data, whole[k].len);
            bad[i / 255] = (char)(bad[i / 255] ^ (1 + i % 255));
            assert_in_range(turn_of(bad, whole[k].len), 1, 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(found), cmocka_unit_test(not_found),
                                        cmocka_unit_test(damaged) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
