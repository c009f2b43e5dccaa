/* SPDX-License-Identifier: Apache-2.0 */
/* uring.c - one io_uring, run by one thread, fed by many.
 *
 * Pushed reads wait in a list under a lock; the running thread moves them into places of the
 * ring, as many as it has, submits them together and sleeps until something completes.  A read
 * of an eventfd sits in the ring as well, so that one sleep waits for completions and for new
 * reads alike; a thread that pushes writes to it only when the thread sleeps and has a place free.
 *
 * A place lives from its first submission to io->done(): a short count is read on from where it
 * ended until the file ends, a failed read starts over after a pause, which is a timeout in the
 * same ring.  The rings are not mapped in a forked child, and nothing there calls us. */
#include "fetch/uring.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/lock.h"
#include "fetch/request.h"

/* liburing maps and unmaps rings by bare system calls, which TSan does not see: a new ring where an
 * old one was looks to it like memory that two threads share.  So say that one came after the
 * other. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RINGS_UNDER_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define RINGS_UNDER_TSAN 1
#endif
#if RINGS_UNDER_TSAN
#include <sanitizer/tsan_interface.h>
static char ring_memory; /* an address to speak of */
#define RING_MAPPED() __tsan_acquire(&ring_memory)
#define RING_UNMAPS() __tsan_release(&ring_memory)
#else
#define RING_MAPPED() ((void)0)
#define RING_UNMAPS() ((void)0)
#endif

#define MAX_READ (1u << 30) /* a call's count is 32 bits */
#define NO_PLACE UINT32_MAX

typedef struct place { /* thread: the one that runs the ring */
    stk_io *io;
    uint32_t tries;
    uint32_t next; /* while it is free */
    struct __kernel_timespec pause;
} place;

struct stk_uring {
    struct io_uring ring;
    int wake_fd;
    _Atomic uint64_t *retried;

    /* thread: the one that runs the ring */
    place *place;
    uint32_t depth, busy, free;
    uint64_t woken; /* filled by the kernel */
    int waking;     /* the read of wake_fd is on its way */

    stk_mutex lock;
    stk_io *head, *tail; /* lock */
    int asleep;          /* lock: and there is a place for one more */
    int stop;            /* lock */
};

/* What a completion means: place i's read, place i's pause, or the wake-up. */
static uint64_t mark_read(uint32_t i)
{
    return 2 * (uint64_t)i;
}

static uint64_t mark_pause(uint32_t i)
{
    return 2 * (uint64_t)i + 1;
}

#define MARK_WAKE UINT64_MAX

/* ---- open and close ---- */

static int refused(int sys, stk_error *err)
{
    char text[96];

    return stk_fail(err, STK_ENOTSUP, "the kernel refuses io_uring: %s",
                    strerror_r(sys, text, sizeof text));
}

/* Some sandboxes let a ring be made and refuse its use, so one is used. */
static int probe(stk_error *err)
{
    struct io_uring_params p = { 0 };
    struct io_uring ring;
    int rc = io_uring_queue_init_params(2, &ring, &p);

    if (rc < 0)
        return refused(-rc, err);
    RING_MAPPED();
    io_uring_prep_nop(io_uring_get_sqe(&ring));
    rc = io_uring_submit_and_wait(&ring, 1);
    RING_UNMAPS();
    io_uring_queue_exit(&ring);
    if (rc < 0 && rc != -EINTR)
        return refused(-rc, err);
    if (!(p.features & IORING_FEAT_FAST_POLL))
        return stk_fail(err, STK_ENOTSUP, "the kernel's io_uring is older than Linux 5.7");
    return 0;
}

/* The thread that runs the ring is in the kernel whenever it has nothing to do, so completions need
 * not interrupt it (Linux 5.19). */
static int make_ring(stk_uring *u, stk_error *err)
{
    int rc = io_uring_queue_init(u->depth + 1, &u->ring, IORING_SETUP_COOP_TASKRUN);

    if (rc == -EINVAL)
        rc = io_uring_queue_init(u->depth + 1, &u->ring, 0);
    if (rc < 0)
        return refused(-rc, err);
    RING_MAPPED();
    io_uring_ring_dontfork(&u->ring);
    return 0;
}

int stk_uring_open(stk_uring **out, uint32_t depth, _Atomic uint64_t *retried, stk_error *err)
{
    stk_uring *u = NULL;
    int rc;

    *out = NULL;
    STK_TRY(probe(err));
    u = STK_NEW(stk_uring);
    if (!u)
        return stk_fail_nomem(err, sizeof *u);
    u->place = stk_zalloc(depth, sizeof *u->place);
    if (!u->place) {
        stk_free(u);
        return stk_fail_nomem(err, depth * sizeof *u->place);
    }
    u->depth = depth;
    u->retried = retried;
    for (uint32_t i = 0; i < depth; i++)
        u->place[i].next = i + 1 < depth ? i + 1 : NO_PLACE;
    u->wake_fd = eventfd(0, EFD_CLOEXEC);
    rc = u->wake_fd < 0 ? refused(errno, err) : make_ring(u, err);
    if (rc < 0) {
        if (u->wake_fd >= 0)
            close(u->wake_fd);
        stk_free(u->place);
        stk_free(u);
        return rc;
    }
    stk_mutex_init(&u->lock);
    *out = u;
    return 0;
}

void stk_uring_close(stk_uring **u)
{
    if (!*u)
        return;
    RING_UNMAPS();
    io_uring_queue_exit(&(*u)->ring);
    close((*u)->wake_fd);
    stk_mutex_destroy(&(*u)->lock);
    stk_free((*u)->place);
    stk_free(*u);
    *u = NULL;
}

