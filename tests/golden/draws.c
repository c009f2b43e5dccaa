/* SPDX-License-Identifier: Apache-2.0 */
/* draws.c - what must never change by itself: random numbers, what every op draws, the pixels of a
 * transform, and the fingerprints of chains.  A resumed run and a stored state depend on them.
 *
 * `draws FOLDER` compares with FOLDER/draws.txt; `draws FOLDER write` prints what belongs in that
 * file.  A line that differs is an error, also if there are more lines or fewer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/transform.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "chain/chain.h"

enum { ADDRESSES = 1000, SIDE = 24, W = 61, H = 47, LINE = 512 };

static FILE *golden; /* NULL: print */
static unsigned lines, wrong;

static void say(const char *line)
{
    char want[LINE];

    lines++;
    if (!golden) {
        puts(line);
        return;
    }
    if (!fgets(want, sizeof want, golden))
        want[0] = 0;
    want[strcspn(want, "\n")] = 0;
    if (!strcmp(want, line))
        return;
    wrong++;
    printf("draws.txt:%u:\n  now    %s\n  stored %s\n", lines, line, want[0] ? want : "(the end)");
}

static void say_hash(const char *what, const char *chain, uint64_t a, uint64_t b)
{
    char line[LINE];

    snprintf(line, sizeof line, "%s %016llx %016llx %s", what, (unsigned long long)a,
             (unsigned long long)b, chain);
    say(line);
}

static void must(int rc, const stk_error *err, const char *chain)
{
    if (rc == 0)
        return;
    fprintf(stderr, "draws: %s: %s\n", chain, err->message);
    exit(1);
}

/* ---- addresses: small, large and those at the edges, in a fixed order ---- */

typedef struct address {
    uint64_t seed, position;
    uint32_t epoch, width, height;
    uint8_t output;
} address;

static address address_at(uint32_t i)
{
    static const uint64_t far[] = { 0, 1, UINT32_MAX, UINT64_C(1) << 32, UINT64_MAX };
    uint64_t a = stk_mix64(i + 1), b = stk_mix64(a), c = stk_mix64(b);

    return (address){ .seed = i % 7 ? a : far[i % 5],
                      .position = i % 3   ? b % 100000
                                  : i % 2 ? b
                                          : far[i % 5],
                      .epoch = i % 11 ? i % 90 : (uint32_t)b,
                      .output = (uint8_t)(i % 5 ? i % 16 : c % 255),
                      .width = 1 + (uint32_t)(c >> 8) % 900,
                      .height = 1 + (uint32_t)(c >> 40) % 900 };
}

static uint64_t add(uint64_t h, uint64_t v)
{
    return stk_hash64(h, &v, sizeof v);
}

/* ---- numbers ---- */

static void numbers(void)
{
    char line[LINE];
    uint64_t h = 0;
    stk_rng rng;

    for (uint32_t i = 0; i < ADDRESSES; i++) {
        address a = address_at(i);

        stk_rng_init(&rng, a.seed, a.position, a.epoch, a.output, (uint8_t)(i % 33));
        for (uint32_t k = 0; k < 21; k++)
            h = add(h, stk_rng_u32(&rng));
        h = add(h, (uint64_t)(stk_rng_unit(&rng) * 0x1p32));
        h = add(h, stk_rng_below(&rng, 1 + i));
        if (i % 100)
            continue;
        stk_rng_init(&rng, a.seed, a.position, a.epoch, a.output, (uint8_t)(i % 33));
        snprintf(line, sizeof line, "rng %u: %08x", i, stk_rng_u32(&rng));
        say(line);
    }
    say_hash("rng", "all", h, 0);
    stk_rng_init(&rng, 5, 6, 7, 255, 0); /* random windows of tokens; far into its numbers */
    for (uint32_t k = 0; k < 4 * 65536; k++)
        h = add(h, stk_rng_u32(&rng));
    say_hash("rng", "65536 blocks", h, 0);
}

/* ---- views ---- */

