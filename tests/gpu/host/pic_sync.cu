/* SPDX-License-Identifier: Apache-2.0 */
/* pic_sync.cu - on a GPU: units and seek points of JPEG files equal what the same code finds on the
 * host, and how many pictures a second that takes.  Files that our decoder does not take are left
 * out.  Exit status 77: there is no GPU.
 *
 *     tests/gpu/host/pic_sync_cuda.sh [-n copies] FILE... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/pic_sync.cuh"
extern "C" {
#include "tests/gpu/host/pic_testing.h"
}

#define CHECK(e)                                                                                   \
    do {                                                                                           \
        cudaError_t rc_ = (e);                                                                     \
        if (rc_ != cudaSuccess) {                                                                  \
            fprintf(stderr, "%s: %s\n", #e, cudaGetErrorString(rc_));                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

typedef struct batch { /* on the host; offsets are the device's too */
    uint8_t *slab, *scratch;
    uint64_t slab_len, scratch_len;
    stk_pic_job *job;
    stk_pic_work *work;
    stk_pic_points *points;
    uint32_t *status;
    uint32_t n;
} batch;

static uint64_t up(uint64_t n)
{
    return (n + 63) / 64 * 64;
}

static void *grown(void *p, size_t bytes)
{
    p = realloc(p, bytes);
    if (!p)
        exit(1);
    return p;
}

static stk_bytes read_file(const char *path)
{
    stk_bytes in = { NULL, 0 };
    FILE *f = fopen(path, "rb");

    if (!f)
        return in;
    fseek(f, 0, SEEK_END);
    in.len = (size_t)ftell(f);
    rewind(f);
    in.data = (uint8_t *)malloc(in.len);
    if (fread((void *)in.data, 1, in.len, f) != in.len)
        in.len = 0;
    fclose(f);
    return in;
}

static void add(batch *b, const char *path)
{
    stk_bytes in = read_file(path);
    stk_jpeg_head h;
    stk_pic_job *j;
    uint64_t size;
    uint32_t chunk;

    if (!in.len || stk_jpeg_parse(&h, in, NULL) < 0 || h.restart)
        return;
    size = up(pic_whole_size(&h, in));
    chunk = h.n_comps == 1 ? 12 : 4;
    b->slab = (uint8_t *)grown(b->slab, b->slab_len + size);
    b->job = (stk_pic_job *)grown(b->job, (b->n + 1) * sizeof *b->job);
    b->work = (stk_pic_work *)grown(b->work, (b->n + 1) * sizeof *b->work);
    b->points = (stk_pic_points *)grown(b->points, (b->n + 1) * sizeof *b->points);
    j = &b->job[b->n];
    memset(j, 0, sizeof *j);
    j->rec = b->slab_len;
    if (pic_put_whole(b->slab + b->slab_len, &h, in) < 0)
        return;
    b->slab_len += size;
    j->n_units = (uint32_t)(((in.len - h.scan) * 8 + STK_PIC_SUBSEQ - 1) / STK_PIC_SUBSEQ);
    j->units = b->scratch_len;
    b->scratch_len += up(j->n_units * sizeof(stk_pic_unit));
    b->points[b->n].chunk = chunk;
    b->points[b->n].room = stk_jpeg_ceil(stk_jpeg_mcus_x(&h), chunk) * stk_jpeg_mcus_y(&h);
    b->points[b->n].at = b->scratch_len;
    b->scratch_len += up(sizeof(stk_pic_found) + b->points[b->n].room * sizeof(stk_pic_point));
    b->work[b->n].job = b->n;
    b->work[b->n].first = 0;
    b->n++;
    free((void *)in.data);
}

static void *to_device(const void *from, size_t bytes)
{
    void *p = NULL;

    CHECK(cudaMalloc(&p, bytes));
    CHECK(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice));
    return p;
}

