/* SPDX-License-Identifier: Apache-2.0 */
/* chain_check.c - the steps of a chain and their arguments, without data.
 *
 * A chain may be for samples, for rows of arrays, or a part of a chain that begins at a picture;
 * which one is not known without data, so it is right if it is right for one of them. */
#include <stdio.h>
#include <string.h>

#include "base/expr.h"
#include "base/registry.h"
#include "chain/chain.h"
#include <stoker/own_op.h>
#include <stoker/tools.h>

/* Does it begin with a field or a codec, so that its first form is what was meant? */
static int begins_at_data(const stk_registry *r, const char *text)
{
    stk_expr *e = NULL;
    int yes = stk_expr_parse(&e, text, NULL) == 0 &&
              (!strcmp(e->call[0].name, "from") ||
               stk_registry_find(r, STK_PLUGIN_CODEC, e->call[0].name));

    stk_expr_close(&e);
    return yes;
}

static int plan_once(stk_registry *r, const char *text, int rows, stk_error *err)
{
    stk_chain c;
    int rc = rows ? stk_chain_plan_rows(&c, r, "chain", text, err)
                  : stk_chain_plan_field(&c, &(stk_chain_head){ .registry = r, .part = 1 }, "chain",
                                         text, err);

    if (rc == 0)
        stk_chain_fini(&c);
    return rc;
}

int stk_chain_check(const char *text, stk_error *err)
{
    return stk_chain_check_in(NULL, text, err);
}

int stk_chain_check_in(stk_registry *r, const char *text, stk_error *err)
{
    char whole[STK_EXPR_TEXT + 16];
    stk_error other = { 0 };
    int rc = plan_once(r, text, 0, err), rc2;

    if (rc == 0 || rc == STK_ENOMEM)
        return rc;
    if (plan_once(r, text, 1, NULL) == 0)
        return 0;
    if (begins_at_data(r, text))
        return rc;
    snprintf(whole, sizeof whole, "image | %.*s", STK_EXPR_TEXT, text);
    rc2 = plan_once(r, whole, 0, &other);
    if (rc2 < 0 && err)
        *err = other;
    return rc2;
}
