/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.c - strtod() without the locale: a program that speaks German still writes 0.5 in chains
 * and labels. */
#include "base/decimal.h"

#include <locale.h>
#include <stdlib.h>

double stk_decimal(const char *text, char **end)
{
    /* The C locale is a constant of the C library: nothing is allocated, and this cannot fail. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double v = strtod_l(text, end, c);

    freelocale(c);
    return v;
}
