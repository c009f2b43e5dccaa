/* SPDX-License-Identifier: Apache-2.0 */
/* plan_groups.c - see plan_groups.h. */
#include "loader/plan_groups.h"

#include <stdlib.h>
#include <string.h>

#include "op/patch_size.h"

#define EIGHT 8 /* batches are multiples of this, as timm's are */

static stk_bin_rest rest_of(const stk_loader_options *o)
{
    if (!o->bucket_rest)
        return o->drop_last == STK_YES ? STK_REST_DROP : STK_REST_SMALLER;
    return !strcmp(o->bucket_rest, "drop")   ? STK_REST_DROP
           : !strcmp(o->bucket_rest, "wrap") ? STK_REST_WRAP
                                             : STK_REST_SMALLER;
}

int stk_groups_check(const stk_loader_options *o, stk_error *err)
{
    if (o->bucket_rest && !o->schedule && (!o->bucket || o->max_tokens))
        return stk_fail(err, STK_EINVAL,
                        "bucket_rest is for bucket with pictures of several sizes, and schedule");
    if (o->bucket_rest && o->drop_last == STK_YES && strcmp(o->bucket_rest, "drop") != 0)
        return stk_fail(err, STK_EINVAL,
                        "drop_last leaves a rest out and bucket_rest=\"%s\" does not: give one",
                        o->bucket_rest);
    if (!o->schedule)
        return 0;
    if (!o->max_tokens)
        return stk_fail(err, STK_EINVAL,
                        "schedule divides max_tokens, the patches of a rank's batch: give it");
    if (o->bucket || o->lengths || o->max_seconds > 0)
        return stk_fail(err, STK_EINVAL, "schedule says how many samples a batch has: leave %s",
                        o->bucket    ? "bucket"
                        : o->lengths ? "lengths"
                                     : "max_seconds");
    return 0;
}

/* ---- pictures of one size ---- */

int stk_groups_by_size(const stk_plan_chains *c, const stk_loader_options *o)
{
    int sizes = 0, lengths = o->lengths != NULL, must = 0;

    if (!o->bucket || stk_has_budget(o))
        return 0;
    for (uint32_t i = 0; i < c->n_out; i++) {
        must |= c->out[i].one_size;
        lengths |= c->chain[i].pack || c->chain[i].timed || c->chain[i].counted;
        sizes |= stk_has_sizes(c, i);
    }
    return must || (sizes && !lengths);
}

static int no_groups(const stk_schedule *s, const char *what, stk_error *err)
{
    if (stk_bins_count(s->bins, 0))
        return 0;
    return stk_fail(err, STK_EINVAL,
                    "no %s has samples for a batch of %u on each of %u ranks, and rests are left "
                    "out: lower the batch, or take bucket_rest=\"smaller\"",
                    what, s->binning.rows, s->binning.group);
}

int stk_groups_plan_sizes(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                          stk_error *err)
{
    stk_binning *h = &s->binning;

    if (in->o->global_batch_size)
        return stk_fail(err, STK_EINVAL,
                        "bucket: all ranks have the same number of pictures of one size: give "
                        "batch_size, not global_batch_size");
    if (in->o->lengths)
        return stk_fail(err, STK_EINVAL,
                        "bucket puts pictures of one size together: leave lengths");
    STK_TRY(stk_size_classes_plan(s, in, so_far, &h->classes, err));
    h->kind = STK_BIN_CLASS;
    h->length = s->classes;
    h->rows = so_far->ranks.rows;
    h->group = s->split.world;
    h->rest = rest_of(in->o);
    s->split.global = s->split.world; /* of bins */
    s->split.local = 0;
    STK_TRY(stk_schedule_bin(s, STK_TICKET_LISTED, err));
    return no_groups(s, "size", err);
}

/* ---- a schedule ---- */

static int bad_entry(const char *at, stk_error *err)
{
    return stk_fail(err, STK_EINVAL,
                    "schedule: \"%.40s\" does not begin with a number of patches, as 576, or with "
                    "the side of a patch before it, as 16:576; entries are separated by commas",
                    at);
}

