/* SPDX-License-Identifier: Apache-2.0 */
/* request_test.c - one sample's reads: joined when near, shared when equal, checked when short,
 * now or later.  Of some fields only ranges are wanted: what is joined, what is left unread. */
#include "fetch/request_testing.h"

static void queue(void *cookie, stk_io *io)
{
    (void)cookie;
    act.queued[act.n_queued++] = io;
}

static void near_fields_are_one_read(void **state)
{
    static const struct {
        const char *fields;
        unsigned reads;
    } cases[] = { { "ab", 1 },  { "ba", 1 }, { "a", 1 },   { "aa", 1 },  { "abab", 1 },
                  { "ac", 2 },  { "ca", 2 }, { "cab", 2 }, { "apc", 1 }, { "pp", 1 },
                  { "ace", 2 }, { "e", 1 },  { "ee", 1 },  { "ae", 2 },  { "bc", 2 } };
    stk_error err;

    (void)state;
    act.warm = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        act.reads = 0;
        begin(cases[i].fields);
        assert_int_equal(r->reads.n, cases[i].reads);
        assert_int_equal(stk_request_try(r, &err), 0);
        assert_int_equal(act.reads, cases[i].reads);
        check(cases[i].fields);
        stk_request_end(r);
    }
    assert_true(atomic_load(&account.used) > PAD); /* its memory is kept for the next */
    assert_int_equal(stk_request_trim(r), 1);
    assert_int_equal(stk_request_trim(r), 0);
    assert_int_equal(atomic_load(&account.used), 0);
}

static void cold_reads_come_later(void **state)
{
    stk_error err;

    (void)state;
    begin("cab");
    assert_int_equal(stk_request_try(r, &err), STK_PENDING);
    assert_int_equal(stk_request_submit(r, queue, NULL, &err), STK_PENDING);
    assert_int_equal(act.n_queued, 2);
    for (unsigned i = 2; i--;) { /* the other way round */
        uint64_t retried = 0;

        assert_int_equal(arrivals, 0);
        stk_io_read(act.queued[i], &retried);
        act.queued[i]->done(act.queued[i]);
    }
    assert_int_equal(arrivals, 1);
    check("cab");
}

static void or_here_and_now(void **state)
{
    stk_error err;

    (void)state;
    act.fail = 2;
    begin("ac");
    assert_int_equal(stk_request_try(r, &err), STK_PENDING);
    assert_int_equal(stk_request_submit(r, NULL, NULL, &err), 0);
    assert_int_equal(atomic_load(&r->retries), 2);
    assert_int_equal(arrivals, 0);
    check("ac");
}

static void failures_have_an_address(void **state)
{
    stk_error err;

    (void)state;
    act.fail = -1;
    begin("ac");
    assert_int_equal(stk_request_try(r, &err), STK_PENDING);
    assert_int_equal(stk_request_submit(r, NULL, NULL, &err), 0);
    assert_int_equal(stk_request_finish(r, &err), STK_EIO);
    assert_int_equal(err.offset, 512);
    assert_non_null(strstr(err.message, strerror(ENETDOWN)));
}

static void short_reads_are_found(void **state)
{
    stk_error err;

    (void)state;
    act.warm = 1;
    for (size_t cut = 513; cut < 3000; cut += 61) {
        int rc;

        act.cut = cut;
        begin("ab");
        assert_int_equal(stk_request_try(r, &err), 0);
        rc = stk_request_finish(r, &err);
        if (cut >= 1536 + 100) { /* b is at 1536 */
            assert_int_equal(rc, 0);
        } else {
            assert_int_equal(rc, STK_ESTALE);
            assert_int_equal(err.offset, cut < 522 ? 512 : 1536);
            assert_non_null(strstr(err.message, "it was cut after it was indexed"));
        }
        stk_request_end(r);
    }
}

static void limits(void **state)
{
    stk_error err;

    (void)state;
    r->data = ds;
    r->want[0].number = 2;
    assert_int_equal(ds->ops->entry(ds, 0, &r->entry, &err), 0);
    account.limit = PAD - 1;
    assert_int_equal(stk_request_begin(r, 1, &err), STK_ELIMIT); /* never: a bad sample */
    assert_int_equal(r->memory.lacks, 0);
    account.limit = 2 * PAD;
    assert_int_equal(stk_account_take(&account, PAD + 1), 1);
    assert_int_equal(stk_request_begin(r, 1, &err), STK_ELIMIT); /* not now */
    assert_int_equal(r->memory.lacks, PAD);
    stk_account_give(&account, PAD + 1);
    assert_int_equal(atomic_load(&account.used), 0);
    account.limit = PAD;
    assert_int_equal(stk_request_begin(r, 1, &err), 0); /* to the byte */
    stk_request_end(r);
    assert_int_equal(stk_request_trim(r), 1);
    assert_int_equal(atomic_load(&account.used), 0);
    account.limit = 1 << 20;
    stk_mem_fail_at(1);
    assert_int_equal(stk_request_begin(r, 1, &err), STK_ENOMEM);
    stk_mem_fail_at(0);
    assert_int_equal(atomic_load(&account.used), 0);
}

