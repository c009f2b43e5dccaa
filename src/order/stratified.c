/* SPDX-License-Identifier: Apache-2.0 */
/* stratified.c - every run of positions has the classes in the proportions of the data.
 *
 * A pattern (pattern.c) says which class stands at each place, spread as evenly as can be: any run
 * of n places has n times a class's share, give or take less than 2.  It is made once; an epoch
 * begins somewhere in it and goes round, and takes the samples of each class in a permutation of
 * its own.  So an epoch has every sample once, and neither ranks nor batch sizes matter: a rank's
 * batch is a run of positions. */
#include "base/hash.h"
#include "base/mem.h"
#include "order/order.h"

#define STREAM 0xE7037ED1A0B428DBu
#define RUN 32

typedef struct strata {
    const stk_sample_set *set;
    uint64_t n, seed;
    uint32_t classes;
    int shuffle;
    uint64_t *first;  /* classes + 1: where each begins in `member` */
    uint32_t *member; /* the sample set's numbers, class by class */
    uint32_t *place;  /* the pattern: which member stands at a place, before it is permuted */
} strata;

static uint64_t strata_len(const void *state)
{
    return ((const strata *)state)->n;
}

/* Where in the pattern an epoch begins. */
static uint64_t turn_of(const strata *s, uint64_t epoch)
{
    uint64_t h = stk_mix64(stk_mix64(s->seed ^ STREAM) + epoch);

    return s->shuffle ? (uint64_t)((unsigned __int128)h * s->n >> 64) : 0;
}

static void class_perm(const strata *s, uint32_t class, uint64_t epoch, stk_perm *perm)
{
    stk_perm_init(perm, s->first[class + 1] - s->first[class], stk_mix64(s->seed + STREAM) + class,
                  epoch);
}

/* Which member stands at a position. */
static uint64_t member_at(const strata *s, uint64_t epoch, uint64_t turn, uint64_t position)
{
    uint64_t place = position + turn, at = s->place[place < s->n ? place : place - s->n];
    uint32_t class;
    stk_perm perm;

    if (!s->shuffle)
        return at;
    class = stk_pattern_kind(s->first, s->classes, at);
    class_perm(s, class, epoch, &perm);
    return s->first[class] + stk_perm_at(&perm, at - s->first[class]);
}

static void strata_at(const void *state, uint64_t epoch, const uint64_t *position, uint32_t n,
                      stk_where *out)
{
    const strata *s = state;
    uint64_t turn = turn_of(s, epoch), at[RUN];

    for (uint32_t from = 0; from < n; from += RUN) {
        uint32_t m = n - from < RUN ? n - from : RUN;

        for (uint32_t i = 0; i < m; i++) {
            at[i] = member_at(s, epoch, turn, position[from + i]);
            __builtin_prefetch(&s->member[at[i]]);
        }
        for (uint32_t i = 0; i < m; i++)
            stk_sample_set_at(s->set, s->member[at[i]], &out[from + i]);
    }
}

/* Where a number stands in `member`: it is sorted within each class. */
static uint64_t member_of(const strata *s, uint64_t number)
{
    for (uint32_t c = 0; c < s->classes; c++) {
        uint64_t lo = s->first[c], hi = s->first[c + 1];

        while (lo < hi) {
            uint64_t mid = lo + (hi - lo) / 2;

            if (s->member[mid] < number)
                lo = mid + 1;
            else
                hi = mid;
        }
        if (lo < s->first[c + 1] && s->member[lo] == number)
            return lo;
    }
    return UINT64_MAX;
}

static uint64_t strata_find(const void *state, uint64_t epoch, const stk_where *where)
{
    const strata *s = state;
    uint64_t number = stk_sample_set_find(s->set, where), at, turn = turn_of(s, epoch);

    if (number == UINT64_MAX)
        return UINT64_MAX;
    at = member_of(s, number);
    if (s->shuffle) {
        uint32_t class = stk_pattern_kind(s->first, s->classes, at);
        stk_perm perm;

        class_perm(s, class, epoch, &perm);
        at = s->first[class] + stk_perm_inverse(&perm, at - s->first[class]);
    }
    for (uint64_t p = 0; p < s->n; p++)
        if (s->place[p] == at)
            return p >= turn ? p - turn : p + s->n - turn;
    return UINT64_MAX;
}

static void strata_close(void *state)
{
    strata *s = state;

    stk_free(s->first);
    stk_free(s->member);
    stk_free(s->place);
    stk_free(s);
}

/* Numbers by class, in order within each. */
static void deal_members(strata *s, const uint32_t *class)
{
    for (uint64_t i = 0; i < s->n; i++)
        s->first[class[stk_sample_set_id(s->set, i)] + 1]++;
    for (uint32_t c = 0; c < s->classes; c++)
        s->first[c + 1] += s->first[c];
    for (uint64_t i = 0; i < s->n; i++)
        s->member[s->first[class[stk_sample_set_id(s->set, i)]]++] = (uint32_t)i;
    for (uint32_t c = s->classes; c > 0; c--) /* each has moved to its end: back */
        s->first[c] = s->first[c - 1];
    s->first[0] = 0;
}

static int strata_init(strata *s, const uint32_t *class, stk_error *err)
{
    stk_pattern *p = NULL;

    s->first = stk_zalloc((size_t)s->classes + 1, sizeof *s->first);
    s->member = stk_zalloc(s->n, sizeof *s->member);
    s->place = stk_zalloc(s->n, sizeof *s->place);
    if (!s->first || !s->member || !s->place)
        return stk_fail_nomem(err, s->n * (sizeof *s->member + sizeof *s->place));
    deal_members(s, class);
    STK_TRY(stk_pattern_open(&p, s->classes, err));
    stk_pattern_make(p, s->first, s->classes, s->seed ^ STREAM, s->place);
    stk_pattern_close(&p);
    return 0;
}

int stk_order_stratified(stk_order *order, const stk_sample_set *set, const stk_strata *how,
                         stk_error *err)
{
    uint64_t n = stk_sample_set_len(set);
    strata *s;
    int rc;

    if (n > UINT32_MAX)
        return stk_fail(err, STK_ELIMIT,
                        "stratify is for at most 4,294,967,295 samples, not %" PRIu64, n);
    s = STK_NEW(strata);
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    *s = (strata){
        .set = set, .n = n, .seed = how->seed, .classes = how->classes, .shuffle = how->shuffle
    };
    rc = strata_init(s, how->of, err);
    if (rc < 0) {
        strata_close(s);
        return rc;
    }
    *order = (stk_order){ .abi = STK_PLUGIN_ABI,
                          .size = sizeof(stk_order),
                          .name = "stratified",
                          .state = s,
                          .len = strata_len,
                          .at = strata_at,
                          .find = strata_find,
                          .close = strata_close };
    return 0;
}
