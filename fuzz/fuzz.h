/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - the function that a fuzz target defines, and the macro by which it reports a broken
 * invariant. */
#ifndef STOKER_FUZZ_H
#define STOKER_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert(): release builds must check too. */
#define FUZZ_CHECK(cond)                                                                           \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #cond);                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