/* The same on the host. */
static void emulate(batch *b, int with_points)
{
    static stk_sync s;

    memset(b->scratch, 0, b->scratch_len);
    memset(b->status, 0, b->n * sizeof *b->status);
    for (uint32_t i = 0; i < b->n; i++) {
        stk_sync_task k = { b->slab, b->slab_len, b->scratch, &b->job[i], &b->status[i], 0 };
        stk_pic_points none = { 0, 0, 0 };

        stk_sync_indexed(&s, &k, with_points ? &b->points[i] : &none);
    }
}

static int compare(batch *b, const stk_pic_launch *l, const stk_pic_points *points)
{
    uint8_t *got = (uint8_t *)malloc(b->scratch_len);
    uint32_t *status = (uint32_t *)malloc(b->n * sizeof *status), bad = 0;
    int same;

    emulate(b, points != NULL);
    CHECK(cudaMemset(l->scratch, 0, b->scratch_len));
    CHECK(cudaMemset(l->status, 0, b->n * sizeof *status));
    CHECK(stk_pic_points_run(l, points, 0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got, l->scratch, b->scratch_len, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(status, l->status, b->n * sizeof *status, cudaMemcpyDeviceToHost));
    same = !memcmp(got, b->scratch, b->scratch_len) &&
           !memcmp(status, b->status, b->n * sizeof *status);
    for (uint32_t i = 0; i < b->n; i++)
        bad += status[i] != 0;
    printf("%s: %u pictures, %u refused: %s\n", points ? "units and points" : "units", b->n, bad,
           same ? "as on the host" : "DIFFERENT from the host");
    free(got);
    free(status);
    return same ? 0 : 1;
}

/* The list of pictures again and again: `copies` of it in one launch. */
static void measure(const batch *b, stk_pic_launch l, uint32_t copies)
{
    stk_pic_work *work = (stk_pic_work *)malloc((size_t)b->n * copies * sizeof *work);
    cudaEvent_t from, to;
    float best = 1e30f;

    for (uint32_t i = 0; i < b->n * copies; i++)
        work[i] = b->work[i % b->n];
    l.sync = (const stk_pic_work *)to_device(work, (size_t)b->n * copies * sizeof *work);
    l.n_sync = b->n * copies;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    for (int i = 0; i < 10; i++) {
        float ms;

        CHECK(cudaEventRecord(from));
        CHECK(stk_pic_sync_run(&l, 0));
        CHECK(cudaEventRecord(to));
        CHECK(cudaEventSynchronize(to));
        CHECK(cudaEventElapsedTime(&ms, from, to));
        best = ms < best ? ms : best;
    }
    printf("%u pictures in a launch: %.3f ms, %.0f pictures/s\n", l.n_sync, best,
           l.n_sync / best * 1e3);
    free(work);
}

int main(int argc, char **argv)
{
    uint32_t copies = 1;
    int i = 1, devices = 0, rc;
    batch b = {};
    stk_pic_launch l = {};
    stk_pic_points *points;

    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
        puts("skipped: there is no GPU");
        return 77;
    }
    if (argc > 2 && !strcmp(argv[1], "-n")) {
        copies = (uint32_t)atoi(argv[2]);
        i = 3;
    }
    for (; i < argc; i++)
        add(&b, argv[i]);
    if (!b.n)
        return 1;
    b.scratch = (uint8_t *)malloc(b.scratch_len);
    b.status = (uint32_t *)calloc(b.n, sizeof *b.status);
    l.slab = (const uint8_t *)to_device(b.slab, b.slab_len);
    l.slab_len = b.slab_len;
    l.scratch = (uint8_t *)to_device(b.scratch, b.scratch_len);
    l.job = (const stk_pic_job *)to_device(b.job, b.n * sizeof *b.job);
    l.sync = (const stk_pic_work *)to_device(b.work, b.n * sizeof *b.work);
    l.status = (uint32_t *)to_device(b.status, b.n * sizeof *b.status);
    l.n_jobs = l.n_sync = b.n;
    points = (stk_pic_points *)to_device(b.points, b.n * sizeof *b.points);
    rc = compare(&b, &l, NULL) | compare(&b, &l, points);
    measure(&b, l, 1);
    if (copies > 1)
        measure(&b, l, copies);
    return rc;
}
