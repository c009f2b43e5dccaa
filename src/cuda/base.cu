/* SPDX-License-Identifier: Apache-2.0 */
/* base.cu - libstoker_cuda's table: thin calls of the CUDA runtime, and the kernels' launchers.
 *
 * The runtime is linked statically and shares the process's primary context with every other user
 * of CUDA (PyTorch, CuPy, JAX), so pointers, streams and events are common property. */
#include <cstdio>
#include <cuda_runtime.h>
#include <new>
#include <nvtx3/nvToolsExt.h>

#include "cuda/gather_run.h"
#include "cuda/blend_run.h"
#include "cuda/pic_run.h"
#include "cuda/cuda.h"

namespace
{

/* Sets the GPU for one call and puts the old one back: the thread is the program's. */
struct on_gpu {
    int before;
    cudaError_t rc;

    explicit on_gpu(int gpu) : before(-1)
    {
        rc = cudaGetDevice(&before);
        if (rc == cudaSuccess && before != gpu)
            rc = cudaSetDevice(gpu);
        else
            before = -1;
    }
    ~on_gpu()
    {
        if (before >= 0)
            cudaSetDevice(before);
    }
};

/* CUDA keeps the last error for the next caller, which would be the program: take it away. */
int answer(cudaError_t rc)
{
    if (rc != cudaSuccess)
        (void)cudaGetLastError();
    return (int)rc;
}

const char *say(int rc)
{
    return cudaGetErrorString((cudaError_t)rc);
}

int count(int *n)
{
    return answer(cudaGetDeviceCount(n));
}

int current(int *gpu)
{
    return answer(cudaGetDevice(gpu));
}

/* The node that sysfs names for the GPU's place on the bus. */
int32_t numa_node(int gpu)
{
    char bus[32] = "", path[96];
    int node = -1;
    FILE *f;

    if (cudaDeviceGetPCIBusId(bus, sizeof bus, gpu) != cudaSuccess)
        return -1;
    for (char *p = bus; *p; p++)
        if (*p >= 'A' && *p <= 'F')
            *p = (char)(*p - 'A' + 'a');
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", bus);
    f = fopen(path, "r");
    if (!f)
        return -1;
    if (fscanf(f, "%d", &node) != 1)
        node = -1;
    fclose(f);
    return node;
}

int bind(int gpu)
{
    cudaError_t rc = cudaSetDevice(gpu);

    /* a context that is not made yet is made now: other libraries ask for the current one */
    return answer(rc == cudaSuccess ? cudaFree(NULL) : rc);
}

int info(int gpu, stk_gpu_info *out)
{
    on_gpu here(gpu);
    cudaDeviceProp p;
    size_t room = 0, all = 0;
    cudaError_t rc = here.rc;

    *out = stk_gpu_info();
    if (rc == cudaSuccess)
        rc = cudaGetDeviceProperties(&p, gpu);
    if (rc == cudaSuccess)
        rc = cudaMemGetInfo(&room, &all);
    if (rc != cudaSuccess)
        return answer(rc);
    snprintf(out->name, sizeof out->name, "%s", p.name);
    out->memory = all;
    out->free_memory = room;
    out->sms = (uint32_t)p.multiProcessorCount;
    out->node = numa_node(gpu);
    return 0;
}

int pinned_alloc(int gpu, size_t size, void **out)
{
    on_gpu here(gpu);

    return answer(here.rc != cudaSuccess ? here.rc
                                         : cudaHostAlloc(out, size, cudaHostAllocPortable));
}

void pinned_free(void *p)
{
    (void)answer(cudaFreeHost(p));
}

int alloc(int gpu, size_t size, void **out)
{
    on_gpu here(gpu);

    return answer(here.rc != cudaSuccess ? here.rc : cudaMalloc(out, size));
}

void release(int gpu, void *p)
{
    on_gpu here(gpu);

    if (here.rc == cudaSuccess)
        (void)answer(cudaFree(p));
}

int stream_open(int gpu, int low, void **out)
{
    on_gpu here(gpu);
    int least = 0, most = 0;
    cudaStream_t s = NULL;
    cudaError_t rc = here.rc;

    if (rc == cudaSuccess)
        rc = cudaDeviceGetStreamPriorityRange(&least, &most);
    if (rc == cudaSuccess)
        rc = cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, low ? least : 0);
    *out = s;
    return answer(rc);
}

void stream_close(int gpu, void *stream)
{
    on_gpu here(gpu);

    if (here.rc == cudaSuccess)
        (void)answer(cudaStreamDestroy((cudaStream_t)stream));
}

int stream_wait(int gpu, void *stream, void *event)
{
    on_gpu here(gpu);

    return answer(here.rc != cudaSuccess
                      ? here.rc
                      : cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, 0));
}

