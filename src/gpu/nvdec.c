/* SPDX-License-Identifier: Apache-2.0 */
/* nvdec.c - see nvdec.h.
 *
 * NVIDIA's parser makes the decoder's parameters of the byte stream and calls us back from within
 * its own call: a sequence begins, a picture is to be decoded, a picture may be shown.  When one
 * may be shown is of no interest, and the times it gives pictures are not believed: a picture that
 * is to be decoded is known by the bytes of its slice, which are those of the next packet.
 *
 * Pictures are mapped late, so that the engine has several of them in hand: each is only noted, and
 * it is looked at before its surface is decoded into again, or at the end.  One that is wanted is
 * mapped then.  Of the others too the decoder is asked what became of them: damage to a picture
 * that only others refer to shows in those, and they are called good.
 *
 * A clip with damage is decoded to its end, as if it had none: so parser and decoder are where they
 * are after any other clip, and go on.
 *
 * Parser, decoder and frames belong to one thread; the decoder has no lock of its own. */
#include "gpu/nvdec.h"

#include <config.h>

#if STK_HAVE_NVDEC
#include <assert.h>
#include <dlfcn.h>
#include <string.h>
#include <time.h>

#include <ffnvcodec/dynlink_cuda.h>
#include <ffnvcodec/dynlink_nvcuvid.h>

#include "base/lock.h"
#include "base/mem.h"

#define LIBRARY "libnvcuvid.so.1"
#define MORE 6u      /* surfaces beyond what the stream needs: pictures that are decoded ahead */
#define SURFACES 40u /* at most */
#define KNOWN 32u    /* formats whose capabilities are kept */
#define NOT_SUPPORTED 801 /* CUDA_ERROR_NOT_SUPPORTED, which the headers lack */
#define LOOK_NS 20000     /* between two looks at a picture that is not decoded yet */
#define LOOKS 100000u     /* then it never will be */

typedef struct caps { /* what the driver said of a kind of frame */
    stk_video_codec codec;
    uint32_t bits, chroma, engines;
    uint32_t min_w, min_h, max_w, max_h, max_mbs;
} caps;

struct stk_nvdec {
    void *lib;
    const stk_cuda *cuda;
    int gpu;
    tcuvidGetDecoderCaps *caps;
    tcuvidCreateDecoder *create;
    tcuvidDestroyDecoder *destroy;
    tcuvidReconfigureDecoder *reconfigure;
    tcuvidDecodePicture *decode;
    tcuvidGetDecodeStatus *status;
    tcuvidMapVideoFrame64 *map;
    tcuvidUnmapVideoFrame64 *unmap;
    tcuvidCreateVideoParser *parser_create;
    tcuvidParseVideoData *parse;
    tcuvidDestroyVideoParser *parser_destroy;
    stk_mutex lock;
    caps known[KNOWN]; /* lock */
    uint32_t n_known;  /* lock */
};

/* ---- the library ---- */

static int find_all(stk_nvdec *n, stk_error *err)
{
    const struct {
        const char *name;
        void *to;
    } all[] = { { "cuvidGetDecoderCaps", &n->caps },
                { "cuvidCreateDecoder", &n->create },
                { "cuvidDestroyDecoder", &n->destroy },
                { "cuvidReconfigureDecoder", &n->reconfigure },
                { "cuvidDecodePicture", &n->decode },
                { "cuvidGetDecodeStatus", &n->status },
                { "cuvidMapVideoFrame64", &n->map },
                { "cuvidUnmapVideoFrame64", &n->unmap },
                { "cuvidCreateVideoParser", &n->parser_create },
                { "cuvidParseVideoData", &n->parse },
                { "cuvidDestroyVideoParser", &n->parser_destroy } };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *p = dlsym(n->lib, all[i].name);

        if (!p)
            return stk_fail(err, STK_ENOTSUP,
                            "video on the GPU: " LIBRARY " has no %s: the driver "
                            "is too old",
                            all[i].name);
        memcpy(all[i].to, &p, sizeof p);
    }
    return 0;
}

