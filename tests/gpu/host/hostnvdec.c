/* SPDX-License-Identifier: Apache-2.0 */
/* hostnvdec.c - a libnvcuvid whose engines are libavcodec, so that sessions, their surfaces and
 * their failures can be tested where there is no GPU.  Tests put its folder in LD_LIBRARY_PATH.
 *
 * It keeps NVIDIA's interface where we lean on it: the parser calls back from within its own call;
 * a picture comes with the bytes of its slices after a start code of three bytes; surfaces are
 * given to pictures in turn, so that one that was not mapped in time shows another picture; a
 * mapped frame is memory of its own that is overwritten when it is unmapped; only so many may be
 * mapped at once; a decoder takes no larger frames than it was made for.  What libavcodec calls
 * damaged is a frame that NVDEC conceals; one that was not mapped is in progress when it is first
 * asked for; of VP9 there is no status.
 *
 *   STK_HOSTNVDEC_FAIL=caps, create, map, parse, decode, reconfigure, status: such calls fail;
 *                     =status:N, late:N: every N-th frame is concealed, every N-th map fails
 *   STK_HOSTNVDEC_CREATE_MS=N, STK_HOSTNVDEC_DECODE_US=N: what a decoder, a picture takes; the
 *                     driver opens one decoder at a time
 *   STK_HOSTNVDEC_GATE=FILE: the n-th decoder is made when that file has n bytes
 *   STK_HOSTNVDEC_LOG=FILE: a line for each decoder that is made, changed or let go of */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <ffnvcodec/dynlink_cuda.h>
#include <ffnvcodec/dynlink_nvcuvid.h>

#include "video/vdec.h"

#define SHOWN __attribute__((visibility("default")))
#define ENGINES 2 /* or STK_HOSTNVDEC_ENGINES */
#define NEEDED 5u /* surfaces that a stream is said to need */
#define SIDE 4096u
#define POISON 0xA5
#define REFUSED ((CUresult)1)   /* CUDA_ERROR_INVALID_VALUE */
#define NO_MEMORY ((CUresult)2) /* CUDA_ERROR_OUT_OF_MEMORY */
#define NOT_SUPPORTED ((CUresult)801)
#define UNKNOWN ((CUresult)999)

SHOWN tcuvidGetDecoderCaps cuvidGetDecoderCaps;
SHOWN tcuvidCreateDecoder cuvidCreateDecoder;
SHOWN tcuvidDestroyDecoder cuvidDestroyDecoder;
SHOWN tcuvidReconfigureDecoder cuvidReconfigureDecoder;
SHOWN tcuvidDecodePicture cuvidDecodePicture;
SHOWN tcuvidGetDecodeStatus cuvidGetDecodeStatus;
SHOWN tcuvidMapVideoFrame64 cuvidMapVideoFrame64;
SHOWN tcuvidUnmapVideoFrame64 cuvidUnmapVideoFrame64;
SHOWN tcuvidCreateVideoParser cuvidCreateVideoParser;
SHOWN tcuvidParseVideoData cuvidParseVideoData;
SHOWN tcuvidDestroyVideoParser cuvidDestroyVideoParser;

typedef struct format {
    uint32_t width, height, bits, pitch, coded_w, coded_h; /* width 0: no frame was decoded yet */
} format;

/* A packet that has followed others, and what was decoded of it.  Tests decode the same few files a
 * hundred times: each packet is decoded once, and its picture stays without end. */
typedef struct coded_frame {
    struct coded_frame *next, *after; /* other packets in its place; those that have followed it */
    stk_video_codec codec;
    uint8_t *packet;
    size_t len;
    int known;     /* it was decoded */
    uint8_t *nv12; /* NULL: damaged, or it shows nothing */
    int damaged;
    format is; /* of a first one: what all are */
} coded_frame;

typedef struct run { /* packets that follow a keyframe */
    stk_video_codec codec;
    format is;
    coded_frame **frame; /* of each packet */
    uint32_t n;
    uint32_t refs; /* the parser, and surfaces that show a picture of it */
} run;

typedef struct parser {
    CUVIDPARSERPARAMS p;
    run *run;
    uint8_t *sets; /* of the sequence that was announced */
    size_t n_sets;
    uint32_t surfaces, next;
} parser;

typedef struct surface {
    run *run;
    uint32_t number;
    int asked; /* or mapped */
} surface;