int stream_sync(int gpu, void *stream)
{
    on_gpu here(gpu);

    return answer(here.rc != cudaSuccess ? here.rc : cudaStreamSynchronize((cudaStream_t)stream));
}

int event_open(int gpu, int timed, void **out)
{
    on_gpu here(gpu);
    cudaEvent_t e = NULL;
    cudaError_t rc = here.rc;

    if (rc == cudaSuccess)
        rc = cudaEventCreateWithFlags(&e, timed ? cudaEventDefault : cudaEventDisableTiming);
    *out = e;
    return answer(rc);
}

void event_close(int gpu, void *event)
{
    on_gpu here(gpu);

    if (here.rc == cudaSuccess)
        (void)answer(cudaEventDestroy((cudaEvent_t)event));
}

int event_record(int gpu, void *event, void *stream)
{
    on_gpu here(gpu);

    return answer(here.rc != cudaSuccess
                      ? here.rc
                      : cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream));
}

int event_done(int gpu, void *event, int wait)
{
    on_gpu here(gpu);
    cudaError_t rc = here.rc;

    if (rc == cudaSuccess)
        rc = wait ? cudaEventSynchronize((cudaEvent_t)event) : cudaEventQuery((cudaEvent_t)event);
    return answer(rc) == 0;
}

int event_ms(int gpu, void *from, void *to, float *out)
{
    on_gpu here(gpu);

    return answer(here.rc != cudaSuccess
                      ? here.rc
                      : cudaEventElapsedTime(out, (cudaEvent_t)from, (cudaEvent_t)to));
}

int copy(int gpu, void *dst, const void *src, size_t size, stk_copy how, void *stream)
{
    on_gpu here(gpu);
    cudaMemcpyKind kind = how == STK_COPY_IN    ? cudaMemcpyHostToDevice
                          : how == STK_COPY_OUT ? cudaMemcpyDeviceToHost
                                                : cudaMemcpyDeviceToDevice;

    return answer(here.rc != cudaSuccess
                      ? here.rc
                      : cudaMemcpyAsync(dst, src, size, kind, (cudaStream_t)stream));
}

int zero(int gpu, void *dst, size_t size, void *stream)
{
    on_gpu here(gpu);

    return answer(here.rc != cudaSuccess ? here.rc
                                         : cudaMemsetAsync(dst, 0, size, (cudaStream_t)stream));
}

struct called {
    void (*fn)(void *, int);
    void *cookie;
};

void CUDART_CB on_call(cudaStream_t stream, cudaError_t rc, void *p)
{
    called c = *(called *)p;

    (void)stream;
    delete (called *)p;
    c.fn(c.cookie, (int)rc);
}

/* cudaLaunchHostFunc() never calls where work before it failed, and somebody would wait without
 * limit. */
int call(int gpu, void *stream, void (*fn)(void *, int), void *cookie)
{
    on_gpu here(gpu);
    called *c = new (std::nothrow) called{ fn, cookie };
    cudaError_t rc = !c ? cudaErrorMemoryAllocation : here.rc;

    if (rc == cudaSuccess)
        rc = cudaStreamAddCallback((cudaStream_t)stream, on_call, c, 0);
    if (rc != cudaSuccess)
        delete c;
    return answer(rc);
}

int pictures(int gpu, const stk_pic_launch *l, void *stream)
{
    on_gpu here(gpu);

    return answer(here.rc != cudaSuccess ? here.rc
                                         : (cudaError_t)stk_pic_run(l, (cudaStream_t)stream));
}

int gather(int gpu, const stk_gpu_gather *g, void *stream)
{
    on_gpu here(gpu);

    return answer(here.rc != cudaSuccess ? here.rc
                                         : (cudaError_t)stk_gather_run(g, (cudaStream_t)stream));
}

int mix(int gpu, const stk_blend *m, void *stream)
{
    on_gpu here(gpu);

    return answer(here.rc != cudaSuccess ? here.rc
                                         : (cudaError_t)stk_blend_run(m, (cudaStream_t)stream));
}

void range_push(const char *name)
{
    nvtxRangePushA(name);
}

void range_pop(void)
{
    nvtxRangePop();
}

const stk_cuda table = { STK_CUDA_ABI, say,          count,       current,     bind,
                         info,         pinned_alloc, pinned_free, alloc,       release,
                         stream_open,  stream_close, stream_wait, stream_sync, event_open,
                         event_close,  event_record, event_done,  event_ms,    copy,
                         zero,         call,         pictures,    gather,      mix,
                         range_push,   range_pop };

} // namespace

extern "C" __attribute__((visibility("default"))) const stk_cuda *stk_cuda_table(uint32_t abi)
{
    return abi == STK_CUDA_ABI ? &table : NULL;
}