/* Data that says a field is where no file can reach. */
static int far_locate(const stk_dataset *d, const stk_entry *e, const stk_field *field, int named,
                      stk_place *out, stk_error *err)
{
    (void)d;
    (void)named;
    (void)e;
    (void)field;
    (void)err;
    *out = (stk_place){ .offset = UINT64_MAX - 10, .len = 20 };
    return 0;
}

static void places_that_wrap(void **state)
{
    stk_data_ops far = *ds->ops;
    stk_shard_data copy;
    stk_error err;

    (void)state;
    memcpy((void *)&copy, ds, sizeof copy);
    far.locate = far_locate;
    copy.base.ops = &far;
    copy.base.can &= ~(uint32_t)STK_DATA_RANGES;
    r->data = &copy.base;
    assert_int_equal(ds->ops->entry(ds, 0, &r->entry, &err), 0);
    assert_int_equal(stk_request_begin(r, 1, &err), STK_ECORRUPT);
}

/* ---- ranges ---- */

typedef struct wish { /* of one field */
    char field;
    stk_media_range range[STK_MEDIA_RANGES]; /* none: all of it */
} wish;

/* Of a store: a read costs far more there than the bytes between two.  1: here. */
static int is_local;

static void begin_parts(const wish *w, uint32_t n)
{
    static stk_source store;
    char names[9] = { 0 };
    stk_error err;

    memcpy(&store, &unit, sizeof store);
    store.can |= STK_SOURCE_REMOTE;

    for (uint32_t i = 0; i < n; i++)
        names[i] = w[i].field;
    name(names);
    assert_int_equal(stk_request_locate(r, n, &err), 0);
    for (uint32_t i = 0; i < n; i++) {
        stk_ranged *g = &r->ranged[i];

        for (; g->n < STK_MEDIA_RANGES && w[i].range[g->n].len; g->n++)
            g->range[g->n] = w[i].range[g->n];
        r->want[i].file->source = is_local ? &unit : &store;
    }
    assert_int_equal(stk_request_plan_parts(r, &err), 0);
    assert_int_equal(stk_request_in_parts(r), 1);
}

static void finish_parts(void)
{
    stk_error err;

    assert_int_equal(stk_request_try(r, &err), 0);
    if (stk_request_finish(r, &err) < 0)
        fail_msg("%s", err.message);
    for (uint32_t i = 0; i < r->n; i++) {
        const stk_wanted *w = &r->want[i];
        const stk_ranged *g = &r->ranged[i];

        assert_int_equal(w->bytes.len, g->n ? 0 : w->place.len);
        if (!g->n)
            assert_memory_equal(w->bytes.data, image + w->place.offset, w->bytes.len);
        for (uint32_t k = 0; k < g->n; k++) {
            assert_int_equal(g->part[k].offset, g->range[k].offset);
            assert_int_equal(g->part[k].bytes.len, g->range[k].len);
            assert_memory_equal(g->part[k].bytes.data, image + w->place.offset + g->range[k].offset,
                                g->range[k].len);
        }
    }
}

/* Bytes of fields with ranges that are in no read, one by one. */
static uint64_t count_unread(void)
{
    static uint8_t seen[sizeof image]; /* 1: of such a field; 2: read */
    uint64_t n = 0;

    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < r->n; i++)
        for (uint64_t k = 0; r->ranged[i].n && k < r->want[i].place.len; k++)
            seen[r->want[i].place.offset + k] |= 1;
    for (uint32_t i = 0; i < r->reads.n; i++)
        for (uint64_t k = 0; k < r->reads.io[i].len; k++)
            seen[r->reads.io[i].offset + k] |= 2;
    for (size_t i = 0; i < sizeof seen; i++)
        n += seen[i] == 1;
    return n;
}