typedef struct decoder {
    CUVIDDECODECREATEINFO how;
    uint32_t w, h;
    surface *surface;
    uint8_t *mapped[64];
    size_t mapped_size[64];
} decoder;

/* What the parser tells the decoder of a picture, in the part of the record that is the codec's. */
typedef struct note {
    run *run;
    uint32_t number;
} note;

static pthread_mutex_t driver = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t maps, statuses; /* lock */
static uint32_t made;           /* driver: decoders, while there is a gate */
static void *lib;               /* lock: libavcodec, without end */
static coded_frame *firsts;     /* lock: of every run, without end */

/* ---- what is asked of it ---- */

static int fails(const char *what)
{
    const char *given = getenv("STK_HOSTNVDEC_FAIL");

    return given && !strcmp(given, what);
}

/* Every n-th call, where "what:n" is asked. */
static int fails_nth(const char *what, uint32_t *count)
{
    const char *given = getenv("STK_HOSTNVDEC_FAIL");
    size_t len = strlen(what);
    int yes;

    if (!given || strncmp(given, what, len) != 0 || given[len] != ':')
        return 0;
    pthread_mutex_lock(&lock);
    yes = ++*count % (uint32_t)atoi(given + len + 1) == 0;
    pthread_mutex_unlock(&lock);
    return yes;
}

static void take_time(const char *name, long unit_ns)
{
    const char *given = getenv(name);
    long ns = given ? atol(given) * unit_ns : 0;
    struct timespec t = { ns / 1000000000, ns % 1000000000 };

    if (ns > 0)
        nanosleep(&t, NULL);
}

/* Where a test holds us up. */
static void wait_at_gate(void)
{
    const char *path = getenv("STK_HOSTNVDEC_GATE");
    struct timespec t = { 0, 1000000 };
    struct stat st;

    made = path ? made + 1 : 0;
    while (path && (stat(path, &st) || st.st_size < made))
        nanosleep(&t, NULL);
}

