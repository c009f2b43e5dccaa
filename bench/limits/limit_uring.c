/* SPDX-License-Identifier: Apache-2.0 */
/* limit_uring.c - a bare loop: read a field of every sample from cold files through io_uring.
 *
 *     limit_uring SHARDS seq|random DEPTH FIELD
 *
 * The shards are put out of the page cache first.  One thread keeps DEPTH reads in flight, each
 * into a buffer of its own, over the ranges and in the order that the engine would read. */
#include <liburing.h>
#include <string.h>

#include "cold.h"
#include "order/order.h"

typedef struct range {
    int fd;
    uint64_t offset;
    size_t len;
} range;

typedef struct job {
    range *ranges; /* in order */
    uint64_t n;
    size_t largest;
    unsigned depth;
    uint8_t *buffers; /* depth of them */
    uint64_t *which;  /* the range in a buffer ... */
    size_t *got;      /* ... and how much of it is there */
} job;

static range find_range(const stk_dataset *d, const int *fds, uint64_t id, const char *name)
{
    stk_entry e;
    stk_field f;
    stk_error err;
    int k;

    if (d->ops->entry(d, id, &e, &err) < 0)
        die(&err);
    k = d->ops->find(d, e.schema, name);
    if (k < 0) {
        fprintf(stderr, "bench: sample %llu has no field %s\n", (unsigned long long)id, name);
        exit(3);
    }
    if (d->ops->field(d, &e, (uint32_t)k, &f, &err) < 0)
        die(&err);
    return (range){ fds[e.shard], f.offset, (size_t)f.size };
}

static void plan(job *j, const stk_dataset *d, int shuffle, const char *field)
{
    uint64_t shards = stk_dataset_shards(d);
    int *fds = calloc(shards, sizeof *fds);
    stk_perm perm;

    j->n = stk_dataset_len(d);
    j->ranges = calloc(j->n, sizeof *j->ranges);
    j->which = calloc(j->depth, sizeof *j->which);
    j->got = calloc(j->depth, sizeof *j->got);
    if (!fds || !j->ranges || !j->which || !j->got)
        exit(3);
    for (uint64_t i = 0; i < shards; i++) {
        fds[i] = open(stk_dataset_shard_name(d, i), O_RDONLY);
        if (fds[i] < 0) {
            perror(stk_dataset_shard_name(d, i));
            exit(3);
        }
    }
    stk_perm_init(&perm, j->n, 0, 2); /* the epoch that engine_cold is timed in */
    for (uint64_t p = 0; p < j->n; p++) {
        j->ranges[p] = find_range(d, fds, shuffle ? stk_perm_at(&perm, p) : p, field);
        j->largest = j->ranges[p].len > j->largest ? j->ranges[p].len : j->largest;
    }
    free(fds);
    j->buffers = malloc(j->depth * j->largest);
    if (!j->buffers)
        exit(3);
    memset(j->buffers, 1, j->depth * j->largest); /* no page fault is timed */
}

static void submit(struct io_uring *ring, const job *j, unsigned slot)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    const range *r = &j->ranges[j->which[slot]];

    io_uring_prep_read(sqe, r->fd, j->buffers + slot * j->largest + j->got[slot],
                       (unsigned)(r->len - j->got[slot]), r->offset + j->got[slot]);
    io_uring_sqe_set_data64(sqe, slot);
}

static void work(struct io_uring *ring, job *j)
{
    uint64_t next = 0, done = 0;
    struct io_uring_cqe *cqe;

    for (; next < j->depth && next < j->n; next++) {
        j->which[next] = next;
        submit(ring, j, (unsigned)next);
    }
    while (done < j->n) {
        if (io_uring_submit_and_wait(ring, 1) < 0)
            exit(3);
        while (io_uring_peek_cqe(ring, &cqe) == 0) {
            unsigned slot = (unsigned)io_uring_cqe_get_data64(cqe);

            if (cqe->res <= 0) {
                fprintf(stderr, "bench: a read gave %d\n", cqe->res);
                exit(3);
            }
            j->got[slot] += (size_t)cqe->res;
            io_uring_cqe_seen(ring, cqe);
            if (j->got[slot] == j->ranges[j->which[slot]].len) {
                done++;
                if (next == j->n)
                    continue;
                j->which[slot] = next++;
                j->got[slot] = 0;
            }
            submit(ring, j, slot);
        }
    }
}

int main(int argc, char **argv)
{
    stk_dataset *d = NULL;
    struct io_uring ring;
    job j = { 0 };
    stk_error err;
    cold_run from;
    int rc;

    if (argc != 5 || (strcmp(argv[2], "seq") && strcmp(argv[2], "random"))) {
        fprintf(stderr, "usage: limit_uring SHARDS seq|random DEPTH FIELD\n");
        return 2;
    }
    j.depth = (unsigned)strtoul(argv[3], NULL, 10);
    if (!j.depth || j.depth > 4096)
        return 2;
    if (stk_dataset_open(&d, (const char *const *)&argv[1], 1, NULL, &err) < 0)
        die(&err);
    rc = io_uring_queue_init(j.depth, &ring, 0);
    if (rc < 0) {
        fprintf(stderr, "bench: the kernel refuses io_uring: %s\n", strerror(-rc));
        return 4;
    }
    plan(&j, d, argv[2][0] == 'r', argv[4]);
    drop_shards(d);
    from = cold_now();
    work(&ring, &j);
    report_cold("limit_uring", j.n, &from, j.n, "io_uring");
    io_uring_queue_exit(&ring);
    stk_dataset_unref(&d);
    return 0;
}
