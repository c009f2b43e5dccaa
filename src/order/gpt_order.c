/* SPDX-License-Identifier: Apache-2.0 */
/* gpt_order.c - see gpt_order.h.
 *
 * An epoch has one table: the document at each place, where each sample begins (place and token),
 * and which sample stands at each position.  It is made when it is first looked at and costs 4
 * bytes a document and pass and 12 a sample; at() and the cursor only read it.  Where samples begin
 * needs no rule of its own: sample k begins k * length tokens into the stream of documents. */
#include "order/gpt_order.h"

#include "base/mt19937.h"
#include "order/order.h"

#define TABLES 2 /* an epoch, and the next one that is begun before it ends */

typedef struct begin {
    uint32_t document, offset; /* its place in the table, a token of it */
} begin;

typedef struct gpt {
    stk_gpt_plan plan;
    const stk_megatron **part;
    uint64_t *first; /* n_parts + 1: number of each part's first document */
    uint64_t tokens; /* of one pass */
    uint64_t passes;
    uint64_t numbers;  /* samples that all passes have */
    uint64_t together; /* passes that are shuffled as one ... */
    uint64_t early;    /* ... and the samples that begin in them */
    stk_tables *tables;
} gpt;

typedef struct table {
    begin *sample;
    uint32_t *position, *document;
} table;

static uint64_t documents(const gpt *g)
{
    return g->first[g->plan.n_parts];
}

static table table_at(const gpt *g, const void *memory)
{
    table t = { .sample = (begin *)(uintptr_t)memory };

    t.position = (uint32_t *)(t.sample + g->numbers);
    t.document = t.position + g->numbers;
    return t;
}

static void locate(const gpt *g, uint32_t document, stk_gpt_run *out)
{
    uint32_t lo = 0;

    for (uint32_t hi = g->plan.n_parts; hi - lo > 1;) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (g->first[mid] <= document)
            lo = mid;
        else
            hi = mid;
    }
    out->part = lo;
    out->n = stk_megatron_sequence(g->part[lo], document - g->first[lo], &out->at);
}

static uint64_t tokens_of(const gpt *g, uint32_t document)
{
    stk_gpt_run run;

    if (g->plan.n_parts == 1)
        return stk_megatron_length(g->part[0], document);
    locate(g, document, &run);
    return run.n;
}

/* ---- a table ---- */

static void shuffled(stk_mt *m, uint32_t *x, uint64_t n, uint64_t from, uint64_t modulo)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] = (uint32_t)((from + i) % modulo);
    stk_mt_shuffle(m, x, n);
}

static void find_begins(const gpt *g, table *t)
{
    uint64_t place = 0, offset = 0, last = g->passes * documents(g) - 1;
    uint64_t n = tokens_of(g, t->document[0]);

    for (uint64_t k = 0; k < g->numbers; k++, offset += g->plan.length) {
        for (; offset >= n && place < last; n = tokens_of(g, t->document[++place]))
            offset -= n;
        t->sample[k] = (begin){ (uint32_t)place, (uint32_t)offset };
    }
}

static void fill(void *cookie, uint64_t epoch, void *memory)
{
    const gpt *g = cookie;
    uint64_t n = documents(g), most = g->together * n;
    table t = table_at(g, memory);
    stk_mt m;

    stk_mt_init(&m, g->plan.seed + (uint32_t)epoch);
    shuffled(&m, t.document, most, 0, n);
    shuffled(&m, t.document + most, g->passes * n - most, 0, n);
    find_begins(g, &t);
    shuffled(&m, t.position, g->early, 0, UINT32_MAX);
    shuffled(&m, t.position + g->early, g->numbers - g->early, g->early, UINT32_MAX);
}

/* ---- the order ---- */

static uint64_t gpt_len(const void *state)
{
    const gpt *g = state;

    return g->plan.samples;
}

static void gpt_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                   stk_where *out)
{
    const gpt *g = state;
    table t = table_at(g, stk_tables_pin(g->tables, epoch));

    for (uint32_t i = 0; i < n; i++)
        out[i] = (stk_where){ .sample = t.position[position[i]] };
    stk_tables_unpin(g->tables, epoch);
}

static uint64_t gpt_find(const void *state, uint64_t epoch, const stk_where *where)
{
    const gpt *g = state;
    table t = table_at(g, stk_tables_pin(g->tables, epoch));
    uint64_t p = 0;

    while (p < g->plan.samples && t.position[p] != where->sample)
        p++;
    stk_tables_unpin(g->tables, epoch);
    return p < g->plan.samples && !where->dataset ? p : UINT64_MAX;
}

static void gpt_close(void *state)
{
    gpt *g = state;

    stk_tables_close(&g->tables);
    stk_free(g->first);
    stk_free(g->part);
    stk_free(g);
}

/* ---- how many passes, how many samples ---- */

static int count_documents(gpt *g, stk_error *err)
{
    for (uint32_t i = 0; i < g->plan.n_parts; i++) {
        const stk_megatron *m = g->plan.part[i];

        STK_TRY(stk_megatron_check(m, err));
        g->part[i] = m;
        g->first[i + 1] = g->first[i] + m->sequences;
        g->tokens += m->tokens;
    }
    if (!g->tokens)
        return stk_fail(err, STK_EINVAL, "there are no tokens: every document is empty");
    if (documents(g) > INT32_MAX)
        return stk_fail(err, STK_ELIMIT,
                        "Megatron's order is for at most 2,147,483,647 documents, not %" PRIu64,
                        documents(g));
    return 0;
}

