/* SPDX-License-Identifier: Apache-2.0 */
/* session_run.c - the frames of one window, by a session that goes on or begins.
 *
 * Packets are sent in their order.  A decoder gives frames later than it takes their packets, so
 * after the last wanted one the packets that follow are sent until it has come; their frames are
 * those of the next window, and stay in the decoder.  Only at the end of the track is it drained.
 *
 * After an open keyframe of H.264 errors are covered up, and seen when the damaged frame comes,
 * which may be after those that refer to it.  So a window is done when all frames before its last
 * one, in the order of packets, have come.
 *
 * STK_END is whatever goes wrong here; an error is the sink's. */
#include <string.h>

#include "video/session.h"

#define GO(expr)                                                                                   \
    do {                                                                                           \
        int rc_ = (expr);                                                                          \
        if (rc_)                                                                                   \
            return rc_;                                                                            \
    } while (0)

/* ---- what is shared ---- */

const stk_shared_frame *stk_session_shared(const stk_session *s, uint32_t decode)
{
    for (uint32_t i = 0; i < s->n_shared; i++)
        if (s->shared[i].decode == decode)
            return &s->shared[i];
    return NULL;
}

void stk_session_forget(stk_session *s, uint64_t before)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_shared; i++)
        if (s->shared[i].show >= before) {
            s->shared[n++] = s->shared[i];
        } else {
            stk_account_give(s->account, s->shared[i].size);
            s->charged -= s->shared[i].size;
            stk_free(s->shared[i].data);
        }
    s->n_shared = n;
}

/* 1: a later window has the frame with this show number. */
static int is_later(const stk_session_job *job, uint64_t show)
{
    const uint64_t first = job->ask->frame[0], reach = (uint64_t)(job->frames - 1) * job->stride;
    uint64_t j = show > first + reach ? (show - first - reach + job->step - 1) / job->step : 1;

    for (j = j ? j : 1; first + j * job->step <= show; j++)
        if ((show - first - j * job->step) % job->stride == 0)
            return 1;
    return 0;
}

static size_t plane_rows(const stk_planes *p, uint32_t i)
{
    return i && p->half_y ? (p->area.h + 1) / 2 : p->area.h;
}

static size_t plane_bytes(const stk_planes *p, uint32_t i)
{
    size_t w = i && p->half_x ? (p->area.w + 1) / 2 : p->area.w;

    w *= p->kind == STK_PLANES_NV12 && i ? 2 : 1;
    return p->bits > 8 ? w * 2 : w;
}

/* A copy, as far as there is memory: without it a later window begins again. */
static void share(stk_session *s, const stk_pending *k, const stk_planes *p)
{
    stk_shared_frame one = { .decode = k->decode, .show = k->show, .time = k->time, .planes = *p };
    uint8_t *to;

    if (s->n_shared == s->cap_shared) {
        uint32_t cap = s->cap_shared ? 2 * s->cap_shared : 8;
        stk_shared_frame *more = stk_grow(s->shared, s->n_shared * sizeof *more,
                                          cap * sizeof *more);

        if (!more)
            return;
        s->shared = more;
        s->cap_shared = cap;
    }
    for (uint32_t i = 0; i < 3 && p->data[i]; i++)
        one.size += plane_rows(p, i) * plane_bytes(p, i);
    one.size += 64; /* kernels read a little further */
    if (!stk_account_take(s->account, one.size))
        return;
    one.data = to = stk_alloc(one.size);
    if (!to) {
        stk_account_give(s->account, one.size);
        return;
    }
    for (uint32_t i = 0; i < 3 && p->data[i]; i++) {
        one.planes.data[i] = to;
        one.planes.stride[i] = plane_bytes(p, i);
        for (size_t y = 0; y < plane_rows(p, i); y++, to += plane_bytes(p, i))
            memcpy(to, p->data[i] + y * p->stride[i], plane_bytes(p, i));
    }
    memset(to, 0, 64);
    s->charged += one.size;
    s->shared[s->n_shared++] = one;
}

