/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.h - converts decimal text to a number, whatever the program's locale is, and decimals of
 * tables (integers with a scale) to the nearest double and to text. */
#ifndef STOKER_DECIMAL_H
#define STOKER_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

/* As strtod() in the C locale. */
double stk_decimal(const char *text, char **end);

/* An integer in two's complement, of which `scale` digits are after the point.  If scale is
 * negative, as many zeros follow the integer. */
typedef struct stk_scaled {
    const uint8_t *bytes;
    size_t n;
    int big; /* the most significant byte comes first */
    int32_t scale;
} stk_scaled;

#define STK_SCALED_BYTES 64 /* most bytes, without those that only repeat the sign */
#define STK_SCALED_MOST 400 /* largest |scale| */
/* Most bytes of the text: digits, zeros of the scale, sign, point, NUL. */
#define STK_SCALED_TEXT (155 + STK_SCALED_MOST + 8)

/* Sets *out to the nearest double.  -1: the number has more bytes than STK_SCALED_BYTES, or its
 * scale is beyond STK_SCALED_MOST. */
int stk_scaled_f64(const stk_scaled *s, double *out);
/* Most bytes of the text of a number of `n` bytes, without a NUL. */
size_t stk_scaled_room(size_t n, int32_t scale);
/* Writes its text to `room` bytes, filled up with zeros.  -1: as above, or it does not fit. */
int stk_scaled_put(const stk_scaled *s, uint8_t *out, size_t room);
/* Writes "-990.79", with as many digits after the point as the scale says.  Returns its length, or
 * -1 as above. */
int stk_scaled_text(const stk_scaled *s, char out[STK_SCALED_TEXT]);

#endif