int stk_nvdec_open(stk_nvdec **out, const stk_cuda *cuda, int gpu, stk_error *err)
{
    stk_nvdec *n = STK_NEW(stk_nvdec);
    int rc = 0;

    *out = NULL;
    if (!n)
        return stk_fail_nomem(err, sizeof *n);
    stk_mutex_init(&n->lock);
    n->cuda = cuda;
    n->gpu = gpu;
    n->lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); /* without end: drivers start threads */
    if (!n->lib)
        rc = stk_fail(err, STK_ENOTSUP,
                      "video on the GPU: the driver's " LIBRARY " is not here: in a container, "
                      "NVIDIA_DRIVER_CAPABILITIES has to name video");
    if (rc == 0)
        rc = find_all(n, err);
    if (rc < 0)
        stk_nvdec_close(&n);
    *out = n;
    return rc;
}

void stk_nvdec_close(stk_nvdec **np)
{
    stk_nvdec *n = *np;

    if (!n)
        return;
    *np = NULL;
    stk_mutex_destroy(&n->lock);
    stk_free(n);
}

/* ---- formats ---- */

static cudaVideoCodec codec_of(stk_video_codec codec)
{
    return codec == STK_VIDEO_H264   ? cudaVideoCodec_H264
           : codec == STK_VIDEO_HEVC ? cudaVideoCodec_HEVC
           : codec == STK_VIDEO_VP9  ? cudaVideoCodec_VP9
                                     : cudaVideoCodec_NumCodecs;
}

static void ask(const stk_nvdec *n, caps *c)
{
    CUVIDDECODECAPS q = { .eCodecType = codec_of(c->codec),
                          .eChromaFormat = cudaVideoChromaFormat_420,
                          .nBitDepthMinus8 = c->bits - 8 };
    uint32_t format = c->bits > 8 ? cudaVideoSurfaceFormat_P016 : cudaVideoSurfaceFormat_NV12;

    if (c->chroma != 1 || q.eCodecType == cudaVideoCodec_NumCodecs || n->cuda->bind(n->gpu) ||
        n->caps(&q) != CUDA_SUCCESS || !q.bIsSupported || !(q.nOutputFormatMask >> format & 1))
        return;
    c->engines = q.nNumNVDECs ? q.nNumNVDECs : 1;
    c->min_w = q.nMinWidth;
    c->min_h = q.nMinHeight;
    c->max_w = q.nMaxWidth;
    c->max_h = q.nMaxHeight;
    c->max_mbs = q.nMaxMBCount;
}

static caps caps_of(stk_nvdec *n, stk_video_codec codec, const stk_frame_format *f)
{
    caps c = { .codec = codec, .bits = f->bits, .chroma = f->chroma };
    uint32_t i = 0;

    stk_mutex_lock(&n->lock);
    while (i < n->n_known && (n->known[i].codec != codec || n->known[i].bits != f->bits ||
                              n->known[i].chroma != f->chroma))
        i++;
    if (i < n->n_known) {
        c = n->known[i];
    } else {
        ask(n, &c);
        if (i < KNOWN)
            n->known[n->n_known++] = c;
    }
    stk_mutex_unlock(&n->lock);
    return c;
}

uint32_t stk_nvdec_engines(stk_nvdec *n, stk_video_codec codec, const stk_frame_format *f)
{
    uint64_t mbs = (uint64_t)((f->width + 15) / 16) * ((f->height + 15) / 16);
    caps c;

    if (f->fields || f->bits < 8 || f->bits > 12 || f->chroma != 1 || f->matrix == 0)
        return 0;
    c = caps_of(n, codec, f);
    return f->width >= c.min_w && f->width <= c.max_w && f->height >= c.min_h &&
                   f->height <= c.max_h && mbs <= c.max_mbs
               ? c.engines
               : 0;
}

uint64_t stk_nvdec_bytes(const stk_frame_format *f)
{
    uint64_t one = ((uint64_t)f->width + 63) / 64 * 64 * (((uint64_t)f->height + 63) / 64 * 64);

    return one * 3 / 2 * (f->bits > 8 ? 2 : 1) * (16 + MORE + STK_NVDEC_FRAMES) + (4u << 20);
}

/* ---- sessions ---- */

typedef struct noted { /* a picture that was sent and not looked at */
    int surface;
    uint32_t want; /* UINT32_MAX: it is only decoded */
} noted;

