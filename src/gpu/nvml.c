/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - how busy a GPU is, by NVIDIA's management library, which is opened when it is asked
 * for. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#include <stoker/seeing.h>

typedef struct nvml_use {
    unsigned gpu, memory; /* percent */
} nvml_use;

typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;

typedef struct nvml {
    void *lib;
    int (*init)(void);
    int (*get)(unsigned, void **);
    int (*use)(void *, nvml_use *);
    int (*memory)(void *, nvml_memory *);
} nvml;

static int load(nvml *n)
{
    n->lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->lib)
        return 0;
    *(void **)&n->init = dlsym(n->lib, "nvmlInit_v2");
    *(void **)&n->get = dlsym(n->lib, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&n->use = dlsym(n->lib, "nvmlDeviceGetUtilizationRates");
    *(void **)&n->memory = dlsym(n->lib, "nvmlDeviceGetMemoryInfo");
    return n->init && n->get && n->use && n->memory && n->init() == 0;
}

int stk_gpu_use(uint32_t gpu, double *sm, double *memory)
{
    nvml n = { 0 }; /* not shut down: another thread of the program may use it */
    nvml_memory m;
    nvml_use u;
    void *device;
    int ok = load(&n) && n.get(gpu, &device) == 0 && n.use(device, &u) == 0 &&
             n.memory(device, &m) == 0;

    *sm = ok ? u.gpu / 100.0 : -1;
    *memory = ok && m.total ? (double)m.used / (double)m.total : -1;
    return ok ? 0 : STK_ENOTSUP;
}
