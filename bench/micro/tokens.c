/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.c - token windows and rows of arrays against bare loops over the same bytes.
 *
 *     bench_tokens FOLDER THREADS ROUNDS [MB]
 *
 * Makes train.bin (u16) and rows.npy (150 KB a row) in FOLDER, MB megabytes each, if they are not
 * there.  Each case takes turns, round by round: a bare loop of THREADS threads that copies (or
 * widens) the rows out of a map whose pages are there, into batches, in an order known beforehand;
 * then the loader with THREADS workers.  Prints a line of JSON a case: rows a second, medians, and
 * the median ratio.  Both sides go through all rows once a round, shuffled. */
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "kern/convert.h"
#include "../limits/timing.h"
#include "order/order.h"

#define BLOCK 2048
#define BATCH 32
#define SLOTS_A_THREAD 3
#define ROW (3 * 224 * 224)
#define HEAD 128
#define MAX_ROUNDS 101

typedef struct bench { /* one case */
    const char *name, *path;
    stk_output out[2];
    uint32_t n_out;
    size_t head, row, step; /* bytes of the header, of a row that is read, from a row to the next */
    size_t shift;           /* bytes, of the second output */
    stk_convert_fn convert; /* NULL: copied */
    size_t wide;            /* bytes of a row that is made */
    uint64_t rows;
    /* while it runs */
    const uint8_t *map;
    uint64_t *order;
    uint8_t *slots;
    unsigned threads;
    _Atomic uint64_t next;
} bench;

