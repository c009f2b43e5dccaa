/* SPDX-License-Identifier: Apache-2.0 */
/* cache_folder.c - the folder of a host cache: how much it holds, who uses it, what makes room.
 *
 * "used" has the number of bytes that were let in; a process that changes it has a lock on it.  A
 * process that is killed in between leaves it too large, so the first one to come counts again.
 * "users" and "group-*" are locked for as long as a process reads here, or reads that data set.  An
 * epoch reads everything once and comes back to the first, so that the least recently used is what
 * is wanted next: nothing of a data set makes room for the rest of it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "store/store.h"
#include "store/store_cache.h"

#define PATH_MAX_LEN 3600
#define FULL_NS 2000000000u /* so long no room is looked for again */
#define FAILED_NS 60000000000u

typedef struct group {
    struct group *next;
    uint64_t id;
    int fd; /* -1: it could not be marked */
} group;

struct stk_cache_folder {
    char path[PATH_MAX_LEN + 64];
    uint64_t limit;
    uint32_t session;
    int users_fd;
    stk_pace *pace;              /* NULL: each process by itself */
    group *groups;               /* stk_store_lock */
    _Atomic uint64_t full_until; /* ns */
    _Atomic int told;            /* that it can't be written to */
};

const char *stk_cache_folder_path(const stk_cache_folder *f)
{
    return f->path;
}

stk_pace *stk_cache_folder_pace(const stk_cache_folder *f)
{
    return f->pace;
}

uint32_t stk_cache_folder_session(const stk_cache_folder *f)
{
    return f->session;
}

/* ---- names ---- */

int stk_cache_name_read(const char *name, stk_cache_name *out)
{
    static const char shape[] = "hhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh.obj";

    if (strlen(name) != sizeof shape - 1)
        return 0;
    for (size_t i = 0; i < sizeof shape - 1; i++)
        if (shape[i] == 'h' && i < 50 ? !strchr("0123456789abcdef", name[i]) : name[i] != shape[i])
            return 0;
    out->group = strtoull(name, NULL, 16);
    out->url = strtoull(name + 17, NULL, 16);
    out->version = strtoull(name + 34, NULL, 16);
    return 1;
}

int stk_cache_folder_each(const char *path,
                          int (*each)(void *cookie, const char *file, const stk_cache_name *name),
                          void *cookie, stk_error *err)
{
    char file[PATH_MAX_LEN + 320];
    DIR *d = opendir(path);
    struct dirent *e;
    stk_cache_name name;
    int rc = 0;

    if (!d)
        return stk_fail(err, STK_ENOTFOUND, "there is no cache in %.200s", path);
    while (rc == 0 && (e = readdir(d)))
        if (stk_cache_name_read(e->d_name, &name)) {
            snprintf(file, sizeof file, "%s/%s", path, e->d_name);
            rc = each(cookie, file, &name);
        }
    closedir(d);
    return rc;
}

static int add_size(void *cookie, const char *file, const stk_cache_name *name)
{
    struct stat st;

    (void)name;
    if (lstat(file, &st) == 0)
        *(uint64_t *)cookie += (uint64_t)st.st_blocks * 512;
    return 0;
}

int stk_cache_folder_count(const char *path, uint64_t *bytes)
{
    *bytes = 0;
    return stk_cache_folder_each(path, add_size, bytes, NULL);
}

/* ---- who reads ---- */

static void group_path(const char *path, uint64_t id, char *out, size_t size)
{
    snprintf(out, size, "%s/group-%016" PRIx64, path, id);
}

int stk_cache_group_used(const char *path, uint64_t id)
{
    char name[PATH_MAX_LEN + 128];
    int fd, used;

    group_path(path, id, name, sizeof name);
    fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return 0;
    used = flock(fd, LOCK_EX | LOCK_NB) < 0;
    close(fd);
    return used;
}

void stk_cache_folder_use(stk_cache_folder *f, uint64_t id)
{
    char name[PATH_MAX_LEN + 128];
    group *g;

    stk_mutex_lock(&stk_store_lock);
    for (g = f->groups; g && g->id != id; g = g->next)
        ;
    if (!g && (g = STK_NEW(group))) {
        group_path(f->path, id, name, sizeof name);
        *g = (group){ f->groups, id, open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666) };
        f->groups = g;
        if (g->fd >= 0)
            (void)!flock(g->fd, LOCK_SH | LOCK_NB);
    }
    stk_mutex_unlock(&stk_store_lock);
}

/* ---- how much ---- */

typedef struct used { /* the file, locked */
    int fd;
    uint64_t bytes;
} used;

#define USED_MARK 0x314445535543534Bull /* "KSCUSED1" */

