/* SPDX-License-Identifier: Apache-2.0 */
/* ring_test.c - slots that threads and processes share: what is written is what is read, a slot is
 * one holder's at a time, and it comes back.  The thread test is also TSan's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring.h"

#define ROOM ((size_t)1 << 20)
#define THREADS 4
#define ROUNDS 2000

static void a_slot_comes_back(void **state)
{
    ring *r = ring_open(-1, ROOM);
    uint32_t a = ring_take(r), b = ring_take(r);

    (void)state;
    assert_true(a != b && a < RING_SLOTS && b < RING_SLOTS);
    assert_int_equal(ring_taken(r), 2);
    ring_give(r, a);
    assert_int_equal(ring_take(r), a); /* the last one first: its pages are warm */
    ring_give(r, a);
    ring_give(r, b);
    assert_int_equal(ring_taken(r), 0);
    ring_unref(r);
}

static void another_process_fills_it(void **state)
{
    ring *r = ring_open(-1, ROOM);
    uint32_t number = ring_take(r);
    uint8_t *p = ring_slot(r, number);
    ring_message m = { .state = 0 };
    pid_t pid;

    (void)state;
    ring_say(p, &m);
    pid = fork();
    if (pid == 0) {
        ring *mine = ring_open(dup(ring_fd(r)), ROOM); /* as a process that was not forked does */
        uint8_t *q = ring_slot(mine, number);

        memset(q + RING_DATA, 42, 1000);
        m = (ring_message){ .state = 7, .at = RING_DATA, .len = 1000 };
        ring_say(q, &m);
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    ring_hear(p, &m);
    assert_int_equal(m.state, 7);
    assert_int_equal(m.len, 1000);
    for (uint64_t i = 0; i < m.len; i++)
        assert_int_equal(p[m.at + i], 42);
    ring_give(r, number);
    ring_unref(r);
}

/* Each thread takes slots, fills them, hands one to the next thread and gives the rest back. */
typedef struct lane {
    ring *r;
    _Atomic uint32_t *box; /* slot + 1; 0: empty */
    unsigned seed;
} lane;

static void fill(ring *r, uint32_t number, uint8_t byte)
{
    uint8_t *p = ring_slot(r, number);
    ring_message m = { .state = byte, .at = RING_DATA, .len = 4096 };

    memset(p + RING_DATA, byte, 4096);
    ring_say(p, &m);
}

static void check(ring *r, uint32_t number)
{
    const uint8_t *p = ring_slot(r, number);
    ring_message m;

    ring_hear(p, &m);
    for (uint64_t i = 0; i < m.len; i++)
        if (p[m.at + i] != m.state)
            abort();
}

static void *walk(void *cookie)
{
    lane *l = cookie;

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t number = ring_take(l->r), old;

        if (number == RING_SLOTS)
            abort();
        fill(l->r, number, (uint8_t)(1 + rand_r(&l->seed) % 255));
        old = __atomic_exchange_n((uint32_t *)l->box, number + 1, __ATOMIC_ACQ_REL);
        if (old) {
            check(l->r, old - 1);
            ring_give(l->r, old - 1);
        }
    }
    return NULL;
}

static void threads_take_and_give(void **state)
{
    ring *r = ring_open(-1, ROOM);
    _Atomic uint32_t box = 0;
    pthread_t thread[THREADS];
    lane l[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        l[i] = (lane){ r, &box, 100u + (unsigned)i };
        assert_int_equal(pthread_create(&thread[i], NULL, walk, &l[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(ring_taken(r), 1); /* the one in the box */
    assert_true(box > 0);
    ring_give(r, box - 1);
    ring_unref(r);
}

static void numbers_have_addresses(void **state)
{
    uint32_t a[624], b[624];

    (void)state;
    ring_words(1, a);
    ring_words(1, b);
    assert_memory_equal(a, b, sizeof a);
    ring_words(2, b);
    assert_memory_not_equal(a, b, sizeof a);
    assert_true(ring_hash(1, 2, 3) != ring_hash(1, 3, 2));
    assert_true(ring_hash(1, 2, 3) == ring_hash(1, 2, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_comes_back),
        cmocka_unit_test(another_process_fills_it),
        cmocka_unit_test(threads_take_and_give),
        cmocka_unit_test(numbers_have_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