static void die(const stk_error *err)
{
    char text[700];

    stk_error_format(err, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    exit(3);
}

static void bare(void *arg, unsigned number)
{
    bench *b = arg;
    uint64_t batches = b->rows / BATCH, at, done = 0;

    while ((at = atomic_fetch_add_explicit(&b->next, 1, memory_order_relaxed)) < batches) {
        uint64_t slot = number * SLOTS_A_THREAD + done++ % SLOTS_A_THREAD;
        uint8_t *dst = b->slots + slot * b->n_out * BATCH * b->wide;

        for (uint32_t i = 0; i < BATCH; i++) {
            const uint8_t *src = b->map + b->head + b->order[at * BATCH + i] * b->step;

            for (uint32_t k = 0; k < b->n_out; k++, src += b->shift, dst += b->wide) {
                if (b->convert)
                    b->convert(dst, src, BLOCK);
                else
                    memcpy(dst, src, b->row);
            }
        }
    }
}

typedef struct speed {
    double rows, cpu; /* a second of the clock, a second of processor time */
} speed;

static speed run_bare(bench *b)
{
    double cpu = cpu_s(), seconds, rows = (double)(b->rows / BATCH * BATCH);

    atomic_store(&b->next, 0);
    seconds = run_threads(b->threads, bare, b);
    return (speed){ rows / seconds, rows / (cpu_s() - cpu) };
}

static speed run_loader(stk_loader *l)
{
    double start = now_s(), cpu = cpu_s();
    stk_batch *batch = NULL;
    uint64_t rows = 0;
    stk_error err;
    int rc;

    while ((rc = stk_loader_next(l, &batch, -1, &err)) == 0) {
        rows += stk_batch_rows(batch);
        stk_batch_release(&batch);
    }
    if (rc < 0)
        die(&err);
    return (speed){ (double)rows / (now_s() - start), (double)rows / (cpu_s() - cpu) };
}

static int less(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
    qsort(v, n, sizeof *v, less);
    return v[n / 2];
}

static void measure(bench *b, stk_loader *l, unsigned rounds)
{
    double ours[MAX_ROUNDS], theirs[MAX_ROUNDS], ratio[MAX_ROUNDS], cpu[MAX_ROUNDS], middle;

    run_bare(b);
    run_loader(l);
    for (unsigned r = 0; r < rounds; r++) {
        speed x = run_bare(b), y = run_loader(l);

        theirs[r] = x.rows;
        ours[r] = y.rows;
        ratio[r] = y.rows / x.rows;
        cpu[r] = y.cpu / x.cpu;
    }
    middle = median(ratio, rounds); /* sorts them */
    printf("{\"case\": \"%s\", \"threads\": %u, \"rounds\": %u, \"ratio\": %.3f, ", b->name,
           b->threads, rounds, middle);
    printf("\"worst\": %.3f, \"cpu_ratio\": %.3f, ", ratio[0], median(cpu, rounds));
    middle = median(ours, rounds);
    printf("\"rows_per_s\": %.0f, \"bare_rows_per_s\": %.0f, \"gb_per_s\": %.2f}\n", middle,
           median(theirs, rounds), middle * (double)(b->row * b->n_out) * 1e-9);
    fflush(stdout);
}

static void run(bench *b, unsigned threads, unsigned rounds)
{
    stk_loader_options o = { .size = sizeof o,
                             .outputs = b->out,
                             .n_outputs = b->n_out,
                             .shuffle = STK_SHUFFLE_EXACT,
                             .batch_size = BATCH,
                             .drop_last = STK_YES,
                             .num_workers = (int32_t)threads };
    stk_dataset *ds = NULL;
    stk_loader *l = NULL;
    struct stat st;
    stk_error err;
    stk_perm perm;
    int fd = open(b->path, O_RDONLY);

    if (fd < 0 || fstat(fd, &st))
        exit(3);
    b->map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    if (stk_dataset_open(&ds, &b->path, 1, NULL, &err) < 0 ||
        stk_loader_open(&l, &ds, 1, &o, &err) < 0)
        die(&err);
    b->rows = stk_loader_samples(l);
    b->threads = threads;
    b->order = malloc(b->rows * sizeof *b->order);
    b->slots = aligned_alloc(4096, (size_t)threads * SLOTS_A_THREAD * b->n_out * BATCH * b->wide);
    if (b->map == MAP_FAILED || !b->order || !b->slots)
        exit(3);
    stk_perm_init(&perm, b->rows, 0, 1);
    for (uint64_t i = 0; i < b->rows; i++)
        b->order[i] = stk_perm_at(&perm, i);
    measure(b, l, rounds);
    stk_loader_close(&l);
    stk_dataset_unref(&ds);
    munmap((void *)(uintptr_t)b->map, (size_t)st.st_size);
    free(b->order);
    free(b->slots);
}

/* A file of tokens, or of rows after the header of an .npy. */
static void make(const char *path, size_t bytes, int npy)
{
    static uint16_t part[1 << 20];
    char head[HEAD + 1];
    uint32_t x = 1;
    FILE *f;

    if (access(path, R_OK) == 0)
        return;
    f = fopen(path, "wb");
    if (!f)
        exit(3);
    if (npy) {
        bytes = bytes / ROW * ROW;
        memset(head, ' ', sizeof head);
        memcpy(head, "\x93NUMPY\1\0\x76\0", 10);
        snprintf(head + 10, sizeof head - 10,
                 "{'descr': '|u1', 'fortran_order': False, 'shape': (%zu, 3, 224, 224), }",
                 bytes / ROW);
        head[10 + strlen(head + 10)] = ' ';
        head[HEAD - 1] = '\n';
        fwrite(head, 1, HEAD, f);
    }
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        part[i] = (uint16_t)((x = x * 1664525u + 1013904223u) >> 16);
    for (size_t at = 0; at < bytes; at += sizeof part)
        fwrite(part, 1, bytes - at < sizeof part ? bytes - at : sizeof part, f);
    if (fclose(f))
        exit(3);
}

int main(int argc, char **argv)
{
    unsigned threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0,
             rounds = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    size_t mb = argc > 4 ? strtoul(argv[4], NULL, 10) : 512;
    char tokens[600], rows[600];

    if (!threads || threads > MAX_THREADS || !rounds || rounds > MAX_ROUNDS || !mb) {
        fprintf(stderr, "usage: bench_tokens FOLDER THREADS ROUNDS [MB]\n");
        return 2;
    }
    snprintf(tokens, sizeof tokens, "%s/train.bin", argv[1]);
    snprintf(rows, sizeof rows, "%s/rows.npy", argv[1]);
    make(tokens, mb << 20, 0);
    make(rows, mb << 20, 1);
    bench all[] = {
        { .name = "u16",
          .path = tokens,
          .out = { { "x", "tokens(block=2048) | to(u16)" } },
          .n_out = 1,
          .row = BLOCK * 2,
          .step = BLOCK * 2,
          .wide = BLOCK * 2 },
        { .name = "i64",
          .path = tokens,
          .out = { { "x", "tokens(block=2048)" } },
          .n_out = 1,
          .row = BLOCK * 2,
          .step = BLOCK * 2,
          .wide = BLOCK * 8,
          .convert = stk_convert_find(stk_cpu_level(), STK_U16, STK_I64) },
        { .name = "i64 and labels",
          .path = tokens,
          .out = { { "x", "tokens(block=2048)" }, { "y", "tokens(block=2048, shift=1)" } },
          .n_out = 2,
          .row = BLOCK * 2,
          .step = BLOCK * 2,
          .wide = BLOCK * 8,
          .shift = 2,
          .convert = stk_convert_find(stk_cpu_level(), STK_U16, STK_I64) },
        { .name = "npy rows of 150 KB",
          .path = rows,
          .out = { { "x", "from(array)" } },
          .n_out = 1,
          .head = HEAD,
          .row = ROW,
          .step = ROW,
          .wide = ROW },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        run(&all[i], threads, rounds);
    return 0;
}