static int too_many(const char *what, uint64_t n, stk_error *err)
{
    return stk_fail(err, STK_ELIMIT,
                    "Megatron's order of an epoch has at most 4,294,967,294 %s, not %" PRIu64
                    ": lower epoch_size",
                    what, n);
}

/* The last of several passes stands by itself where samples need less than four fifths of it. */
static void split_passes(gpt *g)
{
    uint64_t extra = g->plan.extra, length = g->plan.length, before, a_pass;

    g->together = g->passes;
    g->early = g->numbers;
    if (g->passes == 1)
        return;
    before = ((g->passes - 1) * g->tokens - extra) / length;
    a_pass = (g->tokens - extra) / length;
    if (g->plan.samples - before >= (uint64_t)(0.80 * (double)a_pass))
        return;
    g->together = g->passes - 1;
    g->early = before;
}

static int count_samples(gpt *g, stk_error *err)
{
    uint64_t extra = g->plan.extra, length = g->plan.length, wanted, all;

    if (__builtin_mul_overflow(g->plan.samples, length, &wanted) || wanted > INT64_MAX - extra)
        return too_many("samples", g->plan.samples, err);
    wanted += extra;
    g->passes = g->plan.samples ? (wanted - 1) / g->tokens + 1 : 1;
    if (g->passes > (UINT32_MAX - 1) / documents(g))
        return too_many("documents", g->passes * documents(g), err);
    all = g->passes * g->tokens; /* below wanted + tokens */
    g->numbers = (all - extra) / length;
    if (g->numbers >= UINT32_MAX)
        return too_many("samples", g->numbers, err);
    if (!g->plan.samples)
        g->plan.samples = g->numbers;
    if (!g->plan.samples)
        return stk_fail(err, STK_EINVAL,
                        "there are %" PRIu64 " tokens, and a sample takes %" PRIu64
                        ": lower block, or say how many samples an epoch has (epoch_size), and "
                        "the documents come several times",
                        g->tokens, length + extra);
    split_passes(g);
    return 0;
}

static int gpt_init(gpt *g, stk_error *err)
{
    uint64_t bytes;

    g->part = stk_zalloc(g->plan.n_parts, sizeof *g->part);
    g->first = stk_zalloc((size_t)g->plan.n_parts + 1, sizeof *g->first);
    if (!g->part || !g->first)
        return stk_fail_nomem(err, g->plan.n_parts * sizeof *g->first);
    STK_TRY(count_documents(g, err));
    STK_TRY(count_samples(g, err));
    bytes = g->numbers * (sizeof(begin) + sizeof(uint32_t)) +
            g->passes * documents(g) * sizeof(uint32_t);
    return stk_tables_open(&g->tables, TABLES, (size_t)bytes, fill, g, err);
}

int stk_order_gpt(stk_order *order, const stk_gpt_plan *plan, stk_error *err)
{
    gpt *g = STK_NEW(gpt);
    int rc;

    if (!g)
        return stk_fail_nomem(err, sizeof *g);
    g->plan = *plan;
    rc = gpt_init(g, err);
    g->plan.part = NULL; /* the list was the caller's; what it names is kept in `part` */
    if (rc < 0) {
        gpt_close(g);
        return rc;
    }
    *order = (stk_order){ .abi = STK_PLUGIN_ABI,
                          .size = sizeof(stk_order),
                          .name = "megatron",
                          .state = g,
                          .len = gpt_len,
                          .at = gpt_at,
                          .find = gpt_find,
                          .close = gpt_close };
    return 0;
}

uint64_t stk_gpt_numbers(const stk_order *order)
{
    return ((const gpt *)order->state)->numbers;
}

/* ---- a sample's tokens ---- */

void stk_gpt_enter(const stk_order *order, uint64_t epoch, uint64_t sample, uint64_t skip,
                   stk_gpt_cursor *c)
{
    const gpt *g = order->state;
    table t = table_at(g, stk_tables_pin(g->tables, epoch));

    *c = (stk_gpt_cursor){ .state = g,
                           .epoch = epoch,
                           .document = t.sample[sample].document,
                           .offset = t.sample[sample].offset + skip,
                           .documents = t.document };
}

void stk_gpt_next(stk_gpt_cursor *c, uint64_t want, stk_gpt_run *out)
{
    const gpt *g = c->state;

    for (;; c->document++) {
        *out = (stk_gpt_run){ 0 };
        if (c->document >= g->passes * documents(g))
            return;
        locate(g, c->documents[c->document], out);
        if (c->offset < out->n)
            break;
        c->offset -= out->n;
    }
    out->at += c->offset;
    out->n = out->n - c->offset < want ? out->n - c->offset : want;
    c->offset += out->n;
}

void stk_gpt_leave(stk_gpt_cursor *c)
{
    stk_tables_unpin(((const gpt *)c->state)->tables, c->epoch);
}