static int used_open(const char *path, used *u)
{
    char name[PATH_MAX_LEN + 128];
    uint64_t words[2] = { 0, 0 };

    snprintf(name, sizeof name, "%s/used", path);
    u->fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (u->fd < 0)
        return -1;
    while (flock(u->fd, LOCK_EX) < 0 && errno == EINTR)
        ;
    if (pread(u->fd, words, sizeof words, 0) != sizeof words || words[0] != USED_MARK)
        stk_cache_folder_count(path, &words[1]); /* new, torn or foreign */
    u->bytes = words[1];
    return 0;
}

static void used_close(used *u)
{
    uint64_t words[2] = { USED_MARK, u->bytes };

    (void)!pwrite(u->fd, words, sizeof words, 0);
    close(u->fd);
}

void stk_cache_folder_give(stk_cache_folder *f, uint64_t bytes)
{
    used u;

    if (used_open(f->path, &u) < 0)
        return;
    u.bytes -= bytes < u.bytes ? bytes : u.bytes;
    used_close(&u);
}

/* ---- making room ---- */

typedef struct candidate {
    char *file;
    stk_cache_name name;
    int64_t used_ns;
    uint64_t bytes;
    int stale;
} candidate;

typedef struct candidates {
    candidate *c;
    size_t n, cap;
} candidates;

