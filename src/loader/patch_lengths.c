/* SPDX-License-Identifier: Apache-2.0 */
/* patch_lengths.c - how many patches the pictures of every sample become, by their sizes in
 * HASH.media: the chain draws a view of the size, and no picture is read.
 *
 * Where what is drawn decides the number (random_resized_crop_to_patches), a sample counts as many
 * as its rule allows at most, which holds in every epoch, and its size is stored: drawn_lengths.c
 * finds from that what an epoch draws. */
#include <string.h>

#include "base/rng.h"
#include "column/media_sizes.h"
#include "kern/turn.h"
#include "loader/drawn_lengths.h"
#include "loader/lengths.h"
#include "op/patch_size.h"

#define TRIES 8
#define KNOWN 4096u /* sizes that are remembered: most pictures have one of few */

typedef struct counting {
    const stk_chain *c;
    const char *name[STK_BOUND_NAMES]; /* of its field, in the data set that is counted */
    uint32_t names;
    uint32_t bound; /* 0: by the size */
    struct {
        uint32_t w, h, n;
    } known[KNOWN];
} counting;

/* Patches of a picture of that size; 1 where it has none: such a sample is bad when it is made. */
static uint32_t count_drawn(const stk_chain *c, uint32_t w, uint32_t h, uint64_t seed)
{
    const stk_address at = { .seed = seed };
    const uint32_t size[2] = { w, h }, side = c->spec.picture.patch.side;
    const stk_view *v;
    stk_draws d;

    d.boxes = NULL;
    stk_chain_draw(c, &at, size, &d, NULL);
    v = stk_draws_last(&d);
    if (v->refused)
        return 1;
    return (uint32_t)((uint64_t)(v->vis_w / side) * (v->vis_h / side));
}

static uint32_t count(counting *k, uint32_t w, uint32_t h)
{
    uint32_t at = (w * 2654435761u ^ h * 40503u) % KNOWN;

    if (k->bound)
        return k->bound;
    if (k->known[at].w != w || k->known[at].h != h) {
        k->known[at].n = count_drawn(k->c, w, h, 0);
        k->known[at].w = w;
        k->known[at].h = h;
    }
    return k->known[at].n;
}

/* Does what is drawn change the number?  What an op declares counts, however rarely it happens;
 * those of plug-ins are tried, too. */
static int is_random(const stk_chain *c)
{
    static const uint32_t sizes[][2] = { { 640, 480 }, { 333, 517 }, { 1600, 300 } };

    if (c->sizes.drawn)
        return 1;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t seed = 1; seed < TRIES; seed++)
            if (count_drawn(c, sizes[s][0], sizes[s][1], seed) !=
                count_drawn(c, sizes[s][0], sizes[s][1], 0))
                return 1;
    return 0;
}

int stk_patch_bound(const stk_chain *c, const char *name, uint32_t *bound, stk_error *err)
{
    uint64_t most = c->sizes.most_patches;

    *bound = 0;
    if (!is_random(c))
        return 0;
    if (!most || most > UINT32_MAX)
        return stk_fail(err, STK_EINVAL,
                        "output %s: how many patches it has is random without a limit: end its "
                        "geometry with resize_to_patches, or give lengths=",
                        name);
    *bound = (uint32_t)most;
    return 0;
}

static stk_image_info size_of(const stk_chain *c, const stk_media_rec *r)
{
    stk_image_info stored = { r->width, r->height };

    return c->spec.picture.exif && r->turn ? stk_turn_size(r->turn, stored) : stored;
}

static void add_shard(counting *k, const stk_mediafile *m, uint64_t shard, const stk_shard_info *s,
                      const stk_patch_counts *out)
{
    stk_media_column field[STK_BOUND_NAMES];

    for (uint32_t f = 0; f < k->names; f++)
        field[f] = stk_mediafile_column(m, shard, k->name[f]);
    for (uint64_t i = 0; i < s->samples; i++) {
        stk_media_rec r = { 0 };
        stk_image_info size;

        for (uint32_t f = 0; f < k->names && !r.kind; f++)
            r = stk_media_at(&field[f], i);
        size = size_of(k->c, &r);
        out->length[s->first + i] = size.width && size.height ? count(k, size.width, size.height)
                                                              : 1;
        if (out->size && size.width && size.height)
            out->size[s->first + i] = stk_size_packed(size.width, size.height);
    }
}

/* What the number of patches of an output follows from. */
static int open_output(counting *k, const stk_plan *so_far, uint32_t output, stk_error *err)
{
    const char *name = so_far->chains.out[output].name;

    memset(k, 0, sizeof *k);
    k->c = &so_far->chains.chain[output];
    if (k->c->boxes.name || k->c->like.leader || so_far->chains.open_root[output] || k->c->extracts)
        return stk_fail(err, STK_ENOTSUP,
                        "output %s: how many patches it has is not known from the size of its "
                        "picture alone: give lengths=",
                        name);
    return stk_patch_bound(k->c, name, &k->bound, err);
}

static int add_output(counting *k, const stk_dataset *ds, const stk_mediafile *m,
                      const stk_patch_counts *out, stk_error *err)
{
    stk_shard_info s;

    for (uint64_t i = 0; i < stk_dataset_shards(ds); i++) {
        STK_TRY(ds->ops->shard(ds, i, &s, err));
        add_shard(k, m, i, &s, out);
    }
    return 0;
}

int stk_patch_lengths(const stk_plan *so_far, uint32_t d, uint32_t output,
                      const stk_loader_options *o, const stk_patch_counts *out, stk_error *err)
{
    const stk_media_making how = { .workers = o->num_workers > 0 ? (uint32_t)o->num_workers : 0 };
    const stk_mediafile *m = NULL;
    counting *k = NULL;
    int rc = stk_media_sizes(so_far->data.set[d], &how, &m, err);

    if (rc == 0)
        k = STK_NEW(counting);
    if (rc == 0)
        rc = k ? open_output(k, so_far, output, err) : stk_fail_nomem(err, sizeof *k);
    if (rc == 0) {
        k->names = stk_chain_names(k->c, so_far->chains.binding[d][output], so_far->data.set[d],
                                   k->name);
        rc = add_output(k, so_far->data.set[d], m, out, err);
    }
    stk_free(k);
    return rc;
}