/* ---- packets ---- */

/* Frame d of the track, in decode order; its show number, or UINT32_MAX if it is hidden. */
static int look_at(stk_session_run *r, uint32_t d, stk_video_frame *f, uint32_t *show)
{
    uint32_t number;

    if (!r->has_unit || d < r->unit.decode || d - r->unit.decode >= r->unit.n) {
        r->has_unit = 0;
        stk_scratch_rewind(r->job->scratch, r->mark);
        if (stk_video_unit_of_decode(r->h, d, &number, NULL) < 0 ||
            stk_video_unit_read(r->h, number, r->job->scratch, &r->unit, NULL) < 0 ||
            d < r->unit.decode || d - r->unit.decode >= r->unit.n)
            return STK_END;
        r->has_unit = 1;
    }
    *f = r->unit.frame[d - r->unit.decode];
    *show = r->unit.rank[d - r->unit.decode];
    *show += *show == UINT32_MAX ? 0 : r->unit.show;
    return 0;
}

static int has_bytes(uint64_t at, size_t len, const stk_video_frame *f)
{
    return f->at >= at && f->at - at <= len && f->size <= len - (f->at - at);
}

/* This packet, and what follows it. */
static int read_more(stk_session_run *r, const stk_video_frame *f, stk_bytes *out)
{
    stk_session *s = r->s;
    uint64_t rest = r->h->field - f->at;
    size_t len = f->size > STK_SESSION_READ ? f->size
                 : rest < STK_SESSION_READ  ? (size_t)rest
                                            : STK_SESSION_READ;
    uint8_t *dst = s->buffer;

    if (!dst)
        dst = s->buffer = stk_alloc(STK_SESSION_READ);
    if (len > STK_SESSION_READ)
        dst = stk_scratch_get(r->job->scratch, len);
    if (!dst || r->job->read(r->job->cookie, f->at, len, dst, NULL) < 0)
        return STK_END;
    if (dst == s->buffer) {
        s->buffer_at = f->at;
        s->buffer_len = len;
    }
    *out = (stk_bytes){ dst, f->size };
    return 0;
}

static int packet_bytes(stk_session_run *r, const stk_video_frame *f, stk_bytes *out)
{
    const stk_session *s = r->s;

    for (uint32_t i = 0; i < r->job->n_parts; i++) {
        const stk_media_part *p = &r->job->part[i];

        if (has_bytes(p->offset, p->bytes.len, f)) {
            *out = (stk_bytes){ p->bytes.data + (f->at - p->offset), f->size };
            return 0;
        }
    }
    if (has_bytes(s->buffer_at, s->buffer_len, f)) {
        *out = (stk_bytes){ s->buffer + (f->at - s->buffer_at), f->size };
        return 0;
    }
    if (!r->job->read || f->at > r->h->field || f->size > r->h->field - f->at)
        return STK_END;
    return read_more(r, f, out);
}

/* ---- frames ---- */

static const stk_clip_want *want_of(const stk_session_run *r, uint32_t decode)
{
    uint32_t low = 0, high = r->n;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (r->want[mid].decode < decode)
            low = mid + 1;
        else
            high = mid;
    }
    return low < r->n && r->want[low].decode == decode ? &r->want[low] : NULL;
}

static int hand_out(stk_session_run *r, const stk_clip_want *w, const stk_planes *planes,
                    stk_error *err)
{
    stk_planes p = *planes;

    if (r->given[w->i])
        return 0;
    r->given[w->i] = 1;
    r->left--;
    return r->job->sink->frame(r->job->sink->cookie, w->i, stk_video_us(r->h, w->time), &p, err);
}

