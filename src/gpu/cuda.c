/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.c - libstoker_cuda found and opened, once a process, and kept: memory that came from it may
 * outlive every loader. */
#include "gpu/load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

#define LIBRARY "libstoker_cuda.so"

static stk_mutex lock = STK_MUTEX_INITIALIZER;
static const stk_cuda *loaded; /* lock */

/* The folder that this very code was loaded from: the library is beside it. */
static void *open_beside(char *why, size_t size)
{
    char path[4096];
    const char *slash;
    Dl_info here;
    void *lib;

    if (!dladdr(&loaded, &here) || !here.dli_fname || !(slash = strrchr(here.dli_fname, '/')))
        return NULL;
    if ((size_t)(slash - here.dli_fname) + sizeof LIBRARY + 1 > sizeof path)
        return NULL;
    snprintf(path, sizeof path, "%.*s/" LIBRARY, (int)(slash - here.dli_fname), here.dli_fname);
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        snprintf(why, size, "%s", dlerror());
    return lib;
}

static int open_library(void **out, stk_error *err)
{
    const char *given = getenv("STK_CUDA_LIB");
    char why[512] = LIBRARY " was not found";

    if (given && *given) {
        *out = dlopen(given, RTLD_NOW | RTLD_LOCAL);
        return *out ? 0 : stk_fail(err, STK_ENOTSUP, "device cuda: STK_CUDA_LIB: %s", dlerror());
    }
    *out = open_beside(why, sizeof why);
    if (!*out)
        *out = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (*out)
        return 0;
    return stk_fail(
        err, STK_ENOTSUP,
        "device cuda: this build has no CUDA part (%s): build it where nvcc is, or take "
        "device=\"cpu\"",
        why);
}

static int load_locked(stk_error *err) STK_REQUIRES(lock)
{
    stk_cuda_table_fn find;
    const stk_cuda *t;
    void *lib;

    STK_TRY(open_library(&lib, err));
    *(void **)&find = dlsym(lib, "stk_cuda_table");
    t = find ? find(STK_CUDA_ABI) : NULL;
    if (!t)
        return stk_fail(err, STK_ENOTSUP,
                        "device cuda: " LIBRARY " is of another version: build both together");
    loaded = t;
    return 0;
}

int stk_cuda_load(const stk_cuda **out, stk_error *err)
{
    int rc = 0;

    stk_mutex_lock(&lock);
    if (!loaded)
        rc = load_locked(err);
    *out = loaded;
    stk_mutex_unlock(&lock);
    return rc;
}

/* "cuda" or "cuda:N"; -1: the current one. */
static int parse_name(const char *name, int *gpu, stk_error *err)
{
    char *end;
    long n;

    *gpu = -1;
    if (!strcmp(name, "cuda"))
        return 0;
    n = strncmp(name, "cuda:", 5) || !name[5] ? -1 : strtol(name + 5, &end, 10);
    if (n < 0 || n > 1023 || *end)
        return stk_fail(err, STK_EINVAL,
                        "device must be \"cpu\", \"cuda\" or \"cuda:N\", not \"%.40s\"", name);
    *gpu = (int)n;
    return 0;
}

/* The thread's current one, unless that is the first by default and the launcher named another. */
static int choose(const stk_cuda *t, int n, int *gpu)
{
    const char *local = getenv("LOCAL_RANK");
    int rc = t->current(gpu);

    if (rc == 0 && *gpu == 0 && local && *local)
        *gpu = atoi(local) % n;
    return rc;
}

int stk_cuda_find(const stk_cuda *t, const char *name, int *gpu, stk_error *err)
{
    int n = 0, rc;

    STK_TRY(parse_name(name, gpu, err));
    rc = t->count(&n);
    if (rc || !n)
        return stk_fail(
            err, STK_ENOTSUP,
            "device %s: CUDA finds no GPU here (%s): check the driver with nvidia-smi, or "
            "take device=\"cpu\"",
            name, rc ? t->say(rc) : "there is none");
    if (*gpu < 0 && (rc = choose(t, n, gpu)))
        return stk_fail(err, STK_ENOTSUP, "device %s: %s", name, t->say(rc));
    if (*gpu >= n)
        return stk_fail(err, STK_EINVAL, "device %s: there %s %d GPU%s here, counted from 0", name,
                        n == 1 ? "is" : "are", n, n == 1 ? "" : "s");
    return 0;
}
