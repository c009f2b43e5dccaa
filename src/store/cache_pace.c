/* SPDX-License-Identifier: Apache-2.0 */
/* cache_pace.c - what servers said to any process of the host: a mapped file in the cache folder.
 *
 * Times in it are of the host's monotonic clock.  A pause beyond STK_PACE_MAX is of an earlier
 * boot, or nonsense, and does not count. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_cache.h"

typedef struct shared {
    _Atomic uint64_t turn;     /* counts how often a server said it */
    _Atomic uint64_t until_ns; /* nothing is asked before */
} shared;

struct stk_pace {
    shared *map;
    uint64_t seen; /* turns.  Thread: the client's. */
};

/* Room on disk comes first: a page that can't be written would end the process. */
static shared *map_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    struct stat st;
    void *map = MAP_FAILED;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        posix_fallocate(fd, 0, sizeof(shared)) == 0)
        map = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return map == MAP_FAILED ? NULL : map;
}

stk_pace *stk_pace_open(const char *folder)
{
    stk_pace *p = STK_NEW(stk_pace);
    char path[4096];

    if (!p)
        return NULL;
    snprintf(path, sizeof path, "%s/pace", folder);
    p->map = map_file(path);
    if (!p->map) {
        stk_free(p);
        return NULL;
    }
    p->seen = atomic_load_explicit(&p->map->turn, memory_order_relaxed);
    return p;
}

void stk_pace_close(stk_pace **pp)
{
    stk_pace *p = *pp;

    *pp = NULL;
    if (!p)
        return;
    munmap(p->map, sizeof *p->map);
    stk_free(p);
}

void stk_pace_tell(stk_pace *p, uint64_t until)
{
    uint64_t was = atomic_load_explicit(&p->map->until_ns, memory_order_relaxed), turn;

    while ((was < until || was > until + STK_PACE_MAX) &&
           !atomic_compare_exchange_weak_explicit(&p->map->until_ns, &was, until,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    turn = atomic_fetch_add_explicit(&p->map->turn, 1, memory_order_release);
    if (turn == p->seen)
        p->seen++; /* one's own is no news */
}

int stk_pace_news(stk_pace *p, uint64_t now, uint64_t *until)
{
    uint64_t turn = atomic_load_explicit(&p->map->turn, memory_order_acquire),
             at = atomic_load_explicit(&p->map->until_ns, memory_order_relaxed);
    int news = turn != p->seen;

    p->seen = turn;
    *until = at > now && at - now <= STK_PACE_MAX ? at : 0;
    return news;
}
