/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.h - decimal text to a number, with a point whatever the program's locale says; decimals
 * of tables, which are whole numbers with a scale, to the nearest double and to text. */
#ifndef STOKER_DECIMAL_H
#define STOKER_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

/* As strtod() in the C locale. */
double stk_decimal(const char *text, char **end);

/* A whole number in two's complement, of which `scale` digits are after the point; below 0: so many
 * zeros follow it. */
typedef struct stk_scaled {
    const uint8_t *bytes;
    size_t n;
    int big; /* the most significant byte comes first */
    int32_t scale;
} stk_scaled;

#define STK_SCALED_BYTES 64 /* without those that only repeat the sign */
#define STK_SCALED_MOST 400 /* of |scale| */
/* Digits, zeros of the scale, sign, point, end. */
#define STK_SCALED_TEXT (155 + STK_SCALED_MOST + 8)

/* The double that is nearest to it.  0, or -1: it has more bytes than STK_SCALED_BYTES, or its
 * scale is beyond STK_SCALED_MOST. */
int stk_scaled_f64(const stk_scaled *s, double *out);
/* Bytes that the text of a number of `n` bytes has at most, without an end. */
size_t stk_scaled_room(size_t n, int32_t scale);
/* Its text in `room` bytes, zeros after it; -1 as above, or it does not fit. */
int stk_scaled_put(const stk_scaled *s, uint8_t *out, size_t room);
/* "-990.79": with as many digits after the point as the scale says.  Returns its length, or -1. */
int stk_scaled_text(const stk_scaled *s, char out[STK_SCALED_TEXT]);

#endif
