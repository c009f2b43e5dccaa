/* SPDX-License-Identifier: Apache-2.0 */
/* libav_load.c - libavcodec is found, opened and tried: three frames are decoded, one of which is
 * shown before its predecessor, and their bytes must be the ones that every H.264 decoder gives.  A
 * library of a major that has no row, or that gives other bytes, is refused: a wrong offset would
 * be wrong pixels.
 *
 * Only files that exist are opened, by their path.  $STOKER_LIBAVCODEC names one. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "video/libav.h"

#define REMEDY                                                                                     \
    "install FFmpeg (Debian: apt install libavcodec59, or ffmpeg), or name the library in "        \
    "$STOKER_LIBAVCODEC"

/* ---- functions ---- */

#define NAMES(X)                                                                                   \
    X(avcodec_version)                                                                             \
    X(avutil_version)                                                                              \
    X(avcodec_find_decoder_by_name)                                                                \
    X(avcodec_alloc_context3)                                                                      \
    X(avcodec_free_context)                                                                        \
    X(avcodec_open2)                                                                               \
    X(avcodec_send_packet)                                                                         \
    X(avcodec_receive_frame)                                                                       \
    X(avcodec_flush_buffers)                                                                       \
    X(av_packet_alloc)                                                                             \
    X(av_packet_free)                                                                              \
    X(av_packet_unref)                                                                             \
    X(av_new_packet)                                                                               \
    X(av_frame_alloc)                                                                              \
    X(av_frame_free)                                                                               \
    X(av_opt_set)                                                                                  \
    X(av_opt_set_int)                                                                              \
    X(av_opt_get_int)                                                                              \
    X(av_get_pix_fmt_name)                                                                         \
    X(av_get_sample_fmt_name)                                                                      \
    X(av_mallocz)                                                                                  \
    X(av_strerror)