static void parts_are_joined(void **state)
{
    static const struct {
        wish wish[3];
        uint32_t n, reads;
        uint64_t unread;
    } cases[] = {
        { { { 'p', { { 100, 50 } } } }, 1, 1, PAD - 50 },
        /* what is between two ranges is read where it is little, and then is not unread */
        { { { 'p', { { 0, 10 }, { 20000, 10 } } } }, 1, 1, PAD - 20010 },
        { { { 'p', { { 0, 10 }, { 39000, 10 } } } }, 1, 2, PAD - 20 },
        /* fields that are neighbours are one read, over a hole too */
        { { { 'a' }, { 'p', { { 39000, 100 } } } }, 2, 1, PAD - 39100 },
        { { { 'p', { { 0, 10 } } }, { 'c' } }, 2, 1, 0 },
        { { { 'c' }, { 'l', { { 1000000, 100 } } } }, 2, 1, LARGE - 1000100 },
        { { { 'c' }, { 'l', { { LARGE - 10, 10 } } } }, 2, 2, LARGE - 10 },
        /* outputs of one field: it is counted once */
        { { { 'p', { { 5, 5 } } }, { 'p', { { 5, 5 } } } }, 2, 1, PAD - 5 },
        { { { 'p', { { 5, 5 } } }, { 'p', { { 39990, 5 } } } }, 2, 1, PAD - 39990 },
        { { { 'p', { { 5, 5 } } }, { 'p' } }, 2, 1, 0 },
        { { { 'l',
              { { 0, 9 },
                { 50000, 9 },
                { 100000, 9 },
                { 150000, 9 },
                { 200000, 9 },
                { 250000, 9 },
                { 300000, 9 },
                { 350000, 9 } } } },
          1,
          8,
          LARGE - 72 },
    };

    (void)state;
    act.warm = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_parts(cases[i].wish, cases[i].n);
        assert_int_equal(r->reads.n, cases[i].reads);
        finish_parts();
        assert_int_equal(count_unread(), cases[i].unread);
        assert_int_equal(stk_request_unread(r), cases[i].unread);
        stk_request_end(r);
    }
}

/* Files here: a second call costs as much as few bytes, so that only near ones are one read. */
static void parts_of_files_here(void **state)
{
    static const wish near[2] = { { 'a' }, { 'p', { { 100, 100 } } } };
    static const wish apart[2] = { { 'c' }, { 'l', { { 1000000, 100 } } } };

    (void)state;
    act.warm = 1;
    is_local = 1;
    begin_parts(near, 2);
    assert_int_equal(r->reads.n, 1);
    finish_parts();
    stk_request_end(r);
    begin_parts(apart, 2);
    assert_int_equal(r->reads.n, 2);
    finish_parts();
    assert_int_equal(stk_request_unread(r), LARGE - 100);
    stk_request_end(r);
    is_local = 0;
}

/* A source that joins neighbours reads what is between them; who decodes may read more. */
static void what_is_read_besides(void **state)
{
    static const wish w[2] = { { 'p', { { 1000, 10 } } }, { 'l', { { 1000000, 10 } } } };

    (void)state;
    act.warm = 1;
    begin_parts(w, 1);
    finish_parts();
    assert_int_equal(r->reads.io[0].before, 1000);
    assert_int_equal(r->reads.io[0].after, PAD - 1010);
    r->reads.io[0].before = 0;
    assert_int_equal(stk_request_unread(r), PAD - 1010);
    r->reads.io[0].after = 0;
    assert_int_equal(stk_request_unread(r), 0);
    stk_request_end(r);
    begin_parts(w, 2); /* a read of both: what is before the first, what is after the last */
    finish_parts();
    assert_int_equal(r->reads.n, 1);
    assert_int_equal(r->reads.io[0].before, 1000);
    assert_int_equal(r->reads.io[0].after, LARGE - 1000010);
    r->ranged[1].later = 500;
    assert_int_equal(stk_request_unread(r), 1000 + LARGE - 1000010 - 500);
    r->ranged[1].later = UINT64_MAX / 2; /* some of it again and again */
    assert_int_equal(stk_request_unread(r), 1000);
}

static void any_parts(void **state)
{
    stk_rng rng;

    (void)state;
    act.warm = 1;
    stk_rng_init(&rng, 27, 0, 0, 0, 0);
    for (int turn = 0; turn < 60; turn++) {
        uint32_t n = 1 + stk_rng_below(&rng, 4);
        wish w[4] = { { 0 } };

        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = 0, len = i & 1 ? LARGE : PAD;

            w[i].field = i & 1 ? 'l' : 'p';
            for (uint32_t k = 0; k < 1 + stk_rng_below(&rng, STK_MEDIA_RANGES); k++) {
                at += stk_rng_below(&rng, len / 4);
                if (at + 500 > len)
                    break;
                w[i].range[k] = (stk_media_range){ at, 1 + stk_rng_below(&rng, 500) };
                at += 500;
            }
        }
        w[0].range[0].len += !w[0].range[0].len;
        begin_parts(w, n);
        finish_parts();
        assert_int_equal(stk_request_unread(r), count_unread());
        stk_request_end(r);
    }
}