static void note_line(const char *what, uint32_t w, uint32_t h)
{
    const char *path = getenv("STK_HOSTNVDEC_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;

    if (f) {
        fprintf(f, "%s %u %u\n", what, w, h);
        fclose(f);
    }
}

/* ---- runs of packets ---- */

static void run_unref(run *r)
{
    uint32_t left;

    if (!r)
        return;
    pthread_mutex_lock(&lock);
    left = --r->refs;
    pthread_mutex_unlock(&lock);
    if (left)
        return;
    free(r->frame);
    free(r);
}

/* The frame of a packet in that place, new or met before. */
static coded_frame *frame_in(coded_frame **place, stk_video_codec codec, const uint8_t *data,
                             size_t len)
{
    coded_frame *f = *place;

    while (f && (f->codec != codec || f->len != len || memcmp(f->packet, data, len) != 0))
        f = f->next;
    if (f)
        return f;
    f = calloc(1, sizeof *f);
    f->codec = codec;
    f->packet = malloc(len);
    memcpy(f->packet, data, len);
    f->len = len;
    f->next = *place;
    return *place = f;
}

static void run_add(run *r, const uint8_t *data, size_t len)
{
    r->frame = realloc(r->frame, (r->n + 1) * sizeof *r->frame);
    pthread_mutex_lock(&lock);
    r->frame[r->n] = frame_in(r->n ? &r->frame[r->n - 1]->after : &firsts, r->codec, data, len);
    r->n++;
    pthread_mutex_unlock(&lock);
}

static uint16_t value_of(const stk_planes *p, uint32_t plane, uint32_t x, uint32_t y)
{
    const uint8_t *row = p->data[plane] + y * p->stride[plane];

    return p->bits > 8 ? (uint16_t)(((const uint16_t *)(const void *)row)[x] << (16 - p->bits))
                       : row[x];
}

static void put_value(const run *r, uint8_t *row, uint32_t x, uint16_t v)
{
    if (r->is.bits > 8)
        ((uint16_t *)(void *)row)[x] = v;
    else
        row[x] = (uint8_t)v;
}

/* NV12, or P016: values in the high bits. */
static uint8_t *surface_of(const run *r, const stk_planes *p)
{
    size_t size = (size_t)r->is.pitch * r->is.coded_h * 3 / 2;
    uint8_t *to = malloc(size);

    memset(to, POISON, size);
    for (uint32_t y = 0; y < r->is.height; y++)
        for (uint32_t x = 0; x < r->is.width; x++)
            put_value(r, to + (size_t)y * r->is.pitch, x, value_of(p, 0, x, y));
    for (uint32_t y = 0; y < (r->is.height + 1) / 2; y++)
        for (uint32_t x = 0; x < (r->is.width + 1) / 2 * 2; x++)
            put_value(r, to + ((size_t)r->is.coded_h + y) * r->is.pitch, x,
                      value_of(p, 1 + x % 2, x / 2, y));
    return to;
}

/* What a first frame says of all. */
static void take_format(run *r, const stk_planes *p)
{
    r->is.width = p->area.w;
    r->is.height = p->area.h;
    r->is.bits = p->bits;
    r->is.coded_w = (r->is.width + 15) / 16 * 16;
    r->is.coded_h = (r->is.height + 15) / 16 * 16;
    r->is.pitch = (r->is.coded_w * (r->is.bits > 8 ? 2 : 1) + 255) / 256 * 256;
}

/* out: the pictures of frames, by their number. */
static void take_frames(const stk_vdec_ops *ops, void *d, run *r, coded_frame *out)
{
    stk_planes planes;
    uint32_t number;
    int rc;

    while ((rc = ops->receive(d, &number, &planes, NULL)) == 0) {
        if (number >= r->n)
            continue;
        if (!r->is.width && planes.data[0])
            take_format(r, &planes);
        out[number].damaged = !planes.data[0];
        if (planes.data[0] && planes.half_x && planes.half_y && planes.data[1]) {
            free(out[number].nv12);
            out[number].nv12 = surface_of(r, &planes);
        }
    }
}

/* All pictures of the packets so far: from the first one, as a decoder that is drained can't go
 * on. */
static void decode_all(run *r, coded_frame *out)
{
    const stk_vdec_ops *ops = &stk_vdec_libav;
    const stk_vdec_setup setup = { .codec = r->codec, .width = SIDE, .height = SIDE };
    void *d = NULL;

    pthread_mutex_lock(&lock);
    if (!lib && ops->load(&lib, NULL) < 0)
        abort(); /* the test that uses us has to have it */
    pthread_mutex_unlock(&lock);
    if (ops->open(&d, lib, &setup, NULL) != 0)
        return;
    for (uint32_t i = 0; i < r->n; i++) {
        const coded_frame *f = r->frame[i];
        const stk_vdec_packet p = { { f->packet, f->len }, i, 0 };

        (void)ops->send(d, &p, NULL);
        take_frames(ops, d, r, out);
    }
    (void)ops->send(d, &(stk_vdec_packet){ .number = 0 }, NULL);
    take_frames(ops, d, r, out);
    ops->close(d);
}

/* Files what was decoded of packets that were not known. */
static void file_frames_locked(run *r, coded_frame *out)
{
    for (uint32_t i = 0; i < r->n; i++) {
        coded_frame *f = r->frame[i];

        if (f->known) {
            free(out[i].nv12);
            continue;
        }
        f->nv12 = out[i].nv12;
        f->damaged = out[i].damaged;
        f->known = 1;
    }
    r->frame[0]->is = r->is;
}

static int all_known_locked(run *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (!r->frame[i]->known)
            return 0;
    r->is = r->frame[0]->is;
    return 1;
}

/* What the packets so far show. */
static void run_decode(run *r)
{
    coded_frame *out;
    int known;

    pthread_mutex_lock(&lock);
    known = all_known_locked(r);
    pthread_mutex_unlock(&lock);
    if (known)
        return;
    out = calloc(r->n, sizeof *out);
    decode_all(r, out);
    pthread_mutex_lock(&lock);
    file_frames_locked(r, out);
    pthread_mutex_unlock(&lock);
    free(out);
}

/* ---- byte streams ---- */

/* The next unit of a byte stream, without its start code; NULL: there is none. */
static const uint8_t *next_unit(const uint8_t *p, const uint8_t *end, size_t *len)
{
    const uint8_t *from, *q;

    while (end - p >= 4 && !(p[0] == 0 && p[1] == 0 && p[2] == 1))
        p++;
    if (end - p < 4)
        return NULL;
    from = p + 3;
    for (q = from; end - q >= 3; q++)
        if (q[0] == 0 && q[1] == 0 && q[2] <= 1)
            break;
    if (end - q < 3)
        q = end;
    *len = (size_t)(q - from);
    return from;
}

static int is_slice(stk_video_codec codec, const uint8_t *unit)
{
    uint32_t type = codec == STK_VIDEO_H264 ? unit[0] & 31u : unit[0] >> 1 & 63u;

    return codec == STK_VIDEO_H264 ? type == 1 || type == 5 : type < 32;
}

static int is_set(stk_video_codec codec, const uint8_t *unit)
{
    uint32_t type = codec == STK_VIDEO_H264 ? unit[0] & 31u : unit[0] >> 1 & 63u;

    return codec == STK_VIDEO_H264 ? type == 7 || type == 8 : type >= 32 && type <= 34;
}

/* ---- the parser ---- */

static stk_video_codec codec_of(cudaVideoCodec c)
{
    return c == cudaVideoCodec_H264   ? STK_VIDEO_H264
           : c == cudaVideoCodec_HEVC ? STK_VIDEO_HEVC
                                      : STK_VIDEO_VP9;
}

/* Calls back with a sequence, if it is another than before. */
static int announce(parser *s, const uint8_t *sets, size_t n)
{
    const run *r = s->run;
    CUVIDEOFORMAT f = { .codec = s->p.CodecType,
                        .progressive_sequence = 1,
                        .min_num_decode_surfaces = NEEDED,
                        .chroma_format = cudaVideoChromaFormat_420 };

    f.bit_depth_luma_minus8 = f.bit_depth_chroma_minus8 = (unsigned char)(r->is.bits - 8);
    f.coded_width = r->is.coded_w;
    f.coded_height = r->is.coded_h;
    f.display_area.right = (int)r->is.width;
    f.display_area.bottom = (int)r->is.height;
    if (s->surfaces && s->n_sets == n && !memcmp(s->sets, sets, n))
        return 1;
    s->surfaces = (uint32_t)s->p.pfnSequenceCallback(s->p.pUserData, &f);
    free(s->sets);
    s->sets = malloc(n + 1);
    memcpy(s->sets, sets, n);
    s->n_sets = n;
    s->next = 0;
    return s->surfaces != 0;
}

/* Calls back with a picture, on the next surface. */
static int decode_one(parser *s, const uint8_t *data, size_t len, uint32_t number)
{
    CUVIDPICPARAMS p = { .CurrPicIdx = (int)(s->next++ % s->surfaces),
                         .nBitstreamDataLen = (unsigned)len,
                         .pBitstreamData = data,
                         .nNumSlices = 1 };
    const note n = { s->run, number };

    memcpy(&p.CodecSpecific, &n, sizeof n);
    return s->p.pfnDecodePicture(s->p.pUserData, &p) != 0;
}

/* A packet of units: its slices from the first one on, each after a start code of three bytes. */
static int parse_units(parser *s, const uint8_t *data, size_t len)
{
    stk_video_codec codec = s->run->codec;
    const uint8_t *end = data + len, *unit = data;
    uint8_t *sets = malloc(len + 1), *slices = malloc(len + 4 + len / 2);
    size_t n_sets = 0, n_slices = 0, n;
    int ok = 1;

    while ((unit = next_unit(unit, end, &n)) != NULL) {
        if (is_set(codec, unit)) {
            memcpy(sets + n_sets, unit, n);
            n_sets += n;
        } else if (is_slice(codec, unit)) {
            memcpy(slices + n_slices, (const uint8_t[]){ 0, 0, 1 }, 3);
            memcpy(slices + n_slices + 3, unit, n);
            n_slices += n + 3;
        }
        unit += n;
    }
    if (n_sets)
        ok = s->run->is.width && announce(s, sets, n_sets);
    if (ok && n_slices)
        ok = decode_one(s, slices, n_slices, s->run->n - 1);
    free(sets);
    free(slices);
    return ok;
}

/* A packet of VP9: one frame, or several with an index at the end. */
static int parse_vp9(parser *s, const uint8_t *data, size_t len)
{
    uint32_t mark = len ? data[len - 1] : 0, wide = (mark >> 3 & 3) + 1, n = (mark & 7) + 1;
    size_t index = 2 + (size_t)wide * n, at = 0;
    const uint32_t size[] = { s->run->is.width, s->run->is.height, s->run->is.bits };
    int many = mark >> 5 == 6 && index <= len && data[len - index] == mark;

    if (s->run->n == 1 && !announce(s, (const uint8_t *)size, sizeof size))
        return 0;
    for (uint32_t i = 0; i < (many ? n : 1); i++) {
        size_t frame = many ? 0 : len;

        for (uint32_t k = 0; many && k < wide; k++)
            frame |= (size_t)data[len - index + 1 + i * wide + k] << (8 * k);
        if (at + frame > len)
            return 0;
        if (!(data[at] & 8) && !decode_one(s, data + at, frame, s->run->n - 1))
            return 0; /* with that bit, it shows a frame that was decoded before */
        at += frame;
    }
    return 1;
}

CUresult CUDAAPI cuvidCreateVideoParser(CUvideoparser *out, CUVIDPARSERPARAMS *p)
{
    parser *s = calloc(1, sizeof *s);

    s->p = *p;
    *out = (CUvideoparser)(void *)s;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuvidParseVideoData(CUvideoparser obj, CUVIDSOURCEDATAPACKET *p)
{
    parser *s = (parser *)(void *)obj;

    if (fails("parse"))
        return UNKNOWN;
    if (p->payload_size && !s->run) {
        s->run = calloc(1, sizeof *s->run);
        s->run->codec = codec_of(s->p.CodecType);
        s->run->refs = 1;
    }
    if (p->payload_size) {
        run_add(s->run, p->payload, p->payload_size);
        if (s->run->n == 1)
            run_decode(s->run); /* says what the frames are */
        (void)(s->run->codec == STK_VIDEO_VP9 ? parse_vp9(s, p->payload, p->payload_size)
                                              : parse_units(s, p->payload, p->payload_size));
    }
    if (p->flags & CUVID_PKT_ENDOFSTREAM) {
        run_unref(s->run);
        s->run = NULL;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuvidDestroyVideoParser(CUvideoparser obj)
{
    parser *s = (parser *)(void *)obj;

    run_unref(s->run);
    free(s->sets);
    free(s);
    return CUDA_SUCCESS;
}

/* ---- the decoder ---- */

CUresult CUDAAPI cuvidGetDecoderCaps(CUVIDDECODECAPS *c)
{
    const char *given = getenv("STK_HOSTNVDEC_ENGINES");
    int known = (c->eCodecType == cudaVideoCodec_H264 && !c->nBitDepthMinus8) ||
                c->eCodecType == cudaVideoCodec_HEVC || c->eCodecType == cudaVideoCodec_VP9;

    c->bIsSupported = !fails("caps") && known && c->eChromaFormat == cudaVideoChromaFormat_420;
    c->nNumNVDECs = (unsigned char)(given ? atoi(given) : ENGINES);
    c->nOutputFormatMask = 3;
    c->nMinWidth = c->nMinHeight = 48;
    c->nMaxWidth = c->nMaxHeight = SIDE;
    c->nMaxMBCount = SIDE * SIDE / 256;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuvidCreateDecoder(CUvideodecoder *out, CUVIDDECODECREATEINFO *how)
{
    decoder *d;

    *out = NULL;
    if (fails("create") || how->ulNumOutputSurfaces > 64 || how->ulWidth > how->ulMaxWidth)
        return NO_MEMORY;
    pthread_mutex_lock(&driver);
    wait_at_gate();
    take_time("STK_HOSTNVDEC_CREATE_MS", 1000000);
    note_line("make", (uint32_t)how->ulWidth, (uint32_t)how->ulHeight);
    pthread_mutex_unlock(&driver);
    d = calloc(1, sizeof *d);
    d->how = *how;
    d->w = (uint32_t)how->ulWidth;
    d->h = (uint32_t)how->ulHeight;
    d->surface = calloc(how->ulNumDecodeSurfaces, sizeof *d->surface);
    *out = d;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuvidReconfigureDecoder(CUvideodecoder obj, CUVIDRECONFIGUREDECODERINFO *how)
{
    decoder *d = obj;

    if (fails("reconfigure") || how->ulWidth > d->how.ulMaxWidth ||
        how->ulHeight > d->how.ulMaxHeight || how->ulNumDecodeSurfaces > d->how.ulNumDecodeSurfaces)
        return REFUSED;
    pthread_mutex_lock(&driver);
    note_line("change", how->ulWidth, how->ulHeight);
    pthread_mutex_unlock(&driver);
    d->w = how->ulWidth;
    d->h = how->ulHeight;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuvidDestroyDecoder(CUvideodecoder obj)
{
    decoder *d = obj;

    for (uint32_t i = 0; i < d->how.ulNumDecodeSurfaces; i++)
        run_unref(d->surface[i].run);
    for (uint32_t i = 0; i < 64; i++)
        free(d->mapped[i]);
    pthread_mutex_lock(&driver);
    note_line("close", d->w, d->h);
    pthread_mutex_unlock(&driver);
    free(d->surface);
    free(d);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuvidDecodePicture(CUvideodecoder obj, CUVIDPICPARAMS *p)
{
    decoder *d = obj;
    surface *to;
    note n;

    memcpy(&n, &p->CodecSpecific, sizeof n);
    if (fails("decode") || p->CurrPicIdx < 0 ||
        (tcu_ulong)p->CurrPicIdx >= d->how.ulNumDecodeSurfaces || n.run->is.coded_w != d->w ||
        n.run->is.coded_h != d->h)
        return REFUSED;
    take_time("STK_HOSTNVDEC_DECODE_US", 1000);
    to = &d->surface[p->CurrPicIdx];
    run_unref(to->run);
    pthread_mutex_lock(&lock);
    n.run->refs++;
    pthread_mutex_unlock(&lock);
    *to = (surface){ n.run, n.number, 0 };
    return CUDA_SUCCESS;
}

/* The picture that a surface shows; NULL: none, or a damaged one. */
static const coded_frame *shown(const decoder *d, int at)
{
    const surface *s;

    if (at < 0 || (tcu_ulong)at >= d->how.ulNumDecodeSurfaces || !d->surface[at].run)
        return NULL;
    s = &d->surface[at];
    run_decode(s->run);
    return s->run->frame[s->number];
}

CUresult CUDAAPI cuvidGetDecodeStatus(CUvideodecoder obj, int at, CUVIDGETDECODESTATUS *out)
{
    decoder *d = obj;
    const coded_frame *p = shown(d, at);

    if (d->how.CodecType == cudaVideoCodec_VP9)
        return NOT_SUPPORTED;
    if (fails("status"))
        return UNKNOWN;
    if (p && !d->surface[at].asked++) {
        out->decodeStatus = cuvidDecodeStatus_InProgress;
        return CUDA_SUCCESS;
    }
    out->decodeStatus = !p || p->damaged || fails_nth("status", &statuses)
                            ? cuvidDecodeStatus_Error_Concealed
                            : cuvidDecodeStatus_Success;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuvidMapVideoFrame64(CUvideodecoder obj, int at, unsigned long long *out,
                                      unsigned int *pitch, CUVIDPROCPARAMS *how)
{
    decoder *d = obj;
    const coded_frame *p = shown(d, at);
    const run *r = p ? d->surface[at].run : NULL;
    size_t size = r ? (size_t)r->is.pitch * r->is.coded_h * 3 / 2 : 0;
    uint32_t i = 0;

    (void)how;
    while (i < d->how.ulNumOutputSurfaces && d->mapped[i])
        i++;
    if (!p || i == d->how.ulNumOutputSurfaces || fails("map") || fails_nth("late", &maps))
        return REFUSED;
    d->surface[at].asked = 1;
    d->mapped[i] = malloc(size);
    d->mapped_size[i] = size;
    if (p->nv12)
        memcpy(d->mapped[i], p->nv12, size);
    else
        memset(d->mapped[i], 0x80, size); /* concealed */
    *out = (unsigned long long)(uintptr_t)d->mapped[i];
    *pitch = r->is.pitch;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuvidUnmapVideoFrame64(CUvideodecoder obj, unsigned long long at)
{
    decoder *d = obj;

    for (uint32_t i = 0; i < d->how.ulNumOutputSurfaces; i++)
        if (d->mapped[i] && (unsigned long long)(uintptr_t)d->mapped[i] == at) {
            memset(d->mapped[i], POISON, d->mapped_size[i]);
            free(d->mapped[i]);
            d->mapped[i] = NULL;
            return CUDA_SUCCESS;
        }
    return REFUSED;
}
