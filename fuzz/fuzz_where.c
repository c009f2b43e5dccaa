/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_where - any text as a condition: a clean error, or answers for rows of three columns. */
#include <string.h>

#include "base/mem.h"
#include "column/where.h"
#include "fuzz.h"

#define ROWS 8u

static void fill(stk_where_values *v, stk_where_type type)
{
    static const int64_t ints[ROWS] = { 0, 1, -1, 300, INT64_MIN, INT64_MAX, 2, 3 };
    static const char *const texts[ROWS] = { "",     "train", "a_b", "%", "\xC3\xA9t\xC3\xA9",
                                             "\xFF", "x",     "it's" };

    v->type = type;
    for (uint32_t i = 0; i < ROWS; i++) {
        v->valid[i] = i % 3 != 2;
        if (type == STK_WHERE_I64)
            v->v.i[i] = ints[i];
        else if (type == STK_WHERE_F64)
            v->v.f[i] = (double)ints[i] / 3;
        else
            v->v.text[i] = (stk_bytes){ (const uint8_t *)texts[i], strlen(texts[i]) };
    }
}

static void evaluate(stk_condition *c)
{
    static stk_where_values values[3];
    const stk_where_values **columns = malloc((c->n_columns + 1) * sizeof *columns);
    stk_where_type *types = malloc((c->n_columns + 1) * sizeof *types);
    uint8_t *room = malloc((size_t)c->n * STK_WHERE_ROWS + 1), take[ROWS];
    stk_error err;

    FUZZ_CHECK(columns && types && room);
    for (uint32_t i = 0; i < 3; i++)
        fill(&values[i], (stk_where_type)(i + 1));
    for (uint32_t i = 0; i < c->n_columns; i++) {
        columns[i] = &values[strlen(c->column[i]) % 3];
        types[i] = columns[i]->type;
    }
    if (stk_condition_settle(c, types, &err) == 0) {
        stk_condition_eval(c, columns, ROWS, room, take);
        for (uint32_t i = 0; i < ROWS; i++)
            FUZZ_CHECK(take[i] <= 1);
    } else
        FUZZ_CHECK(!strncmp(err.message, "where: ", 7));
    free(columns);
    free(types);
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = stk_strndup((const char *)data, size);
    stk_condition c;
    stk_error err;
    int rc;

    FUZZ_CHECK(text);
    rc = stk_condition_parse(&c, text, &err);
    FUZZ_CHECK(rc == 0 || (rc < 0 && !strncmp(err.message, "where: ", 7)));
    if (rc == 0)
        evaluate(&c);
    stk_condition_fini(&c);
    stk_free(text);
    return 0;
}
