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

/* A piece is a field, or one range of it: number field * STK_MEDIA_RANGES + range.  If no field is
 * read in part, pieces are numbered as fields are.
 *
 * Most requests read whole fields.  `parts` is a constant where these functions are called, so that
 * the compiler makes a second version of them, which does not look at ranges. */
#define BY_PARTS static inline __attribute__((always_inline))

BY_PARTS const stk_wanted *field_of(const stk_request *r, uint32_t piece, int parts)
{
    return &r->want[parts ? piece / STK_MEDIA_RANGES : piece];
}

BY_PARTS stk_media_range bytes_of(const stk_request *r, uint32_t piece, int parts)
{
    const stk_ranged *g = parts ? &r->ranged[piece / STK_MEDIA_RANGES] : NULL;
    const stk_place *p = &field_of(r, piece, parts)->place;
    const stk_media_range *part = g && g->n ? &g->range[piece % STK_MEDIA_RANGES] : NULL;

    return part ? (stk_media_range){ p->offset + part->offset, part->len }
                : (stk_media_range){ p->offset, p->len };
}

BY_PARTS int comes_after(const stk_request *r, uint32_t a, uint32_t b, int parts)
{
    const stk_file *x = field_of(r, a, parts)->file, *y = field_of(r, b, parts)->file;

    return x == y ? bytes_of(r, a, parts).offset > bytes_of(r, b, parts).offset
                  : (uintptr_t)x > (uintptr_t)y;
}

/* All pieces that are read, by file and offset; how many. */
BY_PARTS uint32_t sort_pieces(stk_request *r, int parts)
{
    uint32_t *order = r->reads.order, n = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t pieces = parts && r->ranged[i].n ? r->ranged[i].n : 1;

        for (uint32_t k = 0; stk_wanted_is_read(&r->want[i]) && k < pieces; k++) {
            uint32_t piece = parts ? i * STK_MEDIA_RANGES + k : i, j = n++;

            for (; j && n - j <= MAX_MOVES && comes_after(r, order[j - 1], piece, parts); j--)
                order[j] = order[j - 1];
            order[j] = piece;
        }
    }
    return n;
}

/* Is the piece read together with the one before it, at `io`?  Fields that are neighbours are one
 * read also where parts of them are wanted: a hole costs less than a second request. */
BY_PARTS int joins(const stk_request *r, const stk_io *io, uint32_t before, uint32_t piece,
                   int parts)
{
    const stk_wanted *w = field_of(r, piece, parts), *b = field_of(r, before, parts);
    uint64_t at = bytes_of(r, piece, parts).offset, end = io->offset + io->len;

    if (io->file != w->file || at < io->offset)
        return 0;
    if (at <= end + MAX_GAP)
        return 1;
    if (!(w->file->source->can & STK_SOURCE_REMOTE)) /* a second call costs as much as few bytes */
        return 0;
    return parts && !r->reads.apart && w != b &&
           (r->ranged[w - r->want].n || r->ranged[b - r->want].n) &&
           w->place.offset <= b->place.offset + b->place.len + MAX_GAP && at <= end + MAX_HOLE;
}

BY_PARTS void note_io(stk_request *r, uint32_t piece, uint32_t io, int parts)
{
    uint32_t i = parts ? piece / STK_MEDIA_RANGES : piece;

    r->want[i].io = io;
    if (parts)
        r->ranged[i].io[piece % STK_MEDIA_RANGES] = io;
}

static void add_total(stk_request *r, uint64_t bytes)
{
    r->reads.total = bytes > UINT64_MAX / 2 - r->reads.total ? UINT64_MAX / 2
                                                             : r->reads.total + bytes;
}

static void plan_unpacking(stk_request *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        stk_wanted *w = &r->want[i];

        if (!stk_wanted_is_read(w) || !w->place.unpacked)
            continue;
        add_total(r, -r->reads.total & (ALIGN - 1));
        w->room = r->reads.total;
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

        if (!g->n || !r->want[i].file)
            continue;
        first = &r->reads.io[g->io[0]];
        last = &r->reads.io[g->io[g->n - 1]];
        if (first->offset > p->offset)
            first->before = first->offset - p->offset;
        if (p->offset + p->len > last->offset + last->len)
            last->after = p->offset + p->len - last->offset - last->len;
    }
}

