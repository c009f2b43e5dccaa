/* SPDX-License-Identifier: Apache-2.0 */
/* pictures_testing.h - makes a shard of pictures of all kinds, for tests of the GPU stage. */
#ifndef PICTURES_TESTING_H
#define PICTURES_TESTING_H

#include "../../codec/jpeg_testing.h"
#include "../../seams/make_tar.h"
#include "../../seams/seam.h"
#include "../../support/sanitized.h"

#ifndef PICTURES
#define PICTURES TEST_SHARE(60, 26) /* 26 have each kind of picture() at least once */
#endif

static inline stk_bytes progressive(void)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned char *out = NULL, row[90 * 3];
    unsigned long len = 0;
    JSAMPROW rows[1] = { row };

    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &len);
    c.image_width = c.image_height = 90;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    for (uint32_t y = 0; y < 90; y++) {
        for (uint32_t x = 0; x < sizeof row; x++)
            row[x] = jpeg_texture(x / 3, y, (int)(x % 3), 20);
        jpeg_write_scanlines(&c, rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return (stk_bytes){ out, len };
}

/* Every sampling factor in turn, odd sizes, gray ones; some progressive, with restarts, or damaged
 * in the middle of the scan.  `more`: larger, so that seek points pay. */
static inline stk_bytes picture(unsigned k, uint32_t more)
{
    static const int samp[][2] = { { 1, 1 }, { 2, 1 }, { 2, 2 }, { 1, 2 }, { 4, 1 } };
    const int *s = samp[k % 5];
    jpeg_recipe r = { .w = 40 + more + k * 7 % 200,
                      .h = 60 + more + k * 11 % 150,
                      .comps = k % 9 == 8 ? 1 : 3,
                      .samp = { { s[0], s[1] }, { 1, 1 }, { 1, 1 } },
                      .quality = 60 + (int)k % 40,
                      .restart = k % 13 == 12 ? 3 : 0,
                      .optimize = (int)k % 2,
                      .rough = more ? 160 : 40 };
    stk_bytes in;

    if (k % 17 == 16)
        return progressive();
    if (r.comps == 1)
        r.samp[0][0] = r.samp[0][1] = 1;
    in = jpeg_make(&r);
    if (k % 11 == 10)
        memset((uint8_t *)(uintptr_t)in.data + in.len / 2, 0x5a, 12);
    return in;
}

static inline void write_tar(const char *name, uint32_t more)
{
    FILE *f = fopen(seam_path(name), "wb");
    char member[32];

    assert_non_null(f);
    for (unsigned k = 0; k < PICTURES; k++) {
        stk_bytes in = picture(k, more);

        snprintf(member, sizeof member, "%04u.jpg", k);
        tar_member(f, member, in.data, in.len);
        snprintf(member, sizeof member, "%04u.cls", k);
        tar_member(f, member, "7", 1);
        free((void *)(uintptr_t)in.data);
    }
    tar_end(f);
    fclose(f);
}

/* Of every fifth picture the second half is missing: no one can make it. */
static inline void write_cut_off(const char *name)
{
    FILE *f = fopen(seam_path(name), "wb");
    char member[32];

    assert_non_null(f);
    for (unsigned k = 0; k < PICTURES; k++) {
        stk_bytes in = picture(k, 0);

        snprintf(member, sizeof member, "%04u.jpg", k);
        tar_member(f, member, in.data, k % 5 == 4 ? in.len / 2 : in.len);
        snprintf(member, sizeof member, "%04u.cls", k);
        tar_member(f, member, "7", 1);
        snprintf(member, sizeof member, "%04u.txt", k);
        tar_member(f, member, "abcdefghijklmnop" + k % 5, 1 + k % 7);
        free((void *)(uintptr_t)in.data);
    }
    tar_end(f);
    fclose(f);
}

/* Samples of 0 to 4 pictures.  cut: of every so many-th picture the second half is missing. */
static inline void write_several(const char *name, unsigned cut)
{
    FILE *f = fopen(seam_path(name), "wb");
    char member[32];

    assert_non_null(f);
    for (unsigned k = 0, sample = 0; k < PICTURES; sample++) {
        for (unsigned i = 0; i < sample * 7 % 5 && k < PICTURES; i++, k++) {
            stk_bytes in = picture(k, 0);

            snprintf(member, sizeof member, "%04u.%u.jpg", sample, i);
            tar_member(f, member, in.data, cut && k % cut == cut - 1 ? in.len / 2 : in.len);
            free((void *)(uintptr_t)in.data);
        }
        snprintf(member, sizeof member, "%04u.cls", sample);
        tar_member(f, member, "7", 1);
    }
    tar_end(f);
    fclose(f);
}

/* ---- darker: an op without device code ---- */

static inline int darker_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state, (void)args, (void)spec, (void)err;
    return 0;
}

static inline uint32_t darker_act(const void *state, stk_rng *rng, const stk_view *canvas,
                                  stk_action *out)
{
    (void)state, (void)rng, (void)canvas;
    *out = (stk_action){ .code = STK_ACT_OWN };
    return 1;
}

static inline void darker_tile(const void *state, const stk_action *a, stk_tile *t)
{
    (void)state, (void)a;
    for (size_t i = 0; i < (size_t)t->width * t->height; i++)
        t->data[i] = t->data[i] >> 1 & 0x7F7F7F;
}

/* Of the process, before a chain is planned. */
static inline void add_darker(void)
{
    static const stk_arg none[] = { { 0 } };
    static const stk_op darker = { .abi = STK_PLUGIN_ABI,
                                   .size = sizeof(stk_op),
                                   .name = "darker",
                                   .help = "half as bright",
                                   .args = none,
                                   .plan = darker_plan,
                                   .version = 1,
                                   .can = STK_OP_POINT,
                                   .act = darker_act,
                                   .tile = darker_tile };
    stk_error err;

    seam_ok(stk_plugin_add(STK_PLUGIN_OP, &darker, &err), &err);
}

static inline stk_dataset *open_tar(const char *name, int points)
{
    stk_dataset_options o = { .size = sizeof o, .jpeg = points ? STK_YES : STK_NO };
    const char *url = seam_path(name);
    stk_dataset *out;
    stk_error err;

    seam_ok(stk_dataset_open(&out, &url, 1, &o, &err), &err);
    return out;
}

#endif
