/* SPDX-License-Identifier: Apache-2.0 */
/* row_points.c - see row_points.h; and reads of a field beside its request. */
#include "row/row_points.h"

#define PIECE 1024u /* bytes of points that are looked at together */

int stk_row_points_more(void *cookie, uint64_t at, uint32_t len, stk_bytes *out, stk_error *err)
{
    stk_row_points *p = cookie;
    stk_request *r = p->x->req;
    stk_seek_field f = { r->entry.shard, r->entry.row, r->want[p->x->output].number };

    if (at < p->piece_at || at - p->piece_at > p->piece.len ||
        len > p->piece.len - (at - p->piece_at)) {
        f.from = at / PIECE * PIECE;
        f.most = (uint32_t)(at - f.from) + len;
        f.most = f.most < PIECE ? PIECE : f.most;
        p->piece = r->data->ops->hint(r->data, &f, &p->x->m->points);
        p->piece_at = f.from;
    }
    if (at - p->piece_at > p->piece.len || len > p->piece.len - (at - p->piece_at)) {
        p->piece.len = 0;
        return stk_fail(err, STK_ESTALE, "points of a field: they end too early");
    }
    *out = (stk_bytes){ p->piece.data + (at - p->piece_at), len };
    return 0;
}

int stk_row_read_field(const stk_wanted *want, uint64_t at, size_t len, uint8_t *dst,
                       stk_error *err)
{
    stk_io io = { .offset = want->place.offset + at, .len = len, .dst = dst, .file = want->file };
    int rc;

    if (want->file->source->can & STK_SOURCE_REMOTE)
        return stk_file_read(want->file, io.offset, io.dst, len, err);
    rc = want->file->source->read(want->file, &io);
    if (rc < 0 || io.got < len)
        return stk_fail(err, rc < 0 ? rc : STK_ECORRUPT, "the field ends before byte %" PRIu64,
                        at + len);
    return 0;
}
