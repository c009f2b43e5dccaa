/* SPDX-License-Identifier: Apache-2.0 */
/* read_steps.c - see read_steps.h. */
#include "source/read_steps.h"

#include "base/mem.h"

#define LEAST ((size_t)64 << 10)
#define MOST ((size_t)8 << 20)
#define GAP ((uint64_t)1 << 20)  /* that may be passed over by a step that goes on */
#define TAIL ((uint64_t)1 << 20) /* a jump so near to the end reads up to it */

void stk_read_steps_begin(stk_read_steps *s, uint64_t size)
{
    s->size = size;
    s->at = 0;
    s->len = s->step = 0;
}

void stk_read_steps_fini(stk_read_steps *s)
{
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
    if (at >= s->at && at - s->at <= s->len && len <= s->len - (size_t)(at - s->at)) {
        *out = (stk_bytes){ s->data + (at - s->at), len };
        return 0;
    }
    want = step_from(s, at, len);
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
