/* SPDX-License-Identifier: Apache-2.0 */
/* video_threads - how random clips of 16 frames grow with threads: Stoker's workers, and bare
 * decoders that share nothing.
 *
 *     video_threads FOLDER [THREADS...]      half a minute on a quiet machine
 *
 * FOLDER has 360p.mp4 and 720p.mp4, as bench/gpu/videos.py FOLDER makes them where ffmpeg is.
 * THREADS: 1 8 where they are not given; the first is what the others are compared with.  Neither
 * FFmpeg's headers nor Python are needed, only libavcodec: $STOKER_LIBAVCODEC names it.
 *
 * A bare thread has the file mapped and its packets listed by the points; it decodes from the
 * keyframe on, without what nothing refers to.  Stoker also crops, scales and makes batches.  Sides
 * and numbers of threads take turns, and the best round of each counts.  CPU ms per clip says why a
 * machine falls short: where it grows with the threads, cores share clocks, caches or memory. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "codec/codec.h"
#include "codec/decoders.h"
#include "timing.h"
#include "video/clip.h"
#include "video/vdec.h"

#define FRAMES 16u
#define ROWS 4096u  /* of the list of clips */
#define ROUNDS 3    /* the best one counts */
#define SECONDS 1.0 /* of a round */
#define WARM 1      /* batches that are not timed */
#define BATCH 8u
#define MOST 16 /* numbers of threads */
#define CHAIN "from(path) | open | video(frames=16, at=time) | random_resized_crop(224) | to(u8)"

typedef struct figure {
    double clips_per_s, cpu_ms;
} figure;

typedef struct bare {
    const stk_video_head *h;
    stk_bytes file, setup;
    uint64_t clips[MAX_THREADS];
    double end;
} bare;

static char list[4096]; /* the file of clips; empty: there is none */

static void remove_list(void)
{
    if (list[0])
        unlink(list);
    list[0] = 0;
}

static void fail(const char *what, const stk_error *err)
{
    fprintf(stderr, "video_threads: %s%s%s\n", what, err ? ": " : "", err ? err->message : "");
    exit(3);
}

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

/* ---- bare decoders ---- */

static uint32_t take(void *stream, const stk_clip *clip)
{
    uint32_t n = 0, i;
    stk_planes p;
    stk_error err;

    while (stk_vdec_libav.receive(stream, &i, &p, &err) == 0)
        n += i < clip->n && clip->packet[i].want != STK_NOT_WANTED && p.data[0];
    return n;
}

/* What is still in the decoder at the end of a run. */
static uint32_t drain(void *stream, const stk_clip *clip)
{
    stk_error err;

    return stk_vdec_libav.send(stream, &(stk_vdec_packet){ 0 }, &err) == 0 ? take(stream, clip) : 0;
}

static void bare_clip(const bare *b, void *stream, uint32_t first, stk_scratch *scratch)
{
    uint64_t frame[FRAMES];
    const stk_media_ask ask = { .frame = frame, .n_frames = FRAMES };
    uint32_t got = 0;
    stk_error err;
    stk_clip clip;

    for (uint32_t i = 0; i < FRAMES; i++)
        frame[i] = first + i;
    stk_scratch_reset(scratch);
    if (stk_clip_plan(b->h, &ask, 0, scratch, &clip, &err) < 0)
        fail("a clip", &err);
    for (uint32_t i = 0; i < clip.n; i++) {
        const stk_clip_packet *k = &clip.packet[i];
        const stk_vdec_packet p = { { b->file.data + k->at, k->size }, i, 0 };

        if (k->begins) {
            got += i ? drain(stream, &clip) : 0;
            stk_vdec_libav.flush(stream);
        }
        if (k->want == STK_NOT_WANTED && stk_packet_is_spare(b->h->codec, b->setup, p.bytes))
            continue;
        if (stk_vdec_libav.send(stream, &p, &err) < 0)
            fail("a packet", &err);
        got += take(stream, &clip);
    }
    got += got < FRAMES ? drain(stream, &clip) : 0;
    if (got < FRAMES)
        fail("frames are missing", NULL);
}

static void bare_thread(void *arg, unsigned number)
{
    bare *b = arg;
    const stk_vdec_setup how = { b->h->codec, b->h->width, b->h->height, b->setup };
    uint64_t state = number + 1;
    stk_scratch scratch = { 0 };
    void *lib, *stream;
    stk_error err;

    if (stk_vdec_libav.load(&lib, &err) < 0 || stk_vdec_libav.open(&stream, lib, &how, &err) < 0)
        fail("libavcodec", &err);
    for (; now_s() < b->end; b->clips[number]++)
        bare_clip(b, stream, draw(&state, b->h->shown - FRAMES + 1), &scratch);
    stk_scratch_fini(&scratch);
    stk_vdec_libav.close(stream);
    stk_vdec_libav.unload(lib);
}

static figure run_bare(bare *b, unsigned threads)
{
    double cpu = cpu_s(), took;
    uint64_t clips = 0;

    memset(b->clips, 0, sizeof b->clips);
    b->end = now_s() + SECONDS;
    took = run_threads(threads, bare_thread, b);
    for (unsigned i = 0; i < threads; i++)
        clips += b->clips[i];
    return (figure){ (double)clips / took, (cpu_s() - cpu) * 1e3 / (double)clips };
}

