/* SPDX-License-Identifier: Apache-2.0 */
/* shared_list.c - one listing of remote names for all local ranks of a launch.
 *
 * Ranks that open the same pattern ask a server the same question at the same time, and must get
 * the same answer.  The first of them lists, under a lock, and leaves the names in the index cache
 * with its local rank; each other rank takes them once.  A rank that took them before wants news,
 * and lists again.  Only processes of one launcher (same parent, same job) share, for SHARE_S
 * seconds at most. */
#include "source/shared_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/halt.h"
#include "base/hash.h"
#include "base/registry.h"

#define SHARE_S 120 /* seconds */
#define WAIT_MS 10  /* between looks at the lock */
#define WAITS 6000  /* then it is asked without */
#define LIST_MAX (256u << 20)
#define HEAD "stoker list 1\n"
#define RANKS_MAX 4096

int stk_cache_home(char *buf, size_t size, const char *cache_dir)
{
    const char *stoker = getenv("STOKER_CACHE"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int n = 0;

    if (cache_dir && *cache_dir)
        n = snprintf(buf, size, "%s", cache_dir);
    else if (stoker && *stoker)
        n = snprintf(buf, size, "%s", stoker);
    else if (xdg && *xdg)
        n = snprintf(buf, size, "%s/stoker", xdg);
    else if (home && *home)
        n = snprintf(buf, size, "%s/.cache/stoker", home);
    return n > 0 && (size_t)n < size;
}

/* ---- which launch, which rank ---- */

/* -1: this is no rank of a launcher. */
static int local_rank(void)
{
    static const char *const names[] = { "LOCAL_RANK", "SLURM_LOCALID",
                                         "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        char *end;
        long rank = text && *text ? strtol(text, &end, 10) : -1;

        if (rank >= 0 && rank < RANKS_MAX && !*end)
            return (int)rank;
    }
    return -1;
}

static uint64_t hash_text(uint64_t h, const char *text)
{
    return stk_hash64(h, text ? text : "", text ? strlen(text) : 0);
}

/* What is asked, of whom, and by which launch. */
static uint64_t question(const stk_names *names, const char *pattern)
{
    static const char *const env[] = { "TORCHELASTIC_RUN_ID",
                                       "TORCHELASTIC_RESTART_COUNT",
                                       "MASTER_ADDR",
                                       "MASTER_PORT",
                                       "SLURM_JOB_ID",
                                       "SLURM_STEP_ID",
                                       "OMPI_MCA_ess_base_jobid" };
    const stk_source *from = stk_registry_source(pattern);
    uint64_t h = hash_text((uint64_t)getppid(), pattern);

    if (from && from->asked)
        h = stk_mix64(h ^ from->asked(from, names->store));
    for (size_t i = 0; i < sizeof env / sizeof *env; i++)
        h = hash_text(h, getenv(env[i]));
    return h;
}

/* ---- the file: a head, "ranks 0 3 1", then a name on each line ---- */

static char *file_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct timespec now;
    struct stat st;
    char *text = NULL;

    clock_gettime(CLOCK_REALTIME, &now);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < LIST_MAX &&
        st.st_mtim.tv_sec <= now.tv_sec + 1 && now.tv_sec - st.st_mtim.tv_sec <= SHARE_S)
        text = stk_zalloc(1, (size_t)st.st_size + 1);
    if (text && (read(fd, text, (size_t)st.st_size) != st.st_size ||
                 strncmp(text, HEAD, sizeof HEAD - 1) != 0)) {
        stk_free(text);
        text = NULL;
    }
    if (fd >= 0)
        close(fd);
    return text;
}