typedef struct mapped {
    unsigned long long at;
    unsigned stride;
    uint32_t want;
} mapped;

struct stk_nvdec_session {
    stk_nvdec *n;
    stk_video_codec codec;
    stk_frame_format now; /* frames of the clip in hand */
    CUvideoparser parser;
    CUvideodecoder decoder;
    uint32_t surfaces;
    uint32_t coded_w, coded_h, most_w, most_h;
    int32_t left, top; /* of what is shown */
    const stk_nvdec_clip *clip;
    stk_error *why;
    int rc;
    const char *damage; /* of the clip in hand; NULL: none was seen */
    int mute;           /* the decoder says nothing of its pictures */
    noted later[SURFACES];
    uint32_t n_later;
    uint32_t next; /* packet whose picture is to be decoded next */
    mapped map[STK_NVDEC_FRAMES];
    uint32_t n_map, given;
};

static int broken(stk_nvdec_session *s, int code, const char *what)
{
    if (!s->rc)
        s->rc = stk_fail(s->why, STK_EIO, "NVDEC: %s (CUDA's error %d)", what, code);
    return 0;
}

static int refused(stk_nvdec_session *s, const char *what)
{
    if (!s->rc)
        s->rc = stk_fail(s->why, STK_ENOTSUP, "NVDEC: %s", what);
    return 0;
}

/* ---- frames ---- */

static void unmap_all(stk_nvdec_session *s)
{
    for (uint32_t i = 0; i < s->n_map; i++) {
        int rc = s->n->unmap(s->decoder, s->map[i].at);

        if (rc)
            broken(s, rc, "a frame can't be unmapped");
    }
    s->n_map = 0;
}

static void give_all(stk_nvdec_session *s)
{
    stk_nvdec_frame f[STK_NVDEC_FRAMES];
    uint32_t wide = s->now.bits > 8 ? 2 : 1;

    for (uint32_t i = 0; i < s->n_map; i++) {
        const uint8_t *at = (const uint8_t *)(uintptr_t)s->map[i].at;
        size_t stride = s->map[i].stride;

        f[i] = (stk_nvdec_frame){ .luma = at + (size_t)s->top * stride + (size_t)s->left * wide,
                                  .chroma = at + (s->coded_h + (size_t)s->top / 2) * stride +
                                            (size_t)s->left * wide,
                                  .stride = (uint32_t)stride,
                                  .want = s->map[i].want };
    }
    if (!s->rc && !s->damage && s->n_map)
        s->rc = s->clip->frames(s->clip->cookie, f, s->n_map, s->why);
    s->given += s->n_map;
    unmap_all(s);
}

/* What became of a picture, which may not be decoded yet. */
static cuvidDecodeStatus status_of(stk_nvdec_session *s, int surface)
{
    const struct timespec pause = { 0, LOOK_NS };
    CUVIDGETDECODESTATUS status = { 0 };
    int rc;

    for (uint32_t i = 0; i < LOOKS; i++) {
        rc = s->n->status(s->decoder, surface, &status);
        if (rc == NOT_SUPPORTED && s->codec == STK_VIDEO_VP9) {
            s->mute = 1;
            return cuvidDecodeStatus_Success;
        }
        if (rc)
            broken(s, rc, "it does not say what became of a picture");
        if (rc || status.decodeStatus != cuvidDecodeStatus_InProgress)
            return status.decodeStatus;
        nanosleep(&pause, NULL);
    }
    return status.decodeStatus;
}

static void look(stk_nvdec_session *s, int surface)
{
    cuvidDecodeStatus status = s->mute || s->rc ? cuvidDecodeStatus_Success : status_of(s, surface);

    if (!s->rc && status != cuvidDecodeStatus_Success)
        s->damage = status == cuvidDecodeStatus_Error_Concealed ? "it conceals damage"
                    : status == cuvidDecodeStatus_InProgress
                        ? "a picture does not get ready"
                        : "a picture could not be decoded in full";
}

