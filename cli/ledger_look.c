/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_look.c - when was a sample seen, and what was in a step. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ledger_cmd.h"

typedef struct hit { /* a row */
    uint64_t epoch, step, position, count, generation, id;
    uint32_t rank, world, row;
    int valid;
} hit;

typedef struct hits {
    hit *list;
    size_t n, cap;
} hits;

static int hit_add(hits *h, const stk_ledger_step *s, uint32_t row)
{
    if (h->n == h->cap) {
        size_t cap = h->cap ? h->cap * 2 : 64;
        hit *grown = realloc(h->list, cap * sizeof *grown);

        if (!grown) {
            fputs("stoker: out of memory\n", stderr);
            return CLI_FAILED;
        }
        h->list = grown;
        h->cap = cap;
    }
    h->list[h->n++] = (hit){ s->epoch,    s->step, s->position,   s->count, s->generation,
                             s->ids[row], s->rank, s->world_size, row,      s->valid[row] };
    return 0;
}

#define BY(field)                                                                                  \
    if (a->field != b->field)                                                                      \
    return a->field < b->field ? -1 : 1

static int by_time(const void *pa, const void *pb)
{
    const hit *a = pa, *b = pb;

    BY(epoch);
    BY(position);
    BY(generation);
    BY(rank);
    BY(row);
    return 0;
}

/* All rows with this id, or all rows of this step. */
static int collect(stk_ledger *l, const uint64_t *id, const uint64_t *step, hits *h)
{
    stk_ledger_step s = { .size = sizeof s };
    stk_error err;
    int rc, bad = 0;

    while (!bad && (rc = stk_ledger_next(l, &s, &err)) == 0) {
        if (step && s.step != *step)
            continue;
        for (uint32_t i = 0; i < s.rows && !bad; i++)
            if (!id || s.ids[i] == *id)
                bad = hit_add(h, &s, i);
    }
    if (!bad && rc < 0)
        bad = cli_failed(&err);
    if (!bad && h->n)
        qsort(h->list, h->n, sizeof *h->list, by_time);
    return bad;
}

/* ---- keys ---- */

const char *ledger_key(const ledger_data *d, uint64_t id, size_t *len)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (id < d->start[i + 1])
            return stk_dataset_key(d->set[i], id - d->start[i], len);
    return NULL;
}

/* With --data a name is a key first; a number is an id where no sample is called so. */
static int id_of(stk_ledger *l, const ledger_data *d, const char *name, uint64_t *id)
{
    stk_ledger_file f = { .size = sizeof f };
    size_t len, want = strlen(name);
    char *end;

    for (*id = 0; d->n && *id < d->start[d->n]; ++*id) {
        const char *key = ledger_key(d, *id, &len);

        if (key && len == want && !memcmp(key, name, len))
            return 0;
    }
    errno = 0;
    *id = strtoull(name, &end, 10);
    if (*end || end == name || errno || name[0] == '-')
        return cli_usage(d->n ? "no sample has the key '%s'"
                              : "'%s' is not a number: to look for a key, say --data DATA",
                         name);
    stk_ledger_file_at(l, 0, &f);
    if (*id >= f.data.samples)
        return cli_usage("there is no sample %" PRIu64 ": ids are 0 to %" PRIu64, *id,
                         f.data.samples - 1);
    return 0;
}

static void put_key(const ledger_data *d, uint64_t id)
{
    size_t len;
    const char *key = ledger_key(d, id, &len);

    if (key) {
        fputs(" (", stdout);
        cli_put_shown(stdout, key, len);
        putchar(')');
    }
}

static void json_key(cli_json *j, const char *name, const ledger_data *d, uint64_t id)
{
    size_t len;
    const char *key = ledger_key(d, id, &len);

    if (key)
        cli_json_bytes(j, name, key, len);
}

/* ---- a sample ---- */