/* Pieces in order of file and offset -> as few reads as is sensible. */
BY_PARTS void plan_pieces(stk_request *r, int parts)
{
    const uint32_t *order = r->reads.order, n = sort_pieces(r, parts);

    r->reads.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        stk_media_range at = bytes_of(r, order[i], parts);
        stk_io *io = r->reads.n ? &r->reads.io[r->reads.n - 1] : NULL;

        if (!io || !joins(r, io, order[i - 1], order[i], parts)) {
            io = &r->reads.io[r->reads.n++];
            *io = (stk_io){ .offset = at.offset,
                            .cookie = r,
                            .file = field_of(r, order[i], parts)->file };
        }
        if (at.offset + at.len > io->offset + io->len)
            io->len = (size_t)(at.offset + at.len - io->offset);
        note_io(r, order[i], r->reads.n - 1, parts);
    }
}

/* Whole fields that follow each other in one file, as nearly all do: what plan_pieces() would make
 * of them, without sorting.  0: they do not. */
static int plan_in_order(stk_request *r)
{
    uint64_t before = 0;
    stk_io *io = NULL;
    uint32_t n = 0;

    for (stk_wanted *w = r->want, *end = w + r->n; w < end; w++) {
        uint64_t at = w->place.offset;

        if (!stk_wanted_is_read(w))
            continue;
        if (io && (io->file != w->file || at < before))
            return 0;
        if (!io || at > io->offset + io->len + MAX_GAP) {
            io = &r->reads.io[n++];
            *io = (stk_io){
                .offset = at, .len = (size_t)w->place.len, .cookie = r, .file = w->file
            };
        } else if (at + w->place.len > io->offset + io->len) {
            io->len = (size_t)(at + w->place.len - io->offset);
        }
        w->io = n - 1;
        before = at;
    }
    r->reads.n = n;
    return 1;
}

/* 1: some field is read in part. */
static int has_parts(const stk_request *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->ranged[i].n)
            return 1;
    return 0;
}

/* Apart, so that the usual way saves no registers for them. */
__attribute__((noinline)) static void plan_sorted(stk_request *r)
{
    plan_pieces(r, 0);
}

__attribute__((noinline)) static void plan_parts(stk_request *r)
{
    plan_pieces(r, 1);
    note_holes(r);
}

void stk_reads_plan(stk_request *r, int parts)
{
    r->reads.in_parts = parts && has_parts(r);
    if (r->reads.in_parts)
        plan_parts(r);
    else if (!plan_in_order(r))
        plan_sorted(r);
    r->reads.total = 0;
    for (uint32_t i = 0; i < r->reads.n; i++)
        add_total(r, r->reads.io[i].len);
    if (r->unpacks)
        plan_unpacking(r);
}

int stk_request_has_range(const stk_request *r, uint32_t i)
{
    const stk_wanted *w = &r->want[i];

    return stk_wanted_is_read(w) && !w->place.unpacked;
}

/* 1: an output before it names the same field. */
static int is_counted(const stk_request *r, uint32_t i)
{
    const stk_wanted *w = &r->want[i];

    for (uint32_t k = 0; k < i; k++)
        if (r->ranged[k].n && r->want[k].file == w->file &&
            r->want[k].place.offset == w->place.offset)
            return 1;
    return 0;
}

/* Bytes of a field that some read had, or the source read between two reads. */
static uint64_t read_of(const stk_request *r, const stk_wanted *w)
{
    uint64_t from = w->place.offset, to = from + w->place.len, bytes = 0;
    const stk_io *first = NULL, *last = NULL;

    for (const stk_io *io = r->reads.io, *end = io + r->reads.n; io < end; io++) {
        uint64_t at = io->offset > from ? io->offset : from;
        uint64_t upto = io->offset + io->len < to ? io->offset + io->len : to;

        if (io->file != w->file || at >= upto)
            continue;
        bytes += upto - at;
        first = first ? first : io;
        last = io;
    }
    if (first && first->offset > from && !first->before)
        bytes += first->offset - from;
    if (last && to > last->offset + last->len && !last->after)
        bytes += to - last->offset - last->len;
    return bytes;
}

uint64_t stk_request_unread(const stk_request *r)
{
    uint64_t bytes = r->reads.stage == STK_REQUEST_SECOND ? r->reads.unread : 0;

    for (uint32_t i = 0; i < r->n; i++) {
        uint64_t len = r->want[i].place.len, was;

        if (!r->ranged[i].n || !r->want[i].file || is_counted(r, i))
            continue;
        was = read_of(r, &r->want[i]) + r->ranged[i].later;
        bytes += was < len ? len - was : 0;
    }
    return bytes;
}
