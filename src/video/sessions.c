/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c - see sessions.h.  The pool: a list of sessions that no worker has, the libraries that
 * their decoders are of, and what they are charged. */
#include "video/sessions.h"

#include <assert.h>
#include <string.h>

#include "base/lock.h"
#include "video/session.h"

struct stk_sessions {
    stk_mutex lock;
    stk_account account; /* a part of the loader's */
    uint32_t most;
    uint64_t puts;            /* lock */
    stk_session *idle;        /* lock */
    void *libav;              /* lock; what it points to stays as it is */
    stk_sessions_stats stats; /* lock */
};

int stk_sessions_open(stk_sessions **out, stk_account *whole, uint64_t limit, uint32_t most,
                      stk_error *err)
{
    stk_sessions *p = STK_NEW(stk_sessions);

    *out = NULL;
    if (!p || stk_mutex_init(&p->lock)) {
        stk_free(p);
        return stk_fail_nomem(err, sizeof *p);
    }
    stk_account_init_part(&p->account, limit, whole);
    p->most = most;
    *out = p;
    return 0;
}

static void close_session(stk_session *s)
{
    stk_session_forget(s, UINT64_MAX);
    if (s->stream)
        s->ops->close(s->stream);
    stk_account_give(s->account, s->charged);
    stk_free(s->shared);
    stk_free(s->setup);
    stk_free(s->buffer);
    stk_free(s);
}

int stk_sessions_trim(stk_sessions *p)
{
    stk_session *all;

    stk_mutex_lock(&p->lock);
    all = p->idle;
    p->idle = NULL;
    for (const stk_session *s = all; s; s = s->next_idle)
        p->stats.n--;
    stk_mutex_unlock(&p->lock);
    for (stk_session *s = all, *next; s; s = next) {
        next = s->next_idle;
        close_session(s);
    }
    return all != NULL;
}

void stk_sessions_close(stk_sessions **pp)
{
    stk_sessions *p = *pp;

    *pp = NULL;
    if (!p)
        return;
    stk_sessions_trim(p);
    assert(!p->stats.n); /* workers put back what they take */
    if (p->libav)
        stk_vdec_libav.unload(p->libav);
    stk_account_fini(&p->account);
    stk_mutex_destroy(&p->lock);
    stk_free(p);
}

void stk_sessions_count(stk_sessions *p, stk_sessions_stats *out)
{
    stk_mutex_lock(&p->lock);
    *out = p->stats;
    stk_mutex_unlock(&p->lock);
}

/* ---- take and put ---- */

typedef struct asked {
    const stk_session_job *job;
    const stk_video_head *h;
    stk_bytes setup;
    const stk_clip_want *want;
    uint32_t n;
} asked;

static uint64_t charge_of(const stk_video_head *h)
{
    return (uint64_t)h->width * h->height * 24 + STK_SESSION_READ;
}

static int same_setup(const stk_session *s, const asked *a)
{
    return s->stream && s->codec == a->h->codec && s->width == a->h->width &&
           s->height == a->h->height && s->setup_len == a->setup.len &&
           !memcmp(s->setup, a->setup.data, s->setup_len);
}

/* The session that goes furthest; else the one whose turn it is; else NULL: another stream of
 * windows will go on where others of this file are.  *oldest: the one that was not used for
 * longest. */
static stk_session **find_locked(stk_sessions *p, const asked *a, stk_session ***oldest)
    STK_REQUIRES(p->lock)
{
    stk_session **best = NULL;
    int fits = 0;

    *oldest = NULL;
    for (stk_session **at = &p->idle; *at; at = &(*at)->next_idle) {
        int how = same_setup(*at, a) ? stk_session_fits(*at, a->job, a->want, a->n) : 0;

        if (how > fits || (how && how == fits && (*at)->next != STK_NO_PACKET &&
                           ((*best)->next == STK_NO_PACKET || (*at)->next > (*best)->next))) {
            best = at;
            fits = how;
        }
        if (!*oldest || (*at)->used < (**oldest)->used)
            *oldest = at;
    }
    return best;
}

static int has_room_locked(stk_sessions *p, const asked *a) STK_REQUIRES(p->lock)
{
    return p->stats.n < p->most && stk_account_take(&p->account, charge_of(a->h));
}

static stk_session *without(stk_session **at)
{
    stk_session *s = *at;

    *at = s->next_idle;
    s->next_idle = NULL;
    return s;
}

/* One more session.  NULL: there is no room. */
static stk_session *add_locked(stk_sessions *p, const asked *a) STK_REQUIRES(p->lock)
{
    stk_session *s;

    if (!has_room_locked(p, a))
        return NULL;
    s = STK_NEW(stk_session);
    if (!s) {
        stk_account_give(&p->account, charge_of(a->h));
        return NULL;
    }
    *s = (stk_session){ .account = &p->account, .charged = charge_of(a->h), .next = STK_NO_PACKET };
    p->stats.n++;
    return s;
}