static uint64_t hash_view(uint64_t h, const stk_view *v)
{
    h = add(h, (uint64_t)v->src_w << 32 | v->src_h);
    h = add(h, (uint64_t)v->clip.x << 32 | v->clip.y);
    h = add(h, (uint64_t)v->clip.w << 32 | v->clip.h);
    h = add(h, (uint64_t)v->res_w << 32 | v->res_h);
    h = add(h, (uint64_t)(uint32_t)v->vis_x << 32 | (uint32_t)v->vis_y);
    h = add(h, (uint64_t)v->vis_w << 32 | v->vis_h);
    h = add(h, (uint64_t)v->flip_x << 16 | (uint64_t)v->flip_y << 8 | v->resized);
    return v->refused ? stk_hash64(h, v->refused, strlen(v->refused)) : h;
}

static void draw(const stk_chain *c, const address *a, stk_view *view)
{
    const stk_address at = {
        .seed = a->seed, .position = a->position, .epoch = a->epoch, .output = a->output
    };

    stk_draws d;

    stk_chain_draw(c, &at, (uint32_t[2]){ a->width, a->height }, &d, NULL);
    *view = *stk_draws_last(&d);
}

static void views(const char *text)
{
    stk_error err = { 0 };
    uint64_t h = 0, refused = 0;
    stk_chain chain;

    must(stk_chain_plan(&chain, NULL, "image", text, &err), &err, text);
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        address a = address_at(i);
        stk_view view;

        draw(&chain, &a, &view);
        h = hash_view(h, &view);
        refused += view.refused != NULL;
    }
    say_hash("view", text, h, refused);
    stk_chain_fini(&chain);
}

/* ---- pixels of a transform ---- */

static void pixels(const char *text)
{
    static uint8_t in[H][W][3], out[16][SIDE * SIDE * 3 * 4];
    stk_transform_options o = { .size = sizeof o, .num_workers = 2, .seed = 77, .output = 3 };
    stk_transform *t = NULL;
    stk_picture p[16];
    stk_error err = { 0 };
    uint64_t h = 0;

    for (uint32_t i = 0; i < sizeof in; i++)
        (&in[0][0][0])[i] = (uint8_t)(stk_mix64(i / 3 + 1) >> (i % 3 * 8));
    must(stk_transform_open(&t, text, &o, &err), &err, text);
    for (uint32_t epoch = 0; epoch < 8; epoch++) {
        for (uint32_t i = 0; i < 16; i++)
            p[i] = (stk_picture){ .data = in,
                                  .width = W,
                                  .height = H,
                                  .channels = 3,
                                  .step_x = 3,
                                  .step_y = W * 3,
                                  .step_c = 1,
                                  .position = i * 1000003u,
                                  .out = out[i],
                                  .out_size = sizeof out[i] };
        must(stk_transform_run(t, epoch, p, 16, &err), &err, text);
        h = stk_hash64(h, out, sizeof out);
    }
    say_hash("pixels", text, h, 0);
    stk_transform_close(&t);
}

/* ---- fingerprints ---- */

static void fingerprint(const char *text, int rows)
{
    stk_error err = { 0 };
    stk_chain c;
    int rc = rows ? stk_chain_plan_rows(&c, NULL, "x", text, &err)
                  : stk_chain_plan(&c, NULL, "x", text, &err);

    if (rc == STK_ENOTSUP && golden) { /* a build without zlib or zstd */
        char skipped[LINE];

        lines += fgets(skipped, sizeof skipped, golden) != NULL;
        return;
    }
    must(rc, &err, text);
    say_hash(rows ? "rows" : "chain", text, c.fingerprint.all, c.fingerprint.raw);
    stk_chain_fini(&c);
}