static int bind(stk_libav *l, const char *path, stk_error *err)
{
    void *f;

#define BIND(name)                                                                                 \
    f = dlsym(l->handle, #name);                                                                   \
    if (!f)                                                                                        \
        return stk_fail(err, STK_ENOTSUP, "%s has no %s: " REMEDY, path, #name);                   \
    memcpy(&l->name, &f, sizeof f);
    NAMES(BIND)
#undef BIND
    return 0;
}

/* ---- where it is ---- */

#define FOLDERS 64u

static int exists(char *out, size_t size, const char *folder, size_t len, uint32_t major)
{
    snprintf(out, size, "%.*s/libavcodec.so.%u", (int)len, folder, major);
    return access(out, R_OK) == 0;
}

/* In a list of folders, parted by colons. */
static int find_in(const char *list, char *out, size_t size)
{
    for (uint32_t k = 0; list && k < FOLDERS && *list; k++) {
        size_t len = strcspn(list, ":");

        for (uint32_t i = 0; len && i < stk_libav_rows; i++)
            if (exists(out, size, list, len, stk_libav_table[i].codec_major))
                return 1;
        list += len + (list[len] == ':');
    }
    return 0;
}

static int find(char *out, size_t size)
{
    const char *given = getenv("STOKER_LIBAVCODEC"), *conda = getenv("CONDA_PREFIX");
    char folder[1200];

    if (given && *given) {
        snprintf(out, size, "%s", given);
        return 1;
    }
    if (find_in(getenv("LD_LIBRARY_PATH"), out, size))
        return 1;
    snprintf(folder, sizeof folder, "%s/lib", conda ? conda : "");
    if (conda && find_in(folder, out, size))
        return 1;
    return find_in("/usr/local/lib:/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/lib/"
                   "x86_64-linux-gnu:/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib:/lib64:/lib",
                   out, size);
}

/* ---- the trial ---- */

static const uint8_t trial_setup[] = {
    0x01, 0x64, 0x00, 0x0a, 0xff, 0xe1, 0x00, 0x19, 0x67, 0x64, 0x00, 0x0a, 0xac, 0x58, 0x44, 0x96,
    0xc0, 0x44, 0x00, 0x00, 0x03, 0x00, 0x04, 0x00, 0x00, 0x03, 0x00, 0xc8, 0x3c, 0x48, 0x94, 0x11,
    0x80, 0x01, 0x00, 0x07, 0x68, 0xe8, 0x42, 0x83, 0x12, 0xc8, 0xb0, 0xfd, 0xf8, 0xf8, 0x00,
};
static const uint8_t trial_packets[] = {
    0x00, 0x00, 0x00, 0x75, 0x65, 0x88, 0x82, 0x00, 0x43, 0xff, 0x73, 0xe0, 0xf9, 0xc0, 0x6e, 0x0c,
    0x7e, 0x50, 0xbf, 0xe1, 0x2f, 0x86, 0xe1, 0xab, 0x38, 0x78, 0x2f, 0x4e, 0x8a, 0x39, 0xbf, 0xe7,
    0x5e, 0x09, 0xfd, 0x61, 0x9d, 0xcb, 0x34, 0xe3, 0xa4, 0x63, 0x78, 0x40, 0xc4, 0x79, 0xe8, 0xcf,
    0x31, 0x99, 0x7b, 0xbe, 0xd0, 0x99, 0x7f, 0x9c, 0x36, 0xa7, 0x22, 0xae, 0xb9, 0x69, 0x5a, 0xb0,
    0x39, 0x39, 0x23, 0x71, 0x82, 0xfc, 0xf6, 0x00, 0x48, 0xa3, 0x7f, 0xff, 0xfe, 0x3a, 0xa3, 0x58,
    0x52, 0x5f, 0x5c, 0x29, 0x8d, 0x00, 0x3f, 0xff, 0x60, 0xe4, 0x31, 0x29, 0x6a, 0xbf, 0xa6, 0x41,
    0xdb, 0x0c, 0xa9, 0xa4, 0xe8, 0x22, 0xa7, 0x66, 0x86, 0x7d, 0x84, 0x88, 0x6f, 0xb0, 0xa1, 0x36,
    0xd8, 0x62, 0x7e, 0x4e, 0x3c, 0x4d, 0x05, 0x58, 0xd5, 0x00, 0x00, 0x00, 0x0e, 0x41, 0x9a, 0x14,
    0xc8, 0x5b, 0xff, 0xf2, 0x6c, 0xbd, 0xd1, 0x64, 0x2d, 0x12, 0x30, 0x00, 0x00, 0x00, 0x08, 0x01,
    0x9e, 0x22, 0x72, 0x16, 0xff, 0xe1, 0x81,
};
static const uint32_t trial_sizes[3] = { 121, 18, 12 };
#define TRIAL_SIDE 32u
#define TRIAL_HASH UINT64_C(0x203049a31b1d349e)

static uint64_t hash_planes(const stk_planes *p, uint64_t hash)
{
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t y = 0; y < TRIAL_SIDE >> (k > 0); y++)
            hash = stk_hash64(hash, p->data[k] + y * p->stride[k], TRIAL_SIDE >> (k > 0));
    return hash;
}

static int take_frames(void *d, uint32_t *seen, uint64_t *hash, stk_error *err)
{
    static const uint32_t expected[3] = { 0, 2, 1 };
    stk_planes p;
    uint32_t number;
    int rc;

    while ((rc = stk_vdec_libav.receive(d, &number, &p, err)) == 0) {
        if (*seen >= 3 || number != expected[*seen] || p.area.w != TRIAL_SIDE ||
            p.area.h != TRIAL_SIDE || p.bits != 8 || !p.half_x || !p.half_y ||
            p.stride[0] < TRIAL_SIDE || p.stride[1] < TRIAL_SIDE / 2)
            return STK_ENOTSUP;
        *hash = hash_planes(&p, *hash);
        ++*seen;
    }
    return rc == STK_END ? 0 : rc;
}

static int decode_three(void *d, stk_error *err)
{
    const uint8_t *at = trial_packets;
    uint64_t hash = 0;
    uint32_t seen = 0;

    for (uint32_t i = 0; i < 3; at += trial_sizes[i++]) {
        STK_TRY(stk_vdec_libav.send(d, &(stk_vdec_packet){ { at, trial_sizes[i] }, i, 0 }, err));
        STK_TRY(take_frames(d, &seen, &hash, err));
    }
    STK_TRY(stk_vdec_libav.send(d, &(stk_vdec_packet){ 0 }, err));
    STK_TRY(take_frames(d, &seen, &hash, err));
    return seen == 3 && hash == TRIAL_HASH ? 0 : STK_ENOTSUP;
}

static int try_it(stk_libav *l, const char *path, stk_error *err)
{
    const stk_vdec_setup s = {
        STK_VIDEO_H264, TRIAL_SIDE, TRIAL_SIDE, { trial_setup, sizeof trial_setup }
    };
    void *d = NULL;
    int rc = stk_vdec_libav.open(&d, l, &s, err);

    if (rc == 0)
        rc = decode_three(d, NULL);
    if (d)
        stk_vdec_libav.close(d);
    if (rc < 0)
        return stk_fail(err, STK_ENOTSUP,
                        "%s (major %u) did not decode the three frames that it is tried with: "
                        "another build of FFmpeg is needed",
                        path, l->at->codec_major);
    return 0;
}

static int fits(stk_libav *l, const char *path, stk_error *err)
{
    uint32_t codec = l->avcodec_version() >> 16, util = l->avutil_version() >> 16;

    for (uint32_t i = 0; i < stk_libav_rows; i++)
        if (stk_libav_table[i].codec_major == codec && stk_libav_table[i].util_major == util)
            l->at = &stk_libav_table[i];
    if (!l->at)
        return stk_fail(
            err, STK_ENOTSUP,
            "%s is libavcodec %u (libavutil %u), which this version does not know: "
            "install FFmpeg 5 to 9 (libavcodec 59 to 63), or name one in $STOKER_LIBAVCODEC",
            path, codec, util);
    return 0;
}

int stk_libav_open(void **out, stk_error *err)
{
    stk_libav *l = STK_NEW(stk_libav);
    char path[1300];
    int rc = 0;

    *out = NULL;
    if (!l)
        return stk_fail_nomem(err, sizeof *l);
    if (!find(path, sizeof path))
        rc = stk_fail(err, STK_ENOTSUP,
                      "no libavcodec of a version that is known was found: " REMEDY);
    if (rc == 0 && !(l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        rc = stk_fail(err, STK_ENOTSUP, "%s can't be opened (%s): " REMEDY, path, dlerror());
    if (rc == 0)
        rc = bind(l, path, err);
    if (rc == 0)
        rc = fits(l, path, err);
    if (rc == 0)
        rc = try_it(l, path, err);
    if (rc < 0)
        stk_libav_close(l);
    else
        *out = l;
    return rc;
}

void stk_libav_tell(char *out, size_t size)
{
    char path[1300] = "";
    stk_error err = { 0 };
    void *lib = NULL;

    if (stk_libav_open(&lib, &err) < 0) {
        snprintf(out, size, "libavcodec none: %s", err.message);
        return;
    }
    find(path, sizeof path);
    snprintf(out, size, "libavcodec %u (%s)", ((stk_libav *)lib)->at->codec_major, path);
    stk_libav_close(lib);
}

/* The library stays: some of FFmpeg's own leave threads or handlers that outlive a dlclose(). */
void stk_libav_close(void *l)
{
    stk_free(l);
}