/* Its decoder is for another file, or another place in this one. */
static stk_session *emptied(stk_session *s, uint64_t key)
{
    stk_session_forget(s, UINT64_MAX);
    s->key = key;
    s->next = STK_NO_PACKET;
    s->n_pending = 0;
    s->buffer_len = 0;
    return s;
}

/* One that fits; else a new one; else the oldest, whose decoder stays if it is for such packets.
 * NULL: none can be had. */
static stk_session *take(stk_sessions *p, const asked *a)
{
    stk_session **best, **oldest, *s, *old = NULL;

    stk_mutex_lock(&p->lock);
    best = find_locked(p, a, &oldest);
    s = best ? without(best) : add_locked(p, a);
    if (!s && oldest) {
        old = without(oldest);
        p->stats.n -= !same_setup(old, a);
    }
    stk_mutex_unlock(&p->lock);
    if (!old)
        return s;
    if (same_setup(old, a))
        return emptied(old, a->job->key);
    close_session(old); /* its bytes are free now */
    stk_mutex_lock(&p->lock);
    s = add_locked(p, a);
    stk_mutex_unlock(&p->lock);
    return s;
}

static void put(stk_sessions *p, stk_session *s, int keep)
{
    stk_mutex_lock(&p->lock);
    s->used = ++p->puts;
    if (keep) {
        s->next_idle = p->idle;
        p->idle = s;
    } else {
        p->stats.n--;
    }
    stk_mutex_unlock(&p->lock);
    if (!keep)
        close_session(s);
}

/* ---- one window ---- */

static int load(stk_sessions *p, void **lib, stk_error *err)
{
    int rc = 0;

    stk_mutex_lock(&p->lock);
    if (!p->libav)
        rc = stk_vdec_libav.load(&p->libav, err);
    *lib = p->libav;
    stk_mutex_unlock(&p->lock);
    return rc;
}

static int open_stream(stk_sessions *p, stk_session *s, const asked *a)
{
    stk_vdec_setup how = {
        .codec = a->h->codec, .width = a->h->width, .height = a->h->height, .setup = a->setup
    };
    void *lib = NULL;

    if (s->stream)
        return 0;
    s->ops = &stk_vdec_libav;
#if STK_HAVE_DAV1D
    s->ops = a->h->codec == STK_VIDEO_AV1 ? &stk_vdec_dav1d : s->ops;
#endif
    s->setup = stk_alloc(a->setup.len + 1);
    if (!s->setup)
        return STK_END;
    if (a->setup.len)
        memcpy(s->setup, a->setup.data, a->setup.len);
    s->setup_len = a->setup.len;
    s->codec = how.codec;
    s->width = how.width;
    s->height = how.height;
    s->key = a->job->key;
    if (s->ops == &stk_vdec_libav && load(p, &lib, NULL) < 0)
        return STK_END;
    how.setup = (stk_bytes){ s->setup, s->setup_len };
    return s->ops->open(&s->stream, lib, &how, NULL) < 0 ? STK_END : 0;
}

static int run_window(stk_sessions *p, const asked *a, stk_error *err)
{
    stk_session_run r = { .job = a->job, .h = a->h, .want = a->want, .n = a->n, .left = a->n };
    int rc, fits;

    r.given = stk_scratch_get(a->job->scratch, a->n + 1);
    if (!r.given)
        return STK_END;
    memset(r.given, 0, a->n);
    r.mark = stk_scratch_mark(a->job->scratch);
    r.s = take(p, a);
    if (!r.s)
        return STK_END;
    fits = r.s->stream ? stk_session_fits(r.s, a->job, a->want, a->n) : 0;
    rc = open_stream(p, r.s, a);
    if (rc == 0)
        rc = stk_session_decode(&r, err);
    stk_mutex_lock(&p->lock);
    p->stats.windows++;
    p->stats.continued += fits == 2;
    p->stats.packets += r.packets;
    p->stats.frames += a->n - r.left;
    stk_mutex_unlock(&p->lock);
    put(p, r.s, rc == 0 && (r.s->next != STK_NO_PACKET || r.s->n_shared));
    return rc;
}

int stk_sessions_decode(stk_sessions *p, const stk_session_job *job, stk_error *err)
{
    unsigned mark = stk_scratch_mark(job->scratch);
    asked a = { .job = job, .n = job->ask->n_frames };
    stk_clip_want *want;
    stk_video_head h;
    int rc;

    assert(job->frames && job->stride && job->step);
    if (!job->key || !a.n || stk_video_points_open(&h, job->points, NULL) < 0 ||
        h.codec == STK_VIDEO_MJPEG || stk_video_points_setup(&h, &a.setup, NULL) < 0)
        return STK_END;
    want = stk_scratch_get(job->scratch, a.n * sizeof *want);
    if (!want || stk_clip_find(&h, job->ask, job->scratch, want, NULL) < 0) {
        stk_scratch_rewind(job->scratch, mark);
        return STK_END;
    }
    a.h = &h;
    a.want = want;
    rc = run_window(p, &a, err);
    stk_scratch_rewind(job->scratch, mark);
    return rc;
}