/* "576" or "16:576"; *at moves past it. */
static int read_entry(const char **at, stk_bin_step *out, stk_error *err)
{
    const char *begin = *at;
    char *end;
    unsigned long n = strtoul(begin, &end, 10), side = 0;

    if (*begin >= '0' && *begin <= '9' && *end == ':') {
        side = n;
        begin = end + 1;
        n = strtoul(begin, &end, 10);
        if (!side || side > 1024)
            return bad_entry(*at, err);
    }
    if (*begin < '0' || *begin > '9' || !n || n > (1u << 24) || (*end && *end != ','))
        return bad_entry(*at, err);
    *at = *end ? end + 1 : end;
    out->limit = (stk_patch_limit){ .patches = (uint32_t)n, .side = (uint32_t)side };
    return *end && !end[1] ? bad_entry(end, err) : 0;
}

/* timm: calculate_naflex_batch_size(), with a divisor of 8. */
static uint32_t rows_of(const stk_loader_options *o, uint32_t patches)
{
    uint64_t rows = o->max_tokens / patches / EIGHT * EIGHT, most = o->batch_size;

    most = most ? most : STK_MAX_BATCH;
    rows = rows < most ? rows : most;
    return rows ? (uint32_t)rows : 1;
}

static const stk_patch_sizing *sizing_of(const stk_chain *c)
{
    for (uint32_t i = 0; i < c->n_all; i++)
        if (c->all[i]->op == &stk_op_resize_to_patches ||
            c->all[i]->op == &stk_op_random_resized_crop_to_patches)
            return c->all[i]->state; /* which both begin with */
    return NULL;
}

/* *least: the fewest patches of an entry; 0: no output is sized for patches. */
static int check_chain(const stk_plan_chains *c, uint32_t i, uint32_t *least, stk_error *err)
{
    const stk_chain *x = &c->chain[i], *drawn = x->like.leader ? x->like.leader : x;
    const stk_patch_sizing *sizing = sizing_of(drawn);

    if (!x->spec.picture.patch.side && !sizing)
        return 0;
    if (x->many.pictures || x->row_bytes || !sizing || sizing->rule != STK_PATCH_COUNT ||
        !drawn->sizes.most_patches)
        return stk_fail(err, STK_EINVAL,
                        "output %s: schedule changes max_patches of resize_to_patches and "
                        "random_resized_crop_to_patches, of one picture per sample: end its "
                        "geometry with one of them",
                        c->out[i].name);
    if (*least < sizing->merge * sizing->merge)
        *least = sizing->merge * sizing->merge;
    return 0;
}

int stk_groups_plan_steps(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                          stk_error *err)
{
    const char *at = in->o->schedule;
    stk_binning *h = &s->binning;
    uint32_t least = 0;

    for (uint32_t i = 0; i < so_far->chains.n_out; i++)
        STK_TRY(check_chain(&so_far->chains, i, &least, err));
    if (!least)
        return stk_fail(err, STK_EINVAL,
                        "schedule is for pictures that are cut into patches: no output has "
                        "resize_to_patches or random_resized_crop_to_patches");
    h->kind = STK_BIN_STEPS;
    h->group = s->split.world;
    h->rest = rest_of(in->o);
    do {
        stk_bin_step *e = &h->steps[h->n_steps];

        if (h->n_steps == STK_SCHEDULE_MOST)
            return stk_fail(err, STK_EINVAL, "schedule has more than %d entries",
                            STK_SCHEDULE_MOST);
        STK_TRY(read_entry(&at, e, err));
        if (e->limit.patches > in->o->max_tokens)
            return stk_fail(err, STK_EINVAL,
                            "schedule: a picture of %u patches is more than max_tokens=%" PRIu64,
                            e->limit.patches, in->o->max_tokens);
        if (e->limit.patches < least)
            return stk_fail(err, STK_EINVAL,
                            "schedule: %u patches are less than a block of %u, which the chain "
                            "merges",
                            e->limit.patches, least);
        e->rows = rows_of(in->o, e->limit.patches);
        h->rows = e->rows > h->rows ? e->rows : h->rows;
        h->n_steps++;
    } while (*at);
    s->split.local = 0;
    STK_TRY(stk_schedule_bin(s, STK_TICKET_LISTED, err));
    return no_groups(s, "step", err);
}
