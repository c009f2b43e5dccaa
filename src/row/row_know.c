/* SPDX-License-Identifier: Apache-2.0 */
/* row_know.c - what is known of a picture before a byte of it is read: its points, and from them
 * its size, what is drawn, and which of its bytes hold that.
 *
 * The request keeps the ranges, not the draws: make() draws again, and as draws are addressed they
 * are the same. */
#include "kern/sample.h"
#include "kern/turn.h"
#include "row/row.h"

typedef struct known { /* a picture, by its points */
    const stk_decoder *decoder;
    stk_image_info info; /* as stored */
    unsigned turn;
} known;

void stk_picture_know_some(stk_row *x, uint32_t most)
{
    stk_request *r = x->req;
    stk_wanted *want = &r->want[x->output];
    stk_seek_field at = { r->entry.shard, r->entry.row, want->number, .most = most };

    want->hint = (stk_bytes){ 0 };
    want->learn = 0;
    want->width = 0; /* not known before its header is read */
    if ((!(r->data->can & STK_DATA_HINTS) && !x->plan->rows.learn) ||
        x->plan->chains.open_root[x->output] || want->number == UINT16_MAX)
        return;
    if (r->data->can & STK_DATA_HINTS)
        want->hint = r->data->ops->hint(r->data, &at, &r->hint_room[x->output]);
    stk_learn_look(x->plan, r, x->output);
}

void stk_picture_know_whole(stk_row *x)
{
    stk_picture_know_some(x, 0);
}

int stk_row_may_read_parts(const stk_row *x)
{
    const stk_request *r = x->req;
    const stk_wanted *want = &r->want[x->output];

    return !x->plan->rows.whole[x->output] && !r->row.whole && want->hint.data && !want->learn &&
           !want->unpack && !want->own && stk_request_has_range(r, x->output);
}

/* 1: what is seen can be known from the points alone, and reading less of the field pays.  What is
 * local is read whole: the page cache has it, or reads ahead. */
static int may_read_parts(const stk_row *x)
{
    const stk_request *r = x->req;
    const stk_chain *c = stk_row_chain(x);

    return stk_row_may_read_parts(x) && r->want[x->output].file->source->can & STK_SOURCE_REMOTE &&
           (!c->like.leader || r->want[c->like.leader_output].width);
}

/* Its size and turn, by its points.  0: they do not say. */
static int know_size(stk_row *x, known *p, stk_image_info *upright)
{
    stk_wanted *want = &x->req->want[x->output];
    const stk_media_points points = { .head = want->hint };
    stk_media_info info;
    void *ctx;

    if (stk_decoders_of_points(&x->m->decoders, want->hint, &p->decoder, &ctx, NULL) ||
        !p->decoder->ranges || p->decoder->know(&points, 0, &info, NULL) < 0)
        return 0;
    p->info = (stk_image_info){ info.width, info.height };
    p->turn = stk_row_chain(x)->spec.picture.exif ? info.turn : 1;
    return p->turn && stk_picture_check(x, &p->info, NULL) == 0 &&
           stk_picture_note_size(x, &p->info, &p->turn, upright, NULL) == 0;
}

/* What its views see, and of a picture that outputs share those of the others.  They draw again,
 * and report, when the row is made. */
static int know_need(stk_row *x, const stk_image_info *upright, stk_rect *need)
{
    int again = x->again, rc = 0;
    stk_draws d;

    x->again = 1;
    for (uint32_t i = 0; i < stk_row_views(x) && rc == 0; i++) {
        stk_rect one;

        rc = stk_picture_draw(x, upright, i, &d, NULL);
        if (rc == 0)
            stk_sample_need(d.view, &one);
        if (rc == 0)
            stk_rect_widen(need, &one);
    }
    if (rc == 0 && x->plan->rows.share)
        stk_picture_look_ahead(x, upright, need);
    x->again = again;
    return rc == 0 && need->w && need->h;
}

/* Ranges that a decoder gave; hostile points may have made them. */
int stk_row_ranges_fit(const stk_ranged *g, uint64_t len)
{
    uint64_t at = 0;

    if (g->n > STK_MEDIA_RANGES)
        return 0;
    for (uint32_t i = 0; i < g->n; i++) {
        if (g->range[i].offset < at || g->range[i].offset > len ||
            g->range[i].len > len - g->range[i].offset || !g->range[i].len)
            return 0;
        at = g->range[i].offset + g->range[i].len;
    }
    return 1;
}

static void know_ranges(stk_row *x)
{
    stk_wanted *want = &x->req->want[x->output];
    const stk_media_points points = { .head = want->hint };
    stk_ranged *g = &x->req->ranged[x->output];
    stk_media_ask ask = { 0 };
    stk_image_info upright;
    stk_rect need = { 0 };
    known p = { .turn = 1 };

    if (!know_size(x, &p, &upright) || !know_need(x, &upright, &need))
        return;
    ask.need = stk_turn_rect(p.turn, p.info, &need);
    if (p.decoder->ranges(&points, &ask, UINT64_MAX, g->range, &g->n, NULL) < 0 ||
        !stk_row_ranges_fit(g, want->place.len))
        g->n = 0;
}

/* Of a picture that outputs share, all have what the first of them reads. */
static void know_parts(stk_row *x)
{
    stk_request *r = x->req;
    uint32_t first = x->plan->rows.share ? x->plan->rows.share[x->output] : x->output;

    stk_picture_know_whole(x);
    if (!may_read_parts(x))
        return;
    if (first == x->output)
        know_ranges(x);
    else if (r->want[first].number == r->want[x->output].number)
        r->ranged[x->output] = r->ranged[first];
}

const stk_row_from stk_from_picture = { .name = "picture", .know = know_parts };
const stk_row_from stk_from_cached = { .name = "cached", .know = stk_picture_know_whole };
