/* SPDX-License-Identifier: Apache-2.0 */
/* size.h - parses sizes as users write them ("4GB").  The command line, Python and options.def use
 * this one parser.  stk_size_parse() and stk_size_format() are public (stoker/base.h). */
#ifndef STOKER_BASE_SIZE_H
#define STOKER_BASE_SIZE_H

#include <stoker/base.h>

/* Reads the size at the start of `text`, and sets *end to what follows.  0: there is none, or it
 * does not fit 64 bits. */
int stk_size_read(const char *text, uint64_t *bytes, const char **end);

/* Whole MB, rounded up: for texts that say how much to give. */
static inline uint64_t stk_size_mb(uint64_t bytes)
{
    return bytes / 1000000 + (bytes % 1000000 != 0);
}

#endif
