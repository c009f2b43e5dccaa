/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_chain - any text as a chain: a plan whose row can be allocated, or one clean line. */
#include <stdlib.h>
#include <string.h>

#include "base/expr.h"
#include "fuzz.h"
#include "chain/chain.h"

#define LONGEST 8192 /* twice what a chain may have */

/* A step that takes chains and plans none of them. */
static int take_chain(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state, (void)spec, (void)err;
    for (uint32_t i = 0; i < stk_args_count(args, "steps"); i++)
        FUZZ_CHECK(stk_args_chain(args, "steps", i)->n_calls);
    return 0;
}

static stk_registry *with_chains(void)
{
    static const stk_arg one[] = { { "steps", STK_ARG_CHAIN, NULL, "" }, { 0 } };
    static stk_registry *r;
    stk_op op = { .abi = STK_PLUGIN_ABI, .size = sizeof op, .name = "apply", .args = one };
    stk_error err;

    if (r)
        return r;
    op.plan = take_chain;
    FUZZ_CHECK(stk_registry_open(&r, NULL, &err) == 0);
    FUZZ_CHECK(stk_registry_add(r, STK_PLUGIN_OP, &op, &err) == 0);
    return r;
}

/* What a planned chain draws is within its bounds. */
static void check_draw(const stk_chain *c)
{
    static const uint32_t sizes[][2] = { { 1, 1 }, { 1, 5000 }, { 640, 480 } };
    stk_draws d;

    for (uint32_t i = 0; c->spec.kind == STK_KIND_IMAGE && i < 3; i++) {
        double filed[3][4] = { { 0, 0, sizes[i][0], sizes[i][1] },
                               { -5, 3, 2, 900 },
                               { 1, 1, 1, 1 } },
               at[3][4];
        uint8_t keep[3] = { 1, 1, 1 };
        stk_boxes boxes = { { .n = 3, .at = at, .keep = keep }, filed };

        d.boxes = c->boxes.name ? &boxes : NULL;
        stk_chain_draw(c, &(stk_address){ .seed = 1, .position = i }, sizes[i], &d, NULL);
        FUZZ_CHECK(d.n_passes >= 1 && d.n_passes <= STK_MAX_PASSES);
        FUZZ_CHECK(d.n_actions <= STK_MAX_ACTIONS && d.from[d.n_passes - 1] <= d.n_actions);
        for (uint32_t k = 0; k < d.n_actions; k++)
            FUZZ_CHECK(d.action[k].step < c->n_all);
    }
}

/* What is read can be written, and reads as the same. */
static void check_text(const char *text)
{
    static char once[8 * LONGEST], twice[8 * LONGEST];
    stk_expr *e = NULL, *again = NULL;

    if (stk_expr_parse(&e, text, NULL) < 0)
        return;
    FUZZ_CHECK(stk_expr_text(e, once, sizeof once) < sizeof once);
    if (strlen(once) <= STK_EXPR_TEXT) {
        FUZZ_CHECK(stk_expr_parse(&again, once, NULL) == 0);
        stk_expr_text(again, twice, sizeof twice);
        FUZZ_CHECK(!strcmp(once, twice));
    }
    stk_expr_close(&e);
    stk_expr_close(&again);
}

static void check_plan(const stk_chain *c)
{
    size_t count = 1;

    FUZZ_CHECK(c->field.n_names >= 1 && c->field.n_names <= STK_MAX_FROM &&
               c->n_steps <= STK_MAX_STEPS);
    for (uint32_t i = 0; i < c->field.n_names; i++)
        FUZZ_CHECK(c->field.name[i] != NULL);
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
    rc = stk_chain_plan(&chain, with_chains(), "x", text, &err);
    check_text(text);
    free(text); /* the plan keeps what it needs */
    FUZZ_CHECK(rc == 0 ||
               (rc < 0 && err.code == rc && err.message[0] && !strchr(err.message, '\n')));
    if (rc == 0) {
        check_plan(&chain);
        check_draw(&chain);
        stk_chain_fini(&chain);
    }
    FUZZ_CHECK(!chain.field.n_names && !chain.n_steps);
    return 0;
}
