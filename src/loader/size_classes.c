/* SPDX-License-Identifier: Apache-2.0 */
/* size_classes.c - which size the pictures of every sample get, as a class: by their sizes in
 * HASH.media, through the chains; no picture is read.  Batches of one class are tensors.
 *
 * With several outputs a class is a combination of sizes.  Classes are numbered as they come, so
 * all ranks number them alike. */
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "column/media_sizes.h"
#include "kern/turn.h"
#include "loader/plan_groups.h"

#define TRIES 8
#define MOST (1u << 16)
#define SLOTS (MOST * 2)
#define KNOWN 4096u /* sizes whose class is remembered */

typedef struct size_class {
    uint32_t before, w, h; /* class so far, and the size of this output */
    uint32_t number;       /* + 1; 0: a free slot */
} size_class;

typedef struct sizing {
    const stk_chain *c;
    const char *name[STK_BOUND_NAMES]; /* of its field, in the data set that is looked at */
    uint32_t names;
    uint32_t n; /* classes so far */
    size_class *slot;
    struct {
        uint32_t w, h, to_w, to_h;
    } known[KNOWN];
} sizing;

/* The size that a picture of w x h gets; 0 x 0: such a sample is bad when it is made. */
static void drawn_size(const stk_chain *c, uint32_t w, uint32_t h, uint64_t seed, uint32_t out[2])
{
    const stk_address at = { .seed = seed };
    const uint32_t size[2] = { w, h };
    const stk_view *v;
    stk_draws d;

    d.boxes = NULL;
    stk_chain_draw(c, &at, size, &d, NULL);
    v = stk_draws_last(&d);
    out[0] = v->refused ? 0 : v->vis_w;
    out[1] = v->refused ? 0 : v->vis_h;
}

static void size_of(sizing *k, const stk_media_rec *r, uint32_t out[2])
{
    stk_image_info i = { r->width, r->height };
    uint32_t at;

    out[0] = out[1] = 0;
    if (k->c->spec.picture.exif && r->turn)
        i = stk_turn_size(r->turn, i);
    if (!i.width || !i.height)
        return;
    at = (i.width * 2654435761u ^ i.height * 40503u) % KNOWN;
    if (k->known[at].w != i.width || k->known[at].h != i.height) {
        drawn_size(k->c, i.width, i.height, 0, out);
        k->known[at].w = i.width;
        k->known[at].h = i.height;
        k->known[at].to_w = out[0];
        k->known[at].to_h = out[1];
    }
    out[0] = k->known[at].to_w;
    out[1] = k->known[at].to_h;
}

/* The class of a size after the class of the outputs before; MOST: there are too many. */
static uint32_t class_of(sizing *k, uint32_t before, const uint32_t size[2])
{
    const uint32_t word[3] = { before, size[0], size[1] };
    uint32_t at = (uint32_t)(stk_hash64(0, word, sizeof word) % SLOTS);

    for (;; at = (at + 1) % SLOTS) {
        size_class *s = &k->slot[at];

        if (!s->number) {
            if (k->n == MOST)
                return MOST;
            *s = (size_class){ before, size[0], size[1], ++k->n };
        }
        if (s->before == before && s->w == size[0] && s->h == size[1])
            return s->number - 1;
    }
}

/* What an op declares counts, however rarely it happens; those of plug-ins are tried, too. */
static int is_random(const stk_chain *c)
{
    static const uint32_t sizes[][2] = { { 640, 480 }, { 333, 517 }, { 1600, 300 } };
    uint32_t first[2], other[2];

    if (c->sizes.drawn)
        return 1;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t seed = 1; seed < TRIES; seed++) {
            drawn_size(c, sizes[s][0], sizes[s][1], 0, first);
            drawn_size(c, sizes[s][0], sizes[s][1], seed, other);
            if (first[0] != other[0] || first[1] != other[1])
                return 1;
        }
    return 0;
}

