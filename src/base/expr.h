/* SPDX-License-Identifier: Apache-2.0 */
/* expr.h - parses the text of chains, `from(jpg, png) | image | resize(256) | to(f16, layout=hwc)`,
 * and checks the arguments of their calls.  The plans of chains and of batch ops call it.
 *
 *     chain = call { "|" call }          call = name [ "(" [ arg { "," arg } [ "," ] ] ")" ]
 *     arg   = [ name "=" ] value
 *     value = number | name | string | true | false | chain | "(" value { "," value } ")"
 *
 * Names are letters, digits, _ . - and don't begin with a digit or -.  Strings are in " or '.
 * Tuples may also be written with [ ].  An argument is a chain if it has arguments or several steps
 * (`random_apply(hflip | resize(8), p=0.5)`); a name alone is a name, which an argument of type
 * chain takes as a step.  At most 7 chains may be nested. */
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
    uint32_t at; /* its column in the text, from 1 */
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
    stk_expr_arg *args; /* arguments of all calls, in order */
    uint32_t n_args, room;
    char *text; /* all names, one after the other */
    size_t used;
};

/* Parses a chain.  An error quotes it and points at the column.  End with stk_expr_close(). */
int stk_expr_parse(stk_expr **out, const char *text, stk_error *err);
void stk_expr_close(stk_expr **e);
/* Writes text that parses to the same chain, and returns its length without the NUL, as snprintf()
 * does. */
size_t stk_expr_text(const stk_expr *e, char *buf, size_t size);

/* ---- a call's arguments, matched against a table ---- */

/* Checks `call` against `table` (NULL: it takes no arguments) and fills in default values.  The
 * caller owns *out, which borrows from `call`. */
int stk_args_check(stk_args **out, const stk_call *call, const stk_arg *table, stk_error *err);
void stk_args_close(stk_args **a);
/* 1: the argument is written in the call, so it is not a default. */
int stk_args_given(const stk_args *a, const char *name);
/* Chain i of a CHAIN or CHAINS argument; NULL past the end. */
const stk_expr *stk_args_chain(const stk_args *a, const char *name, uint32_t i);
/* A hash that is equal for equal values, however they were written.  Of a path only the last part
 * counts.  Chains count as they are written: the tables of their steps are not known here. */
uint64_t stk_args_hash(const stk_args *a, uint64_t seed);
/* The same, as if the argument `name` (NULL: none) were `number`. */
uint64_t stk_args_hash_as(const stk_args *a, uint64_t seed, const char *name, double number);

#endif