static void short_parts_are_found(void **state)
{
    const wish w = { 'p', { { 0, 10 }, { 39000, 10 } } };
    stk_error err;

    (void)state;
    act.warm = 1;
    begin_parts(&w, 1);
    act.cut = (size_t)r->want[0].place.offset + 39005;
    assert_int_equal(stk_request_try(r, &err), 0);
    assert_int_equal(stk_request_finish(r, &err), STK_ESTALE);
    assert_non_null(strstr(err.message, "it was cut after it was indexed"));
}

/* The first stage of a, p and l, of which l comes later. */
static void begin_first(void)
{
    stk_error err;

    assert_int_equal(stk_request_locate(r, name("apl"), &err), 0);
    stk_request_defer(r, 2);
    assert_int_equal(stk_request_has_range(r, 2), 0);
    assert_int_equal(stk_request_plan_parts(r, &err), 0);
    assert_int_equal(r->reads.stage, STK_REQUEST_FIRST);
    assert_int_equal(stk_request_try(r, &err), 0);
    assert_int_equal(stk_request_finish(r, &err), 0);
}

/* A field of which the range is known when others were read; they stay where they are. */
static void the_second_stage(void **state)
{
    const uint8_t *a, *p;
    stk_error err;

    (void)state;
    act.warm = 1;
    account.limit = 8 << 20;
    for (int whole = 0; whole < 2; whole++) {
        begin_first();
        assert_int_equal(r->reads.total, 10 + PAD + 512 + 2 * 512 + 512 - 10); /* not of l */
        a = r->want[0].bytes.data;
        p = r->want[1].bytes.data;
        assert_int_equal(stk_request_second(r, &err), 0);
        assert_int_equal(stk_request_has_range(r, 0), 0);
        assert_int_equal(stk_request_has_range(r, 2), 1);
        stk_request_defer(r, 2); /* once */
        assert_int_equal(r->reads.stage, STK_REQUEST_SECOND);
        r->ranged[2].n = !whole;
        r->ranged[2].range[0] = (stk_media_range){ 5000, 300 };
        assert_int_equal(stk_request_plan_parts(r, &err), 0);
        assert_int_equal(r->reads.total, whole ? LARGE : 300);
        finish_parts();
        assert_ptr_equal(r->want[0].bytes.data, a);
        assert_ptr_equal(r->want[1].bytes.data, p);
        check("ap");
        assert_int_equal(stk_request_unread(r), whole ? 0 : LARGE - 300);
        stk_request_end(r);
        assert_int_equal(r->reads.stage, STK_REQUEST_WHOLE);
        assert_false(r->want[2].second);
    }
    begin("apl"); /* one stage again */
    assert_int_equal(stk_request_try(r, &err), 0);
    check("ap");
}

/* The second stage finds no room: the request begins again when there is room for both. */
static void room_for_both_stages(void **state)
{
    stk_error err;

    (void)state;
    act.warm = 1;
    account.limit = LARGE + 2 * PAD;
    begin_first();
    assert_int_equal(stk_request_second(r, &err), 0);
    assert_int_equal(stk_account_take(&account, PAD), 1); /* others */
    assert_int_equal(stk_request_plan_parts(r, &err), STK_ELIMIT);
    assert_int_equal(r->memory.lacks, LARGE);
    assert_int_equal(r->memory.second, LARGE);
    assert_int_equal(r->reads.stage, STK_REQUEST_WHOLE); /* it has ended */
    stk_request_trim(r);
    assert_int_equal(stk_request_locate(r, name("apl"), &err), 0);
    stk_request_defer(r, 2);
    assert_int_equal(stk_account_take(&account, 2 * PAD), 1);
    assert_int_equal(stk_request_plan_parts(r, &err), STK_ELIMIT); /* before anything is read */
    assert_int_equal(r->memory.lacks, LARGE);
    stk_request_trim(r);
    stk_account_give(&account, 3 * PAD);
    begin_first();
    assert_int_equal(stk_request_second(r, &err), 0);
    assert_int_equal(stk_request_plan_parts(r, &err), 0);
    assert_int_equal(r->memory.second, 0);
    finish_parts();
    stk_request_end(r);
    stk_request_trim(r);
    account.limit = LARGE - 1; /* never: a bad sample */
    begin_first();
    assert_int_equal(stk_request_second(r, &err), 0);
    assert_int_equal(stk_request_plan_parts(r, &err), STK_ELIMIT);
    assert_int_equal(r->memory.lacks, 0);
    assert_int_equal(r->memory.second, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fresh, through)
    const struct CMUnitTest tests[] = {
        T(near_fields_are_one_read),
        T(cold_reads_come_later),
        T(or_here_and_now),
        T(failures_have_an_address),
        T(short_reads_are_found),
        T(limits),
        T(places_that_wrap),
        T(parts_are_joined),
        T(parts_of_files_here),
        T(what_is_read_besides),
        T(any_parts),
        T(short_parts_are_found),
        T(the_second_stage),
        T(room_for_both_stages),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
