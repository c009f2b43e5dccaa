/* SPDX-License-Identifier: Apache-2.0 */
/* expr.h - the grammar of chains: `from(jpg, png) | image | resize(256) | to(f16, layout=hwc)`.
 *
 *     chain = call { "|" call }          call = name [ "(" [ arg { "," arg } [ "," ] ] ")" ]
 *     arg   = [ name "=" ] value
 *     value = number | name | string | true | false | chain | "(" value { "," value } ")"
 *
 * Names are letters, digits, _ . - (not first: digit or -); strings stand in " or '; tuples may
 * also be written [ ].  A chain that is an argument (`random_apply(hflip | resize(8), p=0.5)`) has
 * arguments or several steps; a name alone is a name, which a chain argument takes as a step.  At
 * most 7 of them stand inside each other. */
#ifndef STOKER_EXPR_H
#define STOKER_EXPR_H

#include "base/err.h"

#define STK_EXPR_TEXT 4096 /* bytes of a chain */
#define STK_EXPR_CALLS 32
#define STK_EXPR_ITEMS 16
#define STK_EXPR_DEPTH 7 /* chains inside chains */

typedef enum stk_value_type {
    STK_V_NUMBER = 1,
    STK_V_NAME,
    STK_V_BOOL,
    STK_V_CHAIN
} stk_value_type;
typedef struct stk_expr stk_expr;

typedef struct stk_value {
    stk_value_type type;
    double number;    /* NUMBER, BOOL */
    int integral;     /* NUMBER: written without point or exponent */
    const char *text; /* NAME: terminated, owned by the expression */
    stk_expr *chain;  /* CHAIN: owned by the expression */
} stk_value;

typedef struct stk_expr_arg {
    const char *name; /* NULL: positional */
    uint32_t n;       /* values */
    int tuple;
    stk_value value[STK_EXPR_ITEMS];
    uint32_t at; /* column, from 1 */
} stk_expr_arg;

typedef struct stk_call {
    const char *name;
    uint32_t at;
    uint32_t n_args;
    stk_expr_arg *arg;
} stk_call;

struct stk_expr {
    uint32_t n_calls;
    stk_call call[STK_EXPR_CALLS];
    stk_expr_arg *args; /* of all calls, in order */
    uint32_t n_args, room;
    char *text; /* of all names, one after the other */
    size_t used;
};

/* Parse; an error quotes the chain and points at the column.  End with stk_expr_close(). */
int stk_expr_parse(stk_expr **out, const char *text, stk_error *err);
void stk_expr_close(stk_expr **e);
/* As text that parses to the same: what it would take without the end, as snprintf() says it. */
size_t stk_expr_text(const stk_expr *e, char *buf, size_t size);

/* ---- a call's arguments, matched against a table ---- */

/* Check `call` against `table` (NULL: takes none) and fill in fallbacks.  *out is the caller's;
 * it borrows from `call`. */
int stk_args_check(stk_args **out, const stk_call *call, const stk_arg *table, stk_error *err);
void stk_args_close(stk_args **a);
/* It is written in the call: not a fallback. */
int stk_args_given(const stk_args *a, const char *name);
/* Chain i of a CHAIN or CHAINS argument; NULL past the end. */
const stk_expr *stk_args_chain(const stk_args *a, const char *name, uint32_t i);
/* Equal for equal values, however they were written; of a path only its last part counts.  Of a
 * chain its calls count as they are written: the tables of its steps are not known here. */
uint64_t stk_args_hash(const stk_args *a, uint64_t seed);
/* The same, as if the argument `name` (NULL: none) were `number`. */
uint64_t stk_args_hash_as(const stk_args *a, uint64_t seed, const char *name, double number);

#endif