/* Takes it out of those that have not come.  0: it is none of them. */
static int arrived(stk_session *s, uint32_t decode, stk_pending *out)
{
    for (uint32_t i = 0; i < s->n_pending; i++)
        if (s->pending[i].decode == decode) {
            *out = s->pending[i];
            memmove(&s->pending[i], &s->pending[i + 1],
                    (s->n_pending - i - 1) * sizeof *s->pending);
            s->n_pending--;
            return 1;
        }
    return 0;
}

static int take_frames(stk_session_run *r, stk_error *err)
{
    stk_session *s = r->s;
    const stk_clip_want *w;
    stk_pending k;
    stk_planes p;
    uint32_t decode;
    int rc;

    while ((rc = s->ops->receive(s->stream, &decode, &p, NULL)) == 0) {
        if (stk_thread_ns() > r->until)
            return STK_END;
        if (!arrived(s, decode, &k))
            continue;
        if (!p.data[0] && k.leading)
            continue;
        if (!p.data[0] || p.area.w != r->h->width || p.area.h != r->h->height)
            return STK_END; /* damage: decoding by itself says what it is */
        if (p.matrix == 2 && p.kind != STK_PLANES_RGBX)
            p.matrix = r->h->matrix;
        p.full_range |= r->h->full_range && r->h->matrix != 2;
        w = want_of(r, decode);
        if (w)
            GO(hand_out(r, w, &p, err));
        if (k.show != UINT32_MAX && !k.leading && is_later(r->job, k.show))
            share(s, &k, &p);
    }
    return rc == STK_END ? 0 : STK_END;
}

/* 1: no window has this frame, and nothing refers to it. */
static int is_spare(const stk_session_run *r, const stk_pending *k, stk_bytes packet)
{
    const stk_clip_want *w = want_of(r, k->decode);
    stk_bytes setup;

    if ((w && !r->given[w->i]) || (k->show != UINT32_MAX && is_later(r->job, k->show)))
        return 0;
    return !packet.len || stk_video_points_setup(r->h, &setup, NULL) < 0 ||
           stk_packet_is_spare(r->h->codec, setup, packet);
}

/* Packet s->next; it is the next one then. */
static int send(stk_session_run *r, stk_error *err)
{
    stk_session *s = r->s;
    stk_pending k = { .decode = s->next };
    stk_video_frame f;
    unsigned mark;
    stk_bytes in;
    int rc;

    if (stk_thread_ns() > r->until)
        return STK_END;
    GO(look_at(r, s->next, &f, &k.show));
    mark = stk_scratch_mark(r->job->scratch);
    GO(packet_bytes(r, &f, &in));
    s->next++;
    if (is_spare(r, &k, in))
        return 0;
    k.time = f.time;
    k.leading = f.time < s->key_time;
    s->open &= !(f.flags & STK_FRAME_KEY) ||
               k.decode == s->begun; /* later groups have all they drop */
    k.loose = (uint8_t)(s->open && !k.leading);
    if (s->n_pending == STK_SESSION_PENDING && s->pending->loose)
        return STK_END; /* it never came */
    if (s->n_pending == STK_SESSION_PENDING)
        memmove(s->pending, s->pending + 1, --s->n_pending * sizeof *s->pending);
    s->pending[s->n_pending++] = k;
    r->packets++;
    rc = s->ops->send(s->stream, &(stk_vdec_packet){ in, k.decode, k.leading || k.loose }, NULL);
    stk_scratch_rewind(r->job->scratch, mark);
    if (rc)
        return k.leading ? 0 : STK_END;
    return take_frames(r, err);
}

/* 1: some frame that the window's frames may refer to has not come, of a packet whose errors are
 * covered up: it may be damaged. */
static int is_unproved(const stk_session_run *r)
{
    for (uint32_t i = 0; i < r->s->n_pending; i++)
        if (r->s->pending[i].loose && r->s->pending[i].decode < r->want[r->n - 1].decode)
            return 1;
    return 0;
}