/* ---- what other threads call ---- */

static void wake(stk_uring *u)
{
    eventfd_write(u->wake_fd, 1);
}

void stk_uring_push(stk_uring *u, stk_io *io)
{
    int asleep;

    io->next = NULL;
    stk_mutex_lock(&u->lock);
    *(u->head ? &u->tail->next : &u->head) = io;
    u->tail = io;
    asleep = u->asleep;
    u->asleep = 0; /* one call is enough to wake it */
    stk_mutex_unlock(&u->lock);
    if (asleep)
        wake(u);
}

void stk_uring_stop(stk_uring *u)
{
    stk_mutex_lock(&u->lock);
    u->stop = 1;
    stk_mutex_unlock(&u->lock);
    wake(u);
}

/* ---- the thread that runs it ---- */

/* io_uring_get_sqe() has one for us every time: a place has at most one entry in the queue, and so
 * has the wake-up. */
static void read_on(stk_uring *u, uint32_t i)
{
    stk_io *io = u->place[i].io;
    size_t left = io->len - io->got;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

    assert(sqe && io->got <= io->len);
    io_uring_prep_read(sqe, stk_file_fd(io->file), (char *)io->dst + io->got,
                       left < MAX_READ ? (unsigned)left : MAX_READ, io->offset + io->got);
    io_uring_sqe_set_data64(sqe, mark_read(i)); /* after prep, which may clear it */
}

static void start_over(stk_uring *u, uint32_t i)
{
    stk_io *io = u->place[i].io;

    io->got = 0;
    io->rc = io->sys = 0;
    read_on(u, i);
}

static void let_go(stk_uring *u, uint32_t i)
{
    stk_io *io = u->place[i].io;

    assert(u->busy > 0 && io);
    u->place[i].next = u->free;
    u->free = i;
    u->busy--;
    io->done(io);
}

static void read_failed(stk_uring *u, uint32_t i, int sys)
{
    place *p = &u->place[i];
    struct io_uring_sqe *sqe;

    p->io->rc = STK_EIO;
    p->io->sys = sys;
    if (++p->tries == STK_IO_TRIES) {
        let_go(u, i);
        return;
    }
    atomic_fetch_add_explicit(u->retried, 1, memory_order_relaxed);
    p->pause = (struct __kernel_timespec){ .tv_nsec = stk_io_pause_ns(p->tries) };
    sqe = io_uring_get_sqe(&u->ring);
    io_uring_prep_timeout(sqe, &p->pause, 0, 0);
    io_uring_sqe_set_data64(sqe, mark_pause(i));
}

static void read_came(stk_uring *u, uint32_t i, int res)
{
    stk_io *io = u->place[i].io;

    if (res < 0 && res != -EINTR) {
        read_failed(u, i, -res);
        return;
    }
    io->got += res > 0 ? (size_t)res : 0;
    if (res && io->got < io->len)
        read_on(u, i);
    else
        let_go(u, i); /* all of it, or the file ends here */
}

static void complete(stk_uring *u, uint64_t mark, int res)
{
    assert(mark == MARK_WAKE || mark / 2 < u->depth);
    if (mark == MARK_WAKE)
        u->waking = 0;
    else if (mark & 1)
        start_over(u, (uint32_t)(mark / 2));
    else
        read_came(u, (uint32_t)(mark / 2), res);
}

static void begin(stk_uring *u, stk_io *io)
{
    uint32_t i = u->free;

    assert(i != NO_PLACE); /* take() counts the room */
    u->free = u->place[i].next;
    u->busy++;
    u->place[i].io = io;
    u->place[i].tries = 0;
    io->rc = io->sys = 0;
    if (io->offset <= INT64_MAX - io->len) {
        read_on(u, i); /* from io->got: try_read() may have brought the beginning */
        return;
    }
    io->rc = STK_EIO;
    io->sys = EOVERFLOW;
    let_go(u, i);
}

/* Move pushed reads into places.  0: stopped, and nothing is left. */
static int take(stk_uring *u)
{
    stk_io *list, *io;
    uint32_t room = u->depth - u->busy;
    int stop, more;

    stk_mutex_lock(&u->lock);
    list = u->head;
    for (; room && u->head; room--)
        u->head = u->head->next;
    io = u->head;
    more = io != NULL;
    stop = u->stop;
    u->asleep = room && !stop;
    stk_mutex_unlock(&u->lock);
    while (list != io) {
        stk_io *next = list->next; /* it is gone once begun and done */

        begin(u, list);
        list = next;
    }
    if (!u->waking && !stop) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

        io_uring_prep_read(sqe, u->wake_fd, &u->woken, sizeof u->woken, 0);
        io_uring_sqe_set_data64(sqe, MARK_WAKE);
        u->waking = 1;
    }
    return !stop || more || u->busy || u->waking;
}

void stk_uring_run(stk_uring *u)
{
    struct io_uring_cqe *cqe;
    int rc;

    while (take(u)) {
        rc = io_uring_submit_and_wait(&u->ring, 1);
        if (rc < 0 && rc != -EINTR) /* the kernel is short of memory: it passes */
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        while (io_uring_peek_cqe(&u->ring, &cqe) == 0) {
            uint64_t mark = io_uring_cqe_get_data64(cqe);
            int res = cqe->res;

            io_uring_cqe_seen(&u->ring, cqe);
            complete(u, mark, res);
        }
    }
}