static int add_candidate(void *cookie, const char *file, const stk_cache_name *name)
{
    candidates *l = cookie;
    size_t cap = l->cap ? l->cap * 2 : 64;
    candidate *grown;
    struct stat st;

    if (lstat(file, &st))
        return 0;
    if (l->n == l->cap) {
        grown = stk_grow(l->c, l->n * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return STK_ENOMEM;
        l->c = grown;
        l->cap = cap;
    }
    l->c[l->n] = (candidate){ stk_strdup(file), *name,
                              (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                              (uint64_t)st.st_blocks * 512, 0 };
    l->n++;
    return 0;
}

static int by_url(const void *a, const void *b)
{
    const candidate *x = a, *y = b;

    if (x->name.url != y->name.url)
        return x->name.url < y->name.url ? -1 : 1;
    return (x->used_ns < y->used_ns) - (x->used_ns > y->used_ns); /* the newest first */
}

static int by_age(const void *a, const void *b)
{
    const candidate *x = a, *y = b;

    if (x->stale != y->stale)
        return y->stale - x->stale;
    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

/* Old versions first, then other data sets that no process reads, the longest unused first. */
static void make_room(stk_cache_folder *f, used *u, uint64_t id, uint64_t bytes)
{
    candidates l = { 0 };

    (void)stk_cache_folder_each(f->path, add_candidate, &l, NULL);
    if (l.n)
        qsort(l.c, l.n, sizeof *l.c, by_url);
    for (size_t i = 1; i < l.n; i++)
        l.c[i].stale = l.c[i].name.url == l.c[i - 1].name.url;
    if (l.n)
        qsort(l.c, l.n, sizeof *l.c, by_age);
    for (size_t i = 0; i < l.n && u->bytes + bytes > f->limit; i++) {
        candidate *c = &l.c[i];

        if (!c->file ||
            (!c->stale && (c->name.group == id || stk_cache_group_used(f->path, c->name.group))))
            continue;
        if (unlink(c->file) == 0)
            u->bytes -= c->bytes < u->bytes ? c->bytes : u->bytes;
    }
    for (size_t i = 0; i < l.n; i++)
        stk_free(l.c[i].file);
    stk_free(l.c);
}

int stk_cache_folder_full(const stk_cache_folder *f)
{
    uint64_t until = atomic_load_explicit(&f->full_until, memory_order_relaxed);

    return until && stk_now_ns() < until;
}

int stk_cache_folder_take(stk_cache_folder *f, uint64_t id, uint64_t bytes)
{
    used u;
    int ok;

    if (stk_cache_folder_full(f) || used_open(f->path, &u) < 0)
        return 0;
    if (u.bytes + bytes > f->limit)
        make_room(f, &u, id, bytes);
    ok = u.bytes + bytes <= f->limit;
    u.bytes += ok ? bytes : 0;
    used_close(&u);
    if (!ok)
        atomic_store_explicit(&f->full_until, stk_now_ns() + FULL_NS, memory_order_relaxed);
    return ok;
}

void stk_cache_folder_failed(stk_cache_folder *f, int sys)
{
    char text[96];

    atomic_store_explicit(&f->full_until, stk_now_ns() + FAILED_NS, memory_order_relaxed);
    if (!atomic_exchange_explicit(&f->told, 1, memory_order_relaxed))
        stk_store_say(STK_LOG_WARN,
                      "the cache of remote data in %s takes no more: %s; what is not in it is read "
                      "from the server",
                      f->path, strerror_r(sys, text, sizeof text));
}

/* ---- open and close ---- */

static int failed(const char *path, int sys, stk_error *err)
{
    char text[96];

    return stk_fail(err, STK_EIO, "the cache of remote data in %.200s can't be used: %s", path,
                    strerror_r(sys, text, sizeof text));
}

static int not_ours(const char *path, const char *why, stk_error *err)
{
    return stk_fail(err, STK_EINVAL,
                    "the cache of remote data in %.200s is not used: %s; give cache= a folder of "
                    "your own",
                    path, why);
}

/* Whether nobody but root and this user can put files there, or replace the folder: what a cache
 * holds is believed.  `above`: it is the folder above the cache's; in a sticky one, such as /tmp,
 * others can't replace what is ours. */
static int check_owner(const char *path, int above, stk_error *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return failed(path, errno, err);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return not_ours(path, "it belongs to another user", err);
    if (S_ISLNK(st.st_mode) && !above)
        return not_ours(path, "it is a symbolic link", err);
    if (S_ISLNK(st.st_mode) && stat(path, &st) < 0)
        return failed(path, errno, err);
    if (!S_ISDIR(st.st_mode))
        return failed(path, ENOTDIR, err);
    if (st.st_mode & S_IWOTH && !(above && st.st_mode & S_ISVTX))
        return not_ours(path, "all users may write to it", err);
    return 0;
}

int stk_cache_folder_check(const char *path, int make, stk_error *err)
{
    char inner[PATH_MAX_LEN + 64];

    snprintf(inner, sizeof inner, "%s/" STK_CACHE_VERSION, path);
    if (make && mkdir(path, 0755) < 0 && errno != EEXIST)
        return failed(path, errno, err);
    STK_TRY(check_owner(path, 1, err));
    if (make && mkdir(inner, 0755) < 0 && errno != EEXIST)
        return failed(path, errno, err);
    return check_owner(inner, 0, err);
}

void stk_cache_folder_recount(const char *path)
{
    char name[PATH_MAX_LEN + 128];
    used u;
    int fd;

    snprintf(name, sizeof name, "%s/users", path);
    fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && used_open(path, &u) == 0) {
        stk_cache_folder_count(path, &u.bytes);
        used_close(&u);
    }
    if (fd >= 0)
        close(fd);
}

/* The first of all users begins a session: it counts what is there, and sweeps. */
static void join_users(stk_cache_folder *f)
{
    char name[PATH_MAX_LEN + 128];
    uint32_t mark = 0;
    used u;

    if (getrandom(&f->session, sizeof f->session, 0) != sizeof f->session)
        f->session = (uint32_t)stk_mix64(stk_now_ns() ^ (uint64_t)getpid() << 32);
    f->session |= 1u;
    snprintf(name, sizeof name, "%s/users", f->path);
    f->users_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (f->users_fd < 0)
        return;
    if (flock(f->users_fd, LOCK_EX | LOCK_NB) == 0) {
        stk_atomic_sweep(f->path, "");
        if (used_open(f->path, &u) == 0) {
            stk_cache_folder_count(f->path, &u.bytes);
            used_close(&u);
        }
        (void)!pwrite(f->users_fd, &f->session, sizeof f->session, 0);
    }
    while (flock(f->users_fd, LOCK_SH) < 0 && errno == EINTR)
        ;
    if (pread(f->users_fd, &mark, sizeof mark, 0) == sizeof mark && mark & 1u)
        f->session = mark;
}

static uint64_t usual_limit(const char *path)
{
    struct statvfs v;
    uint64_t there = 0;

    (void)stk_cache_folder_count(path, &there);
    return statvfs(path, &v) ? there : there + (uint64_t)v.f_bavail * v.f_frsize / 10 * 9;
}

int stk_cache_folder_open(stk_cache_folder **out, const char *path, uint64_t limit, stk_error *err)
{
    stk_cache_folder *f;
    char probe[PATH_MAX_LEN + 128];
    int rc;

    *out = NULL;
    if (strlen(path) > PATH_MAX_LEN)
        return failed(path, ENAMETOOLONG, err);
    f = STK_NEW(stk_cache_folder);
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    f->users_fd = -1;
    snprintf(f->path, sizeof f->path, "%s/" STK_CACHE_VERSION, path);
    snprintf(probe, sizeof probe, "%s/.", f->path);
    rc = stk_cache_folder_check(path, 1, err);
    if (rc == 0 && access(probe, R_OK | W_OK | X_OK) < 0)
        rc = failed(path, errno, err);
    if (rc < 0) {
        stk_cache_folder_close(&f);
        return rc;
    }
    join_users(f);
    f->pace = stk_pace_open(f->path);
    f->limit = limit ? limit : usual_limit(f->path);
    *out = f;
    return 0;
}

void stk_cache_folder_close(stk_cache_folder **fp)
{
    stk_cache_folder *f = *fp;

    *fp = NULL;
    if (!f)
        return;
    while (f->groups) {
        group *next = f->groups->next;

        if (f->groups->fd >= 0)
            close(f->groups->fd);
        stk_free(f->groups);
        f->groups = next;
    }
    if (f->users_fd >= 0)
        close(f->users_fd);
    stk_pace_close(&f->pace);
    stk_free(f);
}