static int drain(stk_session_run *r, stk_error *err)
{
    stk_session *s = r->s;
    int rc = s->ops->send(s->stream, &(stk_vdec_packet){ 0 }, NULL) ? STK_END : take_frames(r, err);

    rc = rc == 0 && is_unproved(r) ? STK_END : rc;
    s->next = STK_NO_PACKET;
    s->n_pending = 0;
    return rc;
}

/* At a keyframe.  What is still in the decoder is taken first, if it is wanted. */
static int begin(stk_session_run *r, uint32_t at, stk_error *err)
{
    stk_session *s = r->s;
    stk_video_frame f;
    stk_bytes in, setup;
    uint32_t show;
    int is;

    for (uint32_t i = 0; i < s->n_pending; i++)
        if (want_of(r, s->pending[i].decode) || is_unproved(r)) {
            GO(drain(r, err));
            break;
        }
    s->next = STK_NO_PACKET;
    s->n_pending = 0;
    GO(look_at(r, at, &f, &show));
    GO(packet_bytes(r, &f, &in));
    if (stk_video_points_setup(r->h, &setup, NULL) < 0)
        return STK_END;
    is = stk_packet_is_start(r->h->codec, setup, in);
    if (!is)
        return STK_END;
    s->ops->flush(s->stream);
    s->open = is == STK_START_OPEN;
    s->begun = s->next = at;
    s->key_time = f.time;
    return 0;
}

static int is_pending(const stk_session *s, uint32_t decode)
{
    for (uint32_t i = 0; i < s->n_pending; i++)
        if (s->pending[i].decode == decode)
            return 1;
    return 0;
}

/* 1: frame w comes of the packets from s->next on, without a keyframe that would be nearer. */
static int goes_on(const stk_session *s, const stk_clip_want *w)
{
    if (is_pending(s, w->decode))
        return 1;
    return s->next != STK_NO_PACKET && s->begun <= w->start && s->next >= w->start &&
           s->next <= w->decode;
}

/* 1: a later window has a frame before packet `to`, which a jump there would leave out. */
static int leaves_out(stk_session_run *r, uint32_t to)
{
    stk_video_frame f;
    uint32_t show;

    for (uint32_t d = r->s->next; d < to; d++) {
        if (look_at(r, d, &f, &show))
            return 0;
        if (show != UINT32_MAX && is_later(r->job, show))
            return 1;
    }
    return 0;
}

int stk_session_fits(const stk_session *s, const stk_session_job *job, const stk_clip_want *want,
                     uint32_t n)
{
    if (s->key != job->key || !s->stream)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!stk_session_shared(s, want[i].decode))
            return goes_on(s, &want[i]) ? 2 : s->after == job->ask->frame[0];
    return 2;
}

static int give_shared(stk_session_run *r, stk_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < r->n && rc == 0; i++) {
        const stk_shared_frame *f = stk_session_shared(r->s, r->want[i].decode);

        if (f)
            rc = hand_out(r, &r->want[i], &f->planes, err);
    }
    return rc;
}

int stk_session_decode(stk_session_run *r, stk_error *err)
{
    stk_session *s = r->s;

    r->until = stk_vdec_until(r->job->most, (uint64_t)r->n * r->job->stride);
    stk_session_forget(s, r->job->ask->frame[0]);
    s->after = r->job->ask->frame[0] + r->job->step;
    GO(give_shared(r, err));
    for (uint32_t i = 0; i < r->n; i++) {
        const stk_clip_want *w = &r->want[i];

        if (r->given[w->i] || is_pending(s, w->decode))
            continue;
        if (!goes_on(s, w) && (s->next > w->start || !leaves_out(r, w->start)))
            GO(begin(r, w->start, err));
        while (s->next <= w->decode)
            GO(send(r, err));
    }
    for (uint32_t more = 0;
         (r->left || is_unproved(r)) && more < STK_SESSION_PENDING && s->next < r->h->n; more++)
        GO(send(r, err));
    if (r->left || is_unproved(r))
        GO(drain(r, err));
    return r->left ? STK_END : 0;
}
