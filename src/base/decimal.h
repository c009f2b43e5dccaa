/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.h - decimal text to a number, with a point whatever the program's locale says. */
#ifndef STOKER_DECIMAL_H
#define STOKER_DECIMAL_H

/* As strtod() in the C locale. */
double stk_decimal(const char *text, char **end);

#endif