/* Waits until it is decoded. */
static void map_one(stk_nvdec_session *s, const noted *p)
{
    CUVIDPROCPARAMS how = { .progressive_frame = 1, .output_stream = s->clip->stream };
    mapped *m = &s->map[s->n_map];
    int rc;

    assert(s->n_map < STK_NVDEC_FRAMES); /* the last one gave them all */
    rc = s->n->map(s->decoder, p->surface, &m->at, &m->stride, &how);
    if (rc) {
        broken(s, rc, "a frame can't be mapped");
        return;
    }
    m->want = p->want;
    s->n_map++;
    look(s, p->surface);
    if (s->n_map == STK_NVDEC_FRAMES)
        give_all(s);
}

/* Look at those that were noted, the oldest first, up to the one on that surface; -1: all.  Those
 * that are wanted come first: to map them waits as it should, and most others are decoded then. */
static void look_until(stk_nvdec_session *s, int surface)
{
    uint32_t end = surface < 0 ? s->n_later : 0;

    for (uint32_t i = 0; surface >= 0 && i < s->n_later && !end; i++)
        end = s->later[i].surface == surface ? i + 1 : 0;
    for (uint32_t i = 0; i < end && !s->rc; i++)
        if (s->later[i].want != UINT32_MAX)
            map_one(s, &s->later[i]);
    for (uint32_t i = 0; i < end && !s->rc; i++)
        if (s->later[i].want == UINT32_MAX)
            look(s, s->later[i].surface);
    s->n_later -= end;
    memmove(s->later, s->later + end, s->n_later * sizeof *s->later);
}

/* ---- what the parser calls ---- */

static int make_decoder(stk_nvdec_session *s, const CUVIDEOFORMAT *f, uint32_t surfaces)
{
    CUVIDDECODECREATEINFO c = {
        .ulWidth = f->coded_width,
        .ulHeight = f->coded_height,
        .ulMaxWidth = f->coded_width,
        .ulMaxHeight = f->coded_height,
        .ulNumDecodeSurfaces = surfaces,
        .CodecType = f->codec,
        .ChromaFormat = f->chroma_format,
        .ulCreationFlags = cudaVideoCreate_PreferCUVID,
        .bitDepthMinus8 = f->bit_depth_luma_minus8,
        .OutputFormat = f->bit_depth_luma_minus8 ? cudaVideoSurfaceFormat_P016
                                                 : cudaVideoSurfaceFormat_NV12,
        .DeinterlaceMode = cudaVideoDeinterlaceMode_Weave,
        .ulTargetWidth = f->coded_width,
        .ulTargetHeight = f->coded_height,
        .ulNumOutputSurfaces = STK_NVDEC_FRAMES,
        .display_area = { 0, 0, (short)f->coded_width, (short)f->coded_height }
    };
    int rc;

    if (s->decoder)
        s->n->destroy(s->decoder);
    s->decoder = NULL;
    rc = s->n->create(&s->decoder, &c);
    if (rc) {
        s->decoder = NULL;
        return broken(s, rc, "a decoder could not be opened");
    }
    s->most_w = f->coded_width;
    s->most_h = f->coded_height;
    s->surfaces = surfaces;
    return 1;
}

/* The decoder that is open, for frames of another size. */
static int change_decoder(stk_nvdec_session *s, const CUVIDEOFORMAT *f)
{
    CUVIDRECONFIGUREDECODERINFO c = { .ulWidth = f->coded_width,
                                      .ulHeight = f->coded_height,
                                      .ulTargetWidth = f->coded_width,
                                      .ulTargetHeight = f->coded_height,
                                      .ulNumDecodeSurfaces = s->surfaces,
                                      .display_area = { 0, 0, (short)f->coded_width,
                                                        (short)f->coded_height } };
    int rc = s->n->reconfigure(s->decoder, &c);

    return rc ? broken(s, rc, "a decoder could not be made to fit") : 1;
}

/* Is it what the stream's headers told us?  Colors that the parser sees otherwise are the CPU's. */
static int as_expected(const stk_nvdec_session *s, const CUVIDEOFORMAT *f)
{
    int w = f->display_area.right - f->display_area.left,
        h = f->display_area.bottom - f->display_area.top;

    return f->codec == codec_of(s->codec) && f->chroma_format == cudaVideoChromaFormat_420 &&
           f->bit_depth_luma_minus8 + 8u == s->now.bits &&
           f->bit_depth_chroma_minus8 + 8u == s->now.bits && w == (int)s->now.width &&
           h == (int)s->now.height && !(f->display_area.left & 1) && !(f->display_area.top & 1) &&
           !(f->coded_width & 1) && !(f->coded_height & 1) && f->coded_width <= 32766 &&
           f->coded_height <= 32766;
}