/* ---- Stoker ---- */

static figure run_stoker(stk_dataset *ds, unsigned threads)
{
    const stk_output outputs[] = { { "video", CHAIN }, { "time", "from(time) | float" } };
    const stk_loader_options o = { .size = sizeof o,
                                   .batch_size = BATCH,
                                   .num_workers = (int32_t)threads,
                                   .outputs = outputs,
                                   .n_outputs = 2,
                                   .shuffle = STK_SHUFFLE_EXACT,
                                   .drop_last = STK_YES };
    double from = 0, last = 0, cpu = 0, used = 0;
    uint64_t batches = 0;
    stk_loader *l;
    stk_error err;

    if (stk_loader_open(&l, &ds, 1, &o, &err) < 0)
        fail("a loader", &err);
    while (batches <= WARM || last - from < SECONDS) {
        stk_batch *b;
        int rc = stk_loader_next(l, &b, -1, &err);

        if (rc == STK_END)
            continue;
        if (rc < 0)
            fail("a batch", &err);
        stk_batch_release(&b);
        last = now_s();
        used = cpu_s();
        if (batches++ == WARM)
            from = last, cpu = used;
    }
    stk_loader_close(&l);
    batches = (batches - WARM - 1) * BATCH;
    return (figure){ (double)batches / (last - from), (used - cpu) * 1e3 / (double)batches };
}

/* The list of clips at `path`, a row of which is read when its turn comes. */
static stk_dataset *open_clips(const char *path, const char *name, const stk_video_head *h)
{
    double length = (double)(h->shown - FRAMES) * (double)stk_video_us(h, h->end - h->first) / 1e6 /
                    h->shown;
    uint64_t state = 29;
    stk_dataset *ds;
    stk_error err;
    FILE *f;

    f = fopen(path, "w");
    if (!f)
        fail(path, NULL);
    fprintf(f, "path,time\n");
    for (unsigned i = 0; i < ROWS; i++)
        fprintf(f, "%s,%.4f\n", name, length * draw(&state, 1u << 20) / (1u << 20));
    if (fclose(f))
        fail(path, NULL);
    if (stk_dataset_open(&ds, &path, 1, NULL, &err) < 0)
        fail("the list of clips", &err);
    return ds;
}

/* ---- both ---- */

static stk_bytes map(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *p;

    if (fd < 0 || fstat(fd, &st) < 0 || !st.st_size)
        fail(path, NULL);
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        fail(path, NULL);
    return (stk_bytes){ p, (size_t)st.st_size };
}

static void say(const char *side, const unsigned *threads, const figure *best, int n)
{
    for (int i = 0; i < n; i++)
        printf("  %-8s %3u threads %8.1f clips/s  %7.2f CPU ms/clip  %6.2f times %u\n", side,
               threads[i], best[i].clips_per_s, best[i].cpu_ms,
               best[i].clips_per_s / best[0].clips_per_s, threads[0]);
    fflush(stdout);
}

static void keep(figure *best, figure f)
{
    *best = f.clips_per_s > best->clips_per_s ? f : *best;
}

static void measure(const char *folder, const char *name, const unsigned *threads, int n)
{
    figure alone[MOST] = { 0 }, ours[MOST] = { 0 };
    stk_media_points points = { 0 };
    stk_scratch scratch = { 0 };
    stk_video_head h;
    stk_dataset *ds;
    char path[4096];
    stk_error err;
    bare b;
    void *ctx;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    b.file = map(path);
    const stk_media_reader read = stk_media_here(&b.file);
    if (stk_decoder_mp4.open(&ctx, &err) < 0 ||
        stk_decoder_mp4.points(ctx, &read, &scratch, &points.head, &err) < 0 ||
        stk_video_points_open(&h, &points, &err) < 0 ||
        stk_video_points_setup(&h, &b.setup, &err) < 0)
        fail(path, &err);
    b.h = &h;
    snprintf(list, sizeof list, "%s/%s-%ld.csv", folder, name, (long)getpid());
    ds = open_clips(list, name, &h);
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < n; i++) {
            keep(&alone[i], run_bare(&b, threads[i]));
            keep(&ours[i], run_stoker(ds, threads[i]));
        }
    printf("%s, clips of %u frames, groups of %u\n", name, FRAMES, h.longest);
    say("bare", threads, alone, n);
    say("stoker", threads, ours, n);
    stk_dataset_unref(&ds);
    remove_list();
    stk_decoder_mp4.close(ctx);
    stk_scratch_fini(&scratch);
    munmap((void *)b.file.data, b.file.len);
}

int main(int argc, char **argv)
{
    unsigned threads[MOST] = { 1, 8 };
    int n = 2;

    if (argc < 2 || argc > MOST + 2)
        fail("usage: video_threads FOLDER [THREADS...]", NULL);
    if (argc > 2)
        n = argc - 2;
    for (int i = 2; i < argc; i++) {
        threads[i - 2] = (unsigned)atoi(argv[i]);
        if (!threads[i - 2] || threads[i - 2] > MAX_THREADS)
            fail("THREADS are 1 to 256", NULL);
    }
    atexit(remove_list);
    printf("%ld cores\n", sysconf(_SC_NPROCESSORS_ONLN));
    measure(argv[1], "360p.mp4", threads, n);
    measure(argv[1], "720p.mp4", threads, n);
    return 0;
}
