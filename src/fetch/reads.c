/* SPDX-License-Identifier: Apache-2.0 */
/* reads.c - which reads bring the fields of one sample, or the parts of them that are wanted.
 *
 * Fields that are close together are read in one go: in a tar shard a sample's fields are
 * neighbours, and a header between them costs less than a second call. */
#include "fetch/reads.h"

#define MAX_MOVES 64 /* places that a field moves up: bad indexes cost no square of their fields */
#define ALIGN 64u    /* of what ranges unpack to */
#define MAX_GAP (32 * 1024) /* bytes read in vain rather than in a second call */
#define MAX_HOLE (1 << 20)  /* ... where fields are neighbours, and parts of one are not wanted */

/* A piece is a field, or one range of it: number field * STK_MEDIA_RANGES + range. */
static const stk_wanted *field_of(const stk_request *r, uint32_t piece)
{
    return &r->want[piece / STK_MEDIA_RANGES];
}

static stk_media_range bytes_of(const stk_request *r, uint32_t piece)
{
    const stk_ranged *g = &r->ranged[piece / STK_MEDIA_RANGES];
    const stk_place *p = &field_of(r, piece)->place;
    const stk_media_range *part = &g->range[piece % STK_MEDIA_RANGES];

    return g->n ? (stk_media_range){ p->offset + part->offset, part->len }
                : (stk_media_range){ p->offset, p->len };
}

static int comes_after(const stk_request *r, uint32_t a, uint32_t b)
{
    const stk_file *x = field_of(r, a)->file, *y = field_of(r, b)->file;

    return x == y ? bytes_of(r, a).offset > bytes_of(r, b).offset : (uintptr_t)x > (uintptr_t)y;
}

/* All pieces that are read, by file and offset; how many. */
static uint32_t sort_pieces(stk_request *r)
{
    uint32_t *order = r->order, n = 0;

    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t k = 0;
             stk_wanted_is_read(&r->want[i]) && k < (r->ranged[i].n ? r->ranged[i].n : 1); k++) {
            uint32_t piece = i * STK_MEDIA_RANGES + k, j = n++;

            for (; j && n - j <= MAX_MOVES && comes_after(r, order[j - 1], piece); j--)
                order[j] = order[j - 1];
            order[j] = piece;
        }
    return n;
}

/* Is the piece read together with the one before it, at `io`?  Fields that are neighbours are one
 * read also where parts of them are wanted: a hole costs less than a second request. */
static int joins(const stk_request *r, const stk_io *io, uint32_t before, uint32_t piece)
{
    const stk_wanted *w = field_of(r, piece), *b = field_of(r, before);
    uint64_t at = bytes_of(r, piece).offset, end = io->offset + io->len;

    if (io->file != w->file || at < io->offset)
        return 0;
    if (at <= end + MAX_GAP)
        return 1;
    return w != b && (r->ranged[w - r->want].n || r->ranged[b - r->want].n) &&
           w->place.offset <= b->place.offset + b->place.len + MAX_GAP && at <= end + MAX_HOLE;
}

static void note_io(stk_request *r, uint32_t piece, uint32_t io)
{
    uint32_t i = piece / STK_MEDIA_RANGES;

    r->want[i].io = io;
    r->ranged[i].io[piece % STK_MEDIA_RANGES] = io;
}

static void add_total(stk_request *r, uint64_t bytes)
{
    r->total = bytes > UINT64_MAX / 2 - r->total ? UINT64_MAX / 2 : r->total + bytes;
}

static void plan_unpacking(stk_request *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        stk_wanted *w = &r->want[i];

        if (!stk_wanted_is_read(w) || !w->place.unpacked)
            continue;
        add_total(r, -r->total & (ALIGN - 1));
        w->room = r->total;
        w->made = UINT64_MAX;
        add_total(r, w->place.unpacked);
    }
}

/* What a read leaves out of the fields at its ends. */
static void note_holes(stk_request *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const stk_place *p = &r->want[i].place;
        const stk_ranged *g = &r->ranged[i];
        stk_io *first, *last;

        if (!g->n)
            continue;
        first = &r->io[g->io[0]];
        last = &r->io[g->io[g->n - 1]];
        first->before = first->offset > p->offset ? first->offset - p->offset : 0;
        if (p->offset + p->len > last->offset + last->len)
            last->after = p->offset + p->len - last->offset - last->len;
    }
}

/* Ranges in order of file and offset -> as few reads as is sensible; after them room for what they
 * unpack to. */
void stk_reads_plan(stk_request *r)
{
    const uint32_t *order = r->order, n = sort_pieces(r);

    r->n_io = 0;
    for (uint32_t i = 0; i < n; i++) {
        stk_media_range at = bytes_of(r, order[i]);
        stk_io *io = r->n_io ? &r->io[r->n_io - 1] : NULL;

        if (!io || !joins(r, io, order[i - 1], order[i])) {
            io = &r->io[r->n_io++];
            *io = (stk_io){ .offset = at.offset, .cookie = r, .file = field_of(r, order[i])->file };
        }
        if (at.offset + at.len > io->offset + io->len)
            io->len = (size_t)(at.offset + at.len - io->offset);
        note_io(r, order[i], r->n_io - 1);
    }
    note_holes(r);
    r->total = 0;
    for (uint32_t i = 0; i < r->n_io; i++)
        add_total(r, r->io[i].len);
    if (r->unpacks)
        plan_unpacking(r);
}

int stk_request_has_range(const stk_request *r, uint32_t i)
{
    const stk_wanted *w = &r->want[i];

    return r->account && stk_wanted_is_read(w) && !w->place.unpacked;
}

int stk_request_in_parts(const stk_request *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->ranged[i].n)
            return 1;
    return 0;
}

uint64_t stk_request_unread(const stk_request *r)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        bytes += r->ranged[i].n ? r->want[i].place.len : 0;
        for (uint32_t k = 0; k < r->ranged[i].n; k++)
            bytes -= r->ranged[i].range[k].len;
    }
    return bytes;
}