/* How many surfaces the parser may use; 0: stop. */
static int on_sequence(void *cookie, CUVIDEOFORMAT *f)
{
    stk_nvdec_session *s = cookie;
    uint32_t surfaces = f->min_num_decode_surfaces + MORE;
    int ok = 1;

    if (s->rc)
        return 0;
    if (!as_expected(s, f))
        return refused(s, "frames are not as the setup says");
    surfaces = surfaces < SURFACES ? surfaces : SURFACES;
    if (surfaces < f->min_num_decode_surfaces)
        return refused(s, "the stream keeps too many frames");
    look_until(s, -1);
    give_all(s);
    if (s->rc)
        return 0;
    if (!s->decoder || f->coded_width > s->most_w || f->coded_height > s->most_h ||
        surfaces > s->surfaces)
        ok = make_decoder(s, f, surfaces);
    else if (f->coded_width != s->coded_w || f->coded_height != s->coded_h)
        ok = change_decoder(s, f);
    s->coded_w = f->coded_width;
    s->coded_h = f->coded_height;
    s->left = f->display_area.left;
    s->top = f->display_area.top;
    return ok ? (int)s->surfaces : 0;
}

/* The picture of the packet that is next?  A packet of VP9 may have others beside it, which are not
 * shown. */
static int is_next(const stk_nvdec_session *s, const CUVIDPICPARAMS *p)
{
    const stk_nvdec_packet *k = &s->clip->packet[s->next];
    size_t len = p->nBitstreamDataLen, near;

    if (s->next >= s->clip->n || !p->pBitstreamData)
        return 0;
    near = (size_t)k->mark_len + 8 < len ? (size_t)k->mark_len + 8 : len; /* after a start code */
    return memmem(p->pBitstreamData, near, k->mark, k->mark_len) != NULL;
}

static int on_decode(void *cookie, CUVIDPICPARAMS *p)
{
    stk_nvdec_session *s = cookie;
    int rc, next;

    if (s->rc)
        return 0;
    if (!s->decoder)
        return refused(s, "a picture before its sequence");
    next = is_next(s, p);
    if (!next && s->codec != STK_VIDEO_VP9)
        s->damage = "a picture of no packet";
    if (s->n_later == SURFACES)
        look_until(s, -1);
    look_until(s, p->CurrPicIdx);
    if (s->rc)
        return 0;
    assert(s->n_later < SURFACES);
    rc = s->n->decode(s->decoder, p);
    if (rc)
        return broken(s, rc, "a picture is refused");
    s->later[s->n_later++] = (noted){ p->CurrPicIdx,
                                      next ? s->clip->packet[s->next].want : UINT32_MAX };
    s->next += (uint32_t)next;
    return 1;
}

static int on_show(void *cookie, CUVIDPARSERDISPINFO *d)
{
    const stk_nvdec_session *s = cookie;

    (void)d;
    return !s->rc;
}

/* ---- open, close, run ---- */

int stk_nvdec_session_open(stk_nvdec_session **out, stk_nvdec *n, stk_video_codec codec,
                           const stk_frame_format *f, stk_error *err)
{
    stk_nvdec_session *s = STK_NEW(stk_nvdec_session);
    CUVIDPARSERPARAMS p = { .CodecType = codec_of(codec),
                            .ulMaxNumDecodeSurfaces = 1, /* on_sequence() says how many */
                            .pfnSequenceCallback = on_sequence,
                            .pfnDecodePicture = on_decode,
                            .pfnDisplayPicture = on_show };
    int rc;

    *out = NULL;
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    s->n = n;
    s->codec = codec;
    p.pUserData = s;
    rc = n->cuda->bind(n->gpu);
    if (rc)
        rc = stk_fail(err, STK_EIO, "GPU %d: %s", n->gpu, n->cuda->say(rc));
    else if ((rc = (int)n->parser_create(&s->parser, &p)) != 0)
        rc = stk_fail(err, STK_EIO, "NVDEC: no parser could be made (CUDA's error %d)", rc);
    if (rc < 0)
        stk_nvdec_session_close(&s);
    *out = s;
    return rc;
}

