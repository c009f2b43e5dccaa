/* SPDX-License-Identifier: Apache-2.0 */
/* pack_made.c - how the shards of a target were made: DIR/.stoker/PATTERN.made.json, one JSON
 * object with the chains and all that chose samples.  For people and their tools; nothing here
 * reads it.  Parts write the same.  _pack_made.py writes the same members for packs of Python
 * functions. */
#include <stdio.h>
#include <string.h>

#include <stoker/stoker.h>

#include "base/mem.h"
#include "tools/pack_model.h"
#include "tools/pack_side.h"

/* , "name": "value", where there is one. */
static int member(stk_text *t, const char *name, const char *value, stk_error *err)
{
    if (!value)
        return 0;
    STK_TRY(stk_side_put(t, ",\n \"", err));
    STK_TRY(stk_side_put(t, name, err));
    STK_TRY(stk_side_put(t, "\": ", err));
    return stk_side_quote(t, value, err);
}

static int number(stk_text *t, const char *name, const char *format, double value, stk_error *err)
{
    char text[64];

    snprintf(text, sizeof text, format, value);
    STK_TRY(stk_side_put(t, ",\n \"", err));
    STK_TRY(stk_side_put(t, name, err));
    STK_TRY(stk_side_put(t, "\": ", err));
    return stk_side_put(t, text, err);
}

/* As text: JSON's numbers are doubles to many readers. */
static int print(stk_text *t, const char *name, uint64_t value, stk_error *err)
{
    char text[17];

    snprintf(text, sizeof text, "%016" PRIx64, value);
    return member(t, name, text, err);
}

static int fields(stk_text *t, const stk_pack_options *o, stk_error *err)
{
    STK_TRY(stk_side_put(t, ",\n \"fields\": {", err));
    for (uint32_t i = 0; i < o->n_fields; i++) {
        const char *chain = o->fields[i].chain;

        STK_TRY(stk_side_put(t, i ? ", " : "", err));
        STK_TRY(stk_side_quote(t, o->fields[i].name, err));
        STK_TRY(stk_side_put(t, ": ", err));
        STK_TRY(chain && *chain ? stk_side_quote(t, chain, err) : stk_side_put(t, "null", err));
    }
    return stk_side_put(t, "}", err);
}

static int choices(stk_text *t, const stk_pack_options *o, stk_error *err)
{
    STK_TRY(member(t, "where", o->where, err));
    STK_TRY(member(t, "exclude", o->exclude, err));
    STK_TRY(member(t, "dedup", o->dedup, err));
    STK_TRY(member(t, "balance", o->balance, err));
    STK_TRY(member(t, "only", o->only_failed == STK_YES ? "failed" : NULL, err));
    if (o->select && o->only_failed != STK_YES)
        STK_TRY(number(t, "selected", "%.0f", (double)o->n_select, err));
    if (o->fraction > 0)
        STK_TRY(number(t, "fraction", "%.17g", o->fraction, err));
    if (o->keep_to > 0) {
        STK_TRY(number(t, "split_from", "%.17g", o->keep_from, err));
        STK_TRY(number(t, "split_to", "%.17g", o->keep_to, err));
    }
    if (o->shuffle == STK_YES || o->seed)
        STK_TRY(number(t, "shuffle", "%.0f", (double)o->seed, err));
    return 0;
}

/* What else decides the bytes. */
static int layout(stk_text *t, const stk_pack_run *p, stk_error *err)
{
    if (p->o.samples)
        STK_TRY(number(t, "samples_per_shard", "%.0f", (double)p->o.samples, err));
    if (p->o.bytes)
        STK_TRY(number(t, "bytes_per_shard", "%.0f", (double)p->o.bytes, err));
    STK_TRY(member(t, "compress", p->pattern.squeeze, err));
    return p->o.arrays == STK_YES ? stk_side_put(t, ",\n \"arrays\": true", err) : 0;
}

static int describe(stk_text *t, stk_pack_run *p, stk_error *err)
{
    uint64_t shards = stk_dataset_shards(p->ds), source = 0;

    STK_TRY(stk_side_put(t, "{\"stoker\": ", err));
    STK_TRY(stk_side_quote(t, stk_version(), err));
    STK_TRY(member(t, "first_source", shards ? stk_dataset_shard_name(p->ds, 0) : NULL, err));
    STK_TRY(number(t, "sources", "%.0f", (double)shards, err));
    STK_TRY(stk_pack_source_print(p, &source, err));
    STK_TRY(print(t, "source_fingerprint", source, err));
    STK_TRY(print(t, "fingerprint", p->fingerprint, err));
    STK_TRY(number(t, "samples", "%.0f", (double)p->count, err));
    STK_TRY(number(t, "shards", "%.0f", (double)p->n, err));
    if (p->o.n_fields)
        STK_TRY(fields(t, &p->o, err));
    STK_TRY(choices(t, &p->o, err));
    STK_TRY(layout(t, p, err));
    return stk_side_put(t, "}\n", err);
}

int stk_pack_made(stk_pack_run *p, stk_error *err)
{
    stk_text t = { 0 };
    char *path = stk_stamp_path(&p->pattern, "made.json");
    int rc = path ? describe(&t, p, err) : stk_fail_nomem(err, 64);

    if (rc == 0)
        rc = stk_side_write(path, p->pattern.store, &t, err);
    stk_free(t.s);
    stk_free(path);
    return rc;
}