static int check_output(const stk_plan *so_far, uint32_t i, stk_error *err)
{
    const stk_chain *c = &so_far->chains.chain[i];
    const char *name = so_far->chains.out[i].name;

    if (c->boxes.name || c->like.leader || so_far->chains.open_root[i] || c->extracts || c->calls.n)
        return stk_fail(err, STK_ENOTSUP,
                        "output %s: the size of its pictures is not known from their files alone, "
                        "so bucket cannot put those of one size together",
                        name);
    if (is_random(c))
        return stk_fail(err, STK_EINVAL,
                        "output %s: the size of its pictures is random, so bucket cannot put those "
                        "of one size together: end its geometry with resize_to_bucket(area=...)",
                        name);
    return 0;
}

static int add_shard(sizing *k, const stk_mediafile *m, uint64_t shard, const stk_shard_info *s,
                     uint32_t *class)
{
    stk_media_column field[STK_BOUND_NAMES];

    for (uint32_t f = 0; f < k->names; f++)
        field[f] = stk_mediafile_column(m, shard, k->name[f]);
    for (uint64_t i = 0; i < s->samples; i++) {
        stk_media_rec r = { 0 };
        uint32_t size[2];

        for (uint32_t f = 0; f < k->names && !r.kind; f++)
            r = stk_media_at(&field[f], i);
        size_of(k, &r, size);
        class[s->first + i] = class_of(k, class[s->first + i], size);
        if (class[s->first + i] == MOST)
            return 0;
    }
    return 1;
}

static int add_dataset(sizing *k, const stk_plan *so_far, uint32_t d, uint32_t workers,
                       uint32_t *class, stk_error *err)
{
    const stk_media_making how = { .workers = workers };
    const stk_dataset *ds = so_far->data.set[d];
    const stk_mediafile *m;
    stk_shard_info s;

    STK_TRY(stk_media_sizes(so_far->data.set[d], &how, &m, err));
    k->names = stk_chain_names(k->c, so_far->chains.binding[d][k->c - so_far->chains.chain], ds,
                               k->name);
    for (uint64_t i = 0; i < stk_dataset_shards(ds); i++) {
        STK_TRY(ds->ops->shard(ds, i, &s, err));
        if (!add_shard(k, m, i, &s, class))
            return stk_fail(err, STK_ELIMIT,
                            "bucket: pictures get more than %u sizes: end their geometry with "
                            "resize_to_bucket(area=...)",
                            MOST);
    }
    return 0;
}

int stk_has_sizes(const stk_plan_chains *c, uint32_t i)
{
    const stk_chain *x = &c->chain[i];

    return x->spec.kind == STK_KIND_IMAGE && !x->row_bytes && !x->spec.picture.patch.side &&
           !x->many.pictures && !x->clip &&
           !(x->like.leader && stk_has_sizes(c, x->like.leader_output));
}

int stk_size_classes_plan(stk_schedule *s, const stk_plan_input *in, const stk_plan *so_far,
                          uint32_t *classes, stk_error *err)
{
    uint32_t workers = in->o->num_workers > 0 ? (uint32_t)in->o->num_workers : 0;
    uint64_t n = s->start[s->n_data];
    sizing *k = STK_NEW(sizing);
    int rc = 0;

    s->classes = stk_zalloc(n + 1, sizeof *s->classes);
    if (k)
        k->slot = stk_zalloc(SLOTS, sizeof *k->slot);
    if (!k || !k->slot || !s->classes)
        rc = stk_fail_nomem(err, n * sizeof *s->classes);
    for (uint32_t i = 0; rc == 0 && i < so_far->chains.n_out; i++) {
        if (!stk_has_sizes(&so_far->chains, i))
            continue;
        rc = check_output(so_far, i, err);
        k->c = &so_far->chains.chain[i];
        memset(k->known, 0, sizeof k->known);
        for (uint32_t d = 0; rc == 0 && d < so_far->data.n; d++)
            rc = add_dataset(k, so_far, d, workers, s->classes + s->start[d], err);
    }
    *classes = k ? k->n : 0;
    stk_free(k ? k->slot : NULL);
    stk_free(k);
    return rc;
}