void stk_nvdec_session_close(stk_nvdec_session **sp)
{
    stk_nvdec_session *s = *sp;

    if (!s)
        return;
    *sp = NULL;
    (void)s->n->cuda->bind(s->n->gpu);
    if (s->parser)
        s->n->parser_destroy(s->parser);
    if (s->decoder)
        s->n->destroy(s->decoder);
    stk_free(s);
}

static void send(stk_nvdec_session *s, const CUVIDSOURCEDATAPACKET *p)
{
    CUVIDSOURCEDATAPACKET copy = *p;
    int rc = s->n->parse(s->parser, &copy);

    if (rc)
        broken(s, rc, "packets are refused");
}

static void send_end(stk_nvdec_session *s)
{
    send(s, &(CUVIDSOURCEDATAPACKET){ .flags = CUVID_PKT_ENDOFSTREAM });
    look_until(s, -1);
    give_all(s);
}

static void send_packet(stk_nvdec_session *s, uint32_t i)
{
    const stk_nvdec_packet *k = &s->clip->packet[i];
    if (k->begins && i)
        send_end(s);
    if (!s->rc)
        send(s, &(CUVIDSOURCEDATAPACKET){
                    .flags = CUVID_PKT_ENDOFPICTURE, .payload_size = k->len, .payload = k->data });
}

int stk_nvdec_run(stk_nvdec_session *s, const stk_frame_format *f, const stk_nvdec_clip *clip,
                  stk_error *err)
{
    stk_error why;

    stk_error_clear(&why);
    s->now = *f;
    s->clip = clip;
    s->why = &why;
    s->rc = 0;
    s->damage = NULL;
    s->n_later = s->n_map = s->given = s->next = 0;
    for (uint32_t i = 0; i < clip->n && !s->rc; i++)
        send_packet(s, i);
    if (!s->rc)
        send_end(s);
    unmap_all(s);
    if (!s->rc && s->damage)
        s->rc = stk_fail(&why, STK_ECORRUPT, "NVDEC: %s", s->damage);
    if (!s->rc && (s->given != clip->n_want || s->next != clip->n))
        s->rc = stk_fail(&why, STK_ECORRUPT, "NVDEC: %u of %u packets came, %u of %u frames",
                         s->next, clip->n, s->given, clip->n_want);
    s->clip = NULL;
    s->why = NULL;
    return s->rc ? stk_fail(err, s->rc, "%s", why.message) : 0;
}

#else /* without ffnvcodec's headers */

struct stk_nvdec {
    int none;
};
struct stk_nvdec_session {
    int none;
};

static int none(stk_error *err)
{
    return stk_fail(err, STK_ENOTSUP,
                    "video on the GPU: this build has no NVDEC: build it with the headers of "
                    "libffmpeg-nvenc-dev (nv-codec-headers)");
}

int stk_nvdec_open(stk_nvdec **out, const stk_cuda *cuda, int gpu, stk_error *err)
{
    *out = NULL;
    return none(err);
}

void stk_nvdec_close(stk_nvdec **n)
{
    *n = NULL;
}

uint32_t stk_nvdec_engines(stk_nvdec *n, stk_video_codec codec, const stk_frame_format *f)
{
    return 0;
}

uint64_t stk_nvdec_bytes(const stk_frame_format *f)
{
    return 0;
}

int stk_nvdec_session_open(stk_nvdec_session **out, stk_nvdec *n, stk_video_codec codec,
                           const stk_frame_format *f, stk_error *err)
{
    *out = NULL;
    return none(err);
}

void stk_nvdec_session_close(stk_nvdec_session **s)
{
    *s = NULL;
}

int stk_nvdec_run(stk_nvdec_session *s, const stk_frame_format *f, const stk_nvdec_clip *clip,
                  stk_error *err)
{
    return none(err);
}

#endif

int stk_nvdec_fits(stk_video_codec made_codec, const stk_frame_format *made, stk_video_codec codec,
                   const stk_frame_format *f)
{
    if (made_codec != codec || made->bits != f->bits)
        return 0;
    if (made->width == f->width && made->height == f->height)
        return 2;
    return f->width <= made->width && f->height <= made->height;
}