static const char *const drawn[] = {
    "image",
    "image | resize(256)",
    "image | resize((100, 300))",
    "image | resize(64, max_size=90)",
    "image | center_crop(224)",
    "image | center_crop((100, 300))",
    "image | resize(256) | center_crop(224)",
    "image | random_resized_crop(224)",
    "image | random_resized_crop((96, 160), scale=(0.5, 1), ratio=(0.1, 9))",
    "image | random_resized_crop(32, (0.01, 0.02), (8, 9))",
    "image | hflip",
    "image | hflip(0.1)",
    "image | hflip(p=1)",
    "image | hflip(0)",
    "from(jpg, png) | image | random_resized_crop(176) | hflip | normalize(imagenet) | to(f16)",
    "from(a) | image(exif=true) | hflip | random_resized_crop(64) | hflip(0.3) | hflip | to(u8)",
    "image | hflip | center_crop(60) | hflip | resize(33) | hflip | center_crop((20, 50)) | hflip",
};

static const char *const made[] = {
    "image | random_resized_crop(24) | hflip | to(f32)",
    "random_resized_crop(24) | hflip | normalize(imagenet) | to(f16, layout=hwc)",
    "image | resize(30) | center_crop(24) | hflip",
};

static const char *const planned[] = {
    "image",
    "image(exif=true)",
    "image(false, true)",
    "from(jpg, png, jpeg) | image | to(f32)",
    "from(\"a b\") | bytes",
    "from(cls, default=-1) | int",
    "from(cls, default='x y') | text",
    "from(score, default=0.25) | float",
    "int",
    "float",
    "ints",
    "floats",
    "ints | truncate(100)",
    "floats | truncate(n=7, keep=last)",
    "text",
    "bytes",
    "json",
    "json(a.b)",
    "json('a.b') | int",
    "npy",
    "npy((3, 4), f32)",
    "npy(shape=5, dtype=i64)",
    "from(path) | open | image",
    "from(path) | open(root='/data/pictures') | bytes",
    "npy | pack(2048)",
    "ints | truncate(9) | pack(block=64, fit=first, shift=1, give=mask, window=100)",
    "ints | pack(16, pad=3)",
    "image | resize(256) | center_crop(224) | to(layout=channels_last)",
    "image | resize([256, 300]) | to(f32, scale=false)",
    "image | resize(40, 60) | normalize((0.5, 0.25, 0.125), (1, 2, 4)) | to(bf16, chw)",
    "image | random_resized_crop(224, (0.2, 1), ratio=(1, 1.5)) | normalize(imagenet) | to(f16)",
    "image | hflip | hflip(0.25) | center_crop(9)",
};

static const char *const unpacked[] = { "gunzip | text", "unzstd | npy" };

static const char *const array_rows[] = {
    "tokens(1024)",
    "tokens(block=1024, stride=512, shift=1, share=true) | to(i32)",
    "tokens(block=8, random=true)",
    "from(text) | tokens(block=64, separator=50256)",
    "tokens(64, pack=best, give=positions)",
    "tokens(64, pack=first, pad=-1, repack=true)",
    "to(f32)",
    "from(x)",
};

#define EACH(list, call)                                                                           \
    for (size_t i_ = 0; i_ < sizeof list / sizeof *list; i_++)                                     \
    call

static void all(const char *folder)
{
    numbers();
    EACH(drawn, views(drawn[i_]));
    EACH(made, pixels(made[i_]));
    EACH(planned, fingerprint(planned[i_], 0));
    EACH(array_rows, fingerprint(array_rows[i_], 1));
    EACH(unpacked, fingerprint(unpacked[i_], 0));
    if (chdir(folder) != 0)
        exit(1);
    fingerprint("vocab('names.txt')", 0);
    fingerprint("from(json) | json(label) | text | vocab('./names.txt')", 0);
}

int main(int argc, char **argv)
{
    char path[LINE], rest[LINE];

    if (argc < 2)
        return 2;
    snprintf(path, sizeof path, "%s/draws.txt", argv[1]);
    if (argc == 2 && !(golden = fopen(path, "r"))) {
        perror(path);
        return 1;
    }
    all(argv[1]);
    if (!golden)
        return 0;
    if (fgets(rest, sizeof rest, golden)) {
        printf("draws.txt has more lines: %s", rest);
        wrong++;
    }
    fclose(golden);
    printf("%u lines, %u wrong\n", lines, wrong);
    return wrong != 0;
}
