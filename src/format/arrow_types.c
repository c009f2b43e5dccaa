/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_types.c - how the schemas of two Arrow files differ, in words. */
#include <stdio.h>
#include <string.h>

#include "format/arrow.h"

int stk_arrow_is_nothing(const stk_arrow_leaf *l)
{
    return l->path[l->depth - 1]->type == STK_ARROW_NULL;
}

/* "tsu" is timestamp[us]. */
static void put_time(const char unit[4], char *buf, size_t len)
{
    const char *kind = unit[1] == 'd'   ? "date"
                       : unit[1] == 't' ? "time"
                       : unit[1] == 's' ? "timestamp"
                                        : "duration";

    if (unit[2] == 'D')
        snprintf(buf, len, "%s", kind);
    else
        snprintf(buf, len, "%s[%s]", kind,
                 unit[2] == 's'   ? "s"
                 : unit[2] == 'm' ? "ms"
                 : unit[2] == 'u' ? "us"
                                  : "ns");
}

/* The type, for people: "list of i64", "list of 3 f32", "text", "timestamp[us]". */
static const char *type_name(const stk_arrow_leaf *l, char buf[64])
{
    const stk_arrow_field *f = stk_arrow_value_field(l);
    char value[24];

    if (f->unit[0])
        put_time(f->unit, value, sizeof value);
    else
        snprintf(value, sizeof value, "%s",
                 f->type == STK_ARROW_BOOL      ? "bool"
                 : f->type == STK_ARROW_DECIMAL ? "decimal"
                 : f->dtype                     ? stk_dtype_name(f->dtype)
                 : f->text                      ? "text"
                                                : "bytes");
    if (l->list && l->fixed >= 0)
        snprintf(buf, 64, "list of %" PRId64 " %s", l->fixed, value);
    else
        snprintf(buf, 64, "%s%s", l->list ? "list of " : "", value);
    return buf;
}

static int same_type(const stk_arrow_leaf *a, const stk_arrow_leaf *b)
{
    return stk_arrow_is_nothing(a) || stk_arrow_is_nothing(b) ||
           (a->dtype == b->dtype && a->list == b->list && a->fixed == b->fixed &&
            !a->refused == !b->refused &&
            !strcmp(stk_arrow_value_field(a)->unit, stk_arrow_value_field(b)->unit));
}

static const stk_arrow_leaf *find(const stk_arrow_schema *s, const stk_arrow_leaf *l, uint32_t at)
{
    if (at < s->n && !strcmp(s->leaf[at].name, l->name)) /* mostly they have one order */
        return &s->leaf[at];
    for (uint32_t i = 0; i < s->n; i++)
        if (!strcmp(s->leaf[i].name, l->name))
            return &s->leaf[i];
    return NULL;
}

int stk_arrow_compare_column(const stk_arrow_leaf *was, const stk_arrow_leaf *l, stk_error *err)
{
    char here[64], before[64];

    if (same_type(was, l))
        return 0;
    if (!was->refused != !l->refused)
        return stk_fail(err, STK_ENOTSUP,
                        "column %.60s can be read in some files and not in others, because %s: "
                        "open them apart",
                        l->name, l->refused ? l->refused : was->refused);
    return stk_fail(err, STK_EINVAL,
                    "column %.60s is %s here and %s in the files before: open them apart, or cast "
                    "it",
                    l->name, type_name(l, here), type_name(was, before));
}

int stk_arrow_compare(const stk_arrow_schema *before, const stk_arrow_schema *here, stk_error *err)
{
    uint32_t moved = UINT32_MAX;

    for (uint32_t i = 0; i < here->n; i++) {
        const stk_arrow_leaf *was = find(before, &here->leaf[i], i);

        if (!was)
            return stk_fail(err, STK_EINVAL,
                            "column %.60s is not in the files before: open them apart",
                            here->leaf[i].name);
        STK_TRY(stk_arrow_compare_column(was, &here->leaf[i], err));
        if (moved == UINT32_MAX && was != &before->leaf[i])
            moved = i;
    }
    for (uint32_t i = 0; i < before->n; i++)
        if (!find(here, &before->leaf[i], i))
            return stk_fail(err, STK_EINVAL,
                            "column %.60s is in the files before and not here: open them apart",
                            before->leaf[i].name);
    if (moved != UINT32_MAX)
        return stk_fail(err, STK_EINVAL,
                        "column %.60s has another place here than in the files before: open them "
                        "apart, or write them with their columns in one order",
                        here->leaf[moved].name);
    return 0;
}
