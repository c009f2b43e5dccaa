/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_chain - any text as a chain: a plan whose row can be allocated, or one clean line. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "chain/chain.h"

#define LONGEST 8192 /* twice what a chain may have */

static void check_plan(const stk_chain *c)
{
    size_t count = 1;

    FUZZ_CHECK(c->n_from >= 1 && c->n_from <= STK_MAX_FROM && c->n_steps <= STK_MAX_STEPS);
    for (uint32_t i = 0; i < c->n_from; i++)
        FUZZ_CHECK(c->from[i] != NULL);
    for (uint32_t i = 0; i < c->n_steps; i++)
        FUZZ_CHECK(!c->step[i].codec != !c->step[i].op && c->step[i].state);
    if (!c->row_bytes)
        return;
    FUZZ_CHECK(c->spec.ndim <= STK_MAX_DIMS && c->row_bytes <= SIZE_MAX / 4);
    for (uint32_t i = 0; i < c->spec.ndim; i++) {
        FUZZ_CHECK(c->spec.shape[i] > 0 && (uint64_t)c->spec.shape[i] <= c->row_bytes / count);
        count *= (size_t)c->spec.shape[i];
    }
    FUZZ_CHECK(count * stk_dtype_size(c->spec.dtype) == c->row_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_error err = { 0 };
    stk_chain chain;
    char *text;
    int rc;

    if (size > LONGEST)
        return 0;
    text = malloc(size + 1); /* of just its size, so that a read past its end is seen */
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    rc = stk_chain_plan(&chain, "x", text, &err);
    free(text); /* the plan keeps what it needs */
    FUZZ_CHECK(rc == 0 ||
               (rc < 0 && err.code == rc && err.message[0] && !strchr(err.message, '\n')));
    if (rc == 0) {
        check_plan(&chain);
        stk_chain_fini(&chain);
    }
    FUZZ_CHECK(!chain.n_from && !chain.n_steps);
    return 0;
}