static int file_write(const stk_shared_list *l, const char *ranks, const stk_names *names,
                      size_t from)
{
    stk_text t = { 0 };
    int rc = stk_text_put(&t, HEAD "ranks", sizeof HEAD - 1 + 5, NULL);
    char own[16];

    if (rc == 0)
        rc = stk_text_put(&t, ranks, strlen(ranks), NULL);
    snprintf(own, sizeof own, " %d \n", l->rank);
    if (rc == 0)
        rc = stk_text_put(&t, own, strlen(own), NULL);
    for (size_t i = from; rc == 0 && i < names->n; i++) {
        rc = strchr(names->name[i], '\n')
                 ? STK_EINVAL
                 : stk_text_put(&t, names->name[i], strlen(names->name[i]), NULL);
        if (rc == 0)
            rc = stk_text_put(&t, "\n", 1, NULL);
    }
    if (rc == 0)
        rc = stk_atomic_put(l->path, t.s, t.len, STK_COMMIT_FAST, NULL);
    stk_free(t.s);
    return rc;
}

/* 1: the names were taken, by a rank that had not. */
static int take(const stk_shared_list *l, stk_names *out)
{
    char *text = file_read(l->path), *line = text ? text + sizeof HEAD - 1 : NULL, *end, own[16];
    size_t from = out->n;
    int rc;

    snprintf(own, sizeof own, " %d ", l->rank);
    end = line && !strncmp(line, "ranks", 5) ? strchr(line, '\n') : NULL;
    rc = end ? 0 : STK_END;
    if (end)
        *end = 0;
    if (end && strstr(line + 5, own))
        rc = STK_END;
    for (char *at = end ? end + 1 : NULL, *next; rc == 0 && (next = strchr(at, '\n'));
         at = next + 1)
        rc = stk_names_add(out, at, (size_t)(next - at), NULL);
    if (rc == 0 && out->n > from)
        (void)!file_write(l, line + 5, out, from); /* else it is taken twice */
    stk_free(text);
    return rc == 0 && out->n > from;
}

/* What launches that are over left. */
static void sweep(const stk_shared_list *l)
{
    char dir[1200], path[1500];
    time_t now = time(NULL);
    struct dirent *e;
    struct stat st;
    DIR *d;

    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(l->path, '/') - l->path), l->path);
    d = opendir(dir);
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (strspn(e->d_name, "0123456789abcdef") == 16 && !e->d_name[16] &&
            lstat(path, &st) == 0 && now - st.st_mtim.tv_sec > SHARE_S)
            (void)!unlink(path);
    }
    if (d)
        closedir(d);
}

/* ---- the lock ---- */

/* With its parents; what can't be made shows when the lock is taken. */
static void make_folder(char *path)
{
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            (void)!mkdir(path, 0777);
            *p = '/';
        }
}

static int lock_take(stk_shared_list *l)
{
    char path[1240];
    int rc = STK_END;

    snprintf(path, sizeof path, "%s.lock", l->path);
    for (int i = 0; i < WAITS && rc == STK_END; i++) {
        rc = stk_lock_try(&l->lock, path);
        if (rc == STK_END && stk_halt_sleep(WAIT_MS) < 0)
            return STK_ECLOSED;
    }
    return rc;
}

int stk_shared_list_take(stk_shared_list *l, stk_names *out, const char *pattern)
{
    char home[1024], dir[1100];

    *l = (stk_shared_list){ .rank = local_rank(), .lock = { .fd = -1 } };
    if (l->rank < 0 || !stk_cache_home(home, sizeof home, out->cache_dir))
        return 0;
    snprintf(dir, sizeof dir, "%s/list/", home);
    make_folder(dir);
    snprintf(l->path, sizeof l->path, "%s%016" PRIx64, dir, question(out, pattern));
    if (lock_take(l) < 0) { /* each asks for itself */
        l->path[0] = 0;
        return 0;
    }
    return take(l, out);
}

void stk_shared_list_keep(stk_shared_list *l, const stk_names *names, size_t from)
{
    if (!l->path[0])
        return;
    sweep(l);
    (void)!file_write(l, "", names, from);
}

void stk_shared_list_close(stk_shared_list *l)
{
    if (l->path[0])
        stk_lock_drop(&l->lock);
}
