/* SPDX-License-Identifier: Apache-2.0 */
/* read_steps.c - see read_steps.h. */
#include "source/read_steps.h"

#include "base/mem.h"

#define LEAST ((size_t)64 << 10)
#define MOST ((size_t)8 << 20)
#define GAP ((uint64_t)1 << 20)   /* that may be passed over by a step that goes on */
#define TAIL ((uint64_t)1 << 20)  /* a jump so near to the end reads up to it */
#define CACHED ((size_t)16 << 20) /* bytes of a step that is cached, at most */

static void forget(stk_read_steps *s)
{
    for (uint32_t i = 0; i < s->n_cached; i++)
        stk_free(s->cached[i].data);
    s->n_cached = 0;
}

/* Before another step takes its place. */
static void cache(stk_read_steps *s)
{
    if (s->exact || !s->len || s->n_cached == STK_STEPS_CACHED || s->cap > CACHED)
        return;
    s->cached[s->n_cached++] = (stk_read_step){ s->data, s->at, s->len };
    s->data = NULL;
    s->cap = 0;
}

/* 1: some step has these bytes. */
static int find(const stk_read_steps *s, uint64_t at, size_t len, stk_bytes *out)
{
    stk_read_step one = { s->data, s->at, s->len };

    for (uint32_t i = 0;; one = s->cached[i++]) {
        if (at >= one.at && at - one.at <= one.len && len <= one.len - (size_t)(at - one.at)) {
            *out = (stk_bytes){ one.data + (at - one.at), len };
            return 1;
        }
        if (i == s->n_cached)
            return 0;
    }
}

void stk_read_steps_begin(stk_read_steps *s, uint64_t size)
{
    forget(s);
    s->size = size;
    s->at = 0;
    s->len = s->step = 0;
}

void stk_read_steps_fini(stk_read_steps *s)
{
    forget(s);
    stk_free(s->data);
    *s = (stk_read_steps){ 0 };
}

/* Bytes to read for `len` from `at` on, which are in the file. */
static size_t step_from(stk_read_steps *s, uint64_t at, size_t len)
{
    int goes_on = s->len && at >= s->at && (at <= s->at + s->len || at - s->at - s->len <= GAP);
    uint64_t left = s->size - at;

    if (s->exact)
        return len;
    s->step = !goes_on ? LEAST : s->step * 2 < MOST ? s->step * 2 : MOST;
    if (!goes_on && at && left <= TAIL)
        return (size_t)left;
    if (len < s->step)
        len = s->step;
    return len < left ? len : (size_t)left;
}

int stk_read_steps_read(void *steps, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    stk_read_steps *s = steps;
    size_t want;
    int rc;

    if (at > s->size || len > s->size - at)
        return stk_fail(err, STK_ECORRUPT, "it ends before byte %" PRIu64, at + len);
    if (find(s, at, len, out))
        return 0;
    want = step_from(s, at, len);
    cache(s);
    if (want > s->cap) {
        stk_free(s->data);
        s->cap = 0;
        s->len = 0;
        s->data = stk_alloc(want);
        if (!s->data)
            return stk_fail_nomem(err, want);
        s->cap = want;
    }
    rc = s->fill(s->cookie, at, want, s->data, err);
    s->at = at;
    s->len = rc < 0 ? 0 : want;
    *out = (stk_bytes){ s->data, len };
    return rc;
}
