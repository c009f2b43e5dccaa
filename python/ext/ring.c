/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - see ring.h. */
#include "ring.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct ring {
    int fd;
    size_t room;
    _Atomic uint32_t refs;
    pthread_mutex_t lock;
    uint32_t made, n_free, out; /* lock: slots in the file; those that are free; taken */
    uint32_t *free;             /* lock: RING_SLOTS of them */
    _Atomic(uint8_t *) *base;   /* RING_SLOTS; NULL: not mapped here */
};

typedef struct head { /* the first bytes of a slot */
    _Atomic uint32_t state;
    uint32_t unused;
    uint64_t at, len;
} head;

static uint8_t *map(const ring *r, uint32_t number)
{
    void *p = mmap(NULL, r->room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r->fd,
                   (off_t)r->room * number);

    return p == MAP_FAILED ? NULL : p;
}

/* As much room as address space allows, found by trying. */
static void find_room(ring *r)
{
    uint8_t *p = NULL;

    for (r->room = RING_ROOM; r->room > RING_LEAST && !(p = map(r, 0)); r->room /= 2)
        ;
    if (p)
        munmap(p, r->room);
    if (r->room < RING_ROOM && r->room > RING_LEAST)
        r->room /= 8; /* several slots are to fit */
}

ring *ring_open(int fd, size_t room)
{
    ring *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->fd = fd < 0 ? memfd_create("stoker", MFD_CLOEXEC) : fd;
    r->free = calloc(RING_SLOTS, sizeof *r->free);
    r->base = calloc(RING_SLOTS, sizeof *r->base);
    if (r->fd < 0 || !r->free || !r->base || pthread_mutex_init(&r->lock, NULL)) {
        free(r->free);
        free((void *)r->base);
        free(r);
        return NULL;
    }
    r->room = room;
    if (!room)
        find_room(r);
    atomic_store_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void ring_ref(ring *r)
{
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
}

void ring_unref(ring *r)
{
    if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (uint32_t i = 0; i < RING_SLOTS; i++) {
        uint8_t *p = atomic_load_explicit(&r->base[i], memory_order_relaxed);

        if (p)
            munmap(p, r->room);
    }
    close(r->fd);
    pthread_mutex_destroy(&r->lock);
    free(r->free);
    free((void *)r->base);
    free(r);
}

int ring_fd(const ring *r)
{
    return r->fd;
}

size_t ring_room(const ring *r)
{
    return r->room;
}

uint8_t *ring_slot(ring *r, uint32_t number)
{
    uint8_t *p, *none = NULL;

    assert(number < RING_SLOTS);
    p = atomic_load_explicit(&r->base[number], memory_order_acquire);
    if (p)
        return p;
    p = map(r, number);
    if (p && !atomic_compare_exchange_strong_explicit(&r->base[number], &none, p,
                                                      memory_order_acq_rel, memory_order_acquire)) {
        munmap(p, r->room); /* another thread was first */
        p = none;
    }
    return p;
}

static uint32_t fresh_locked(ring *r)
{
    if (r->made == RING_SLOTS) {
        errno = ENOSPC;
        return RING_SLOTS;
    }
    if (ftruncate(r->fd, (off_t)r->room * (r->made + 1)) < 0)
        return RING_SLOTS;
    return r->made++;
}

uint32_t ring_take(ring *r)
{
    uint32_t number;

    pthread_mutex_lock(&r->lock);
    number = r->n_free ? r->free[--r->n_free] : fresh_locked(r);
    r->out += number < RING_SLOTS;
    pthread_mutex_unlock(&r->lock);
    if (number < RING_SLOTS && !ring_slot(r, number)) {
        ring_give(r, number);
        return RING_SLOTS;
    }
    return number;
}

void ring_give(ring *r, uint32_t number)
{
    pthread_mutex_lock(&r->lock);
    assert(r->out > 0 && number < r->made); /* a slot comes back once */
    r->out--;
    r->free[r->n_free++] = number;
    pthread_mutex_unlock(&r->lock);
}

uint32_t ring_taken(ring *r)
{
    uint32_t n;

    pthread_mutex_lock(&r->lock);
    n = r->out;
    pthread_mutex_unlock(&r->lock);
    return n;
}

void ring_say(uint8_t *slot, const ring_message *m)
{
    head *h = (head *)slot;

    h->at = m->at;
    h->len = m->len;
    atomic_store_explicit(&h->state, m->state, memory_order_release);
}

void ring_hear(const uint8_t *slot, ring_message *out)
{
    head *h = (head *)slot;

    out->state = atomic_load_explicit(&h->state, memory_order_acquire);
    out->at = out->len = 0;
    if (out->state) {
        out->at = h->at;
        out->len = h->len;
    }
}

/* ---- numbers with addresses ---- */

static uint64_t mixed(uint64_t x) /* splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t ring_hash(uint64_t a, uint64_t b, uint64_t c)
{
    return mixed(mixed(mixed(a) ^ b) ^ c);
}

void ring_words(uint64_t address, uint32_t words[624])
{
    for (uint32_t i = 0; i < 312; i++) {
        uint64_t x = mixed(address + i * 0x9e3779b97f4a7c15u);

        words[2 * i] = (uint32_t)x;
        words[2 * i + 1] = (uint32_t)(x >> 32);
    }
    words[0] |= 0x80000000u; /* all zeros is the one state that a Twister never leaves */
}