static void sample_json(const hits *h, const ledger_data *d, uint64_t id)
{
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '{');
    cli_json_count(&j, "sample", id);
    json_key(&j, "key", d, id);
    cli_json_open(&j, "seen", '[');
    for (size_t i = 0; i < h->n; i++) {
        const hit *x = &h->list[i];

        cli_json_open(&j, NULL, '{');
        cli_json_count(&j, "epoch", x->epoch);
        cli_json_count(&j, "step", x->step);
        cli_json_count(&j, "rank", x->rank);
        cli_json_count(&j, "world_size", x->world);
        cli_json_count(&j, "row", x->row);
        cli_json_count(&j, "generation", x->generation);
        cli_json_count(&j, "position", x->position);
        cli_json_bool(&j, "valid", x->valid);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static void sample_lines(const hits *h, const ledger_data *d, uint64_t id)
{
    cli_put(stdout, "sample %" PRIu64, id);
    put_key(d, id);
    cli_put(stdout, "%s\n", h->n ? ":" : ": never seen");
    for (size_t i = 0; i < h->n; i++) {
        const hit *x = &h->list[i];

        cli_put(stdout,
                "  epoch %" PRIu64 ", step %" PRIu64 ", rank %u of %u, row %u, generation %" PRIu64
                "%s\n",
                x->epoch, x->step, x->rank, x->world, x->row, x->generation,
                x->valid ? "" : " (not valid: it fills a place)");
    }
}

int ledger_sample(stk_ledger *l, const ledger_data *d, const char *name, int json)
{
    hits h = { 0 };
    uint64_t id;
    int rc = id_of(l, d, name, &id);

    if (!rc)
        rc = collect(l, &id, NULL, &h);
    if (!rc && json)
        sample_json(&h, d, id);
    else if (!rc)
        sample_lines(&h, d, id);
    rc = rc || h.n ? rc : CLI_BAD;
    free(h.list);
    return rc;
}

/* ---- a step ---- */

/* How many hits from `at` on are of one rank's batch. */
static size_t batch_of(const hits *h, size_t at)
{
    const hit *a = &h->list[at];
    size_t n = 1;

    while (at + n < h->n && h->list[at + n].row == n && h->list[at + n].rank == a->rank)
        n++;
    return n;
}

static void step_json(const hits *h, const ledger_data *d)
{
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '[');
    for (size_t i = 0, n; i < h->n; i += n) {
        const hit *x = &h->list[i];

        n = batch_of(h, i);
        cli_json_open(&j, NULL, '{');
        cli_json_count(&j, "epoch", x->epoch);
        cli_json_count(&j, "step", x->step);
        cli_json_count(&j, "position", x->position);
        cli_json_count(&j, "count", x->count);
        cli_json_count(&j, "generation", x->generation);
        cli_json_count(&j, "rank", x->rank);
        cli_json_count(&j, "world_size", x->world);
        cli_json_open(&j, "ids", '[');
        for (size_t k = 0; k < n; k++)
            cli_json_count(&j, NULL, x[k].id);
        cli_json_close(&j, ']');
        cli_json_open(&j, "valid", '[');
        for (size_t k = 0; k < n; k++)
            cli_json_bool(&j, NULL, x[k].valid);
        cli_json_close(&j, ']');
        if (d->n) {
            cli_json_open(&j, "keys", '[');
            for (size_t k = 0; k < n; k++)
                json_key(&j, NULL, d, x[k].id);
            cli_json_close(&j, ']');
        }
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
}

static void step_lines(const hits *h, const ledger_data *d)
{
    for (size_t i = 0, n; i < h->n; i += n) {
        const hit *x = &h->list[i];

        n = batch_of(h, i);
        cli_put(stdout,
                "epoch %" PRIu64 ", step %" PRIu64 ", generation %" PRIu64 ", rank %u of %u:\n ",
                x->epoch, x->step, x->generation, x->rank, x->world);
        for (size_t k = 0; k < n; k++) {
            cli_put(stdout, " %" PRIu64 "%s", x[k].id, x[k].valid ? "" : "!");
            put_key(d, x[k].id);
        }
        putchar('\n');
    }
}

int ledger_step(stk_ledger *l, const ledger_data *d, uint64_t step, int json)
{
    hits h = { 0 };
    int rc = collect(l, NULL, &step, &h);

    if (!rc && json)
        step_json(&h, d);
    else if (!rc && h.n)
        step_lines(&h, d);
    else if (!rc)
        cli_put(stdout, "no step %" PRIu64 " was handed out\n", step);
    rc = rc || h.n ? rc : CLI_BAD;
    free(h.list);
    return rc;
}
