/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_codec.h - the table of a codec, which turns a field's bytes into a picture, numbers or
 * other bytes at the beginning of a chain; and stk_spec, what a row looks like after each step.
 * Part of plugin.h.
 *
 * UNSTABLE, as plugin.h is. */
#ifndef STOKER_PLUGIN_H
#include <stoker/plugin.h> /* which includes this where its own types are known */
#elif !defined(STOKER_PLUGIN_CODEC_H)
#define STOKER_PLUGIN_CODEC_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stk_kind { STK_KIND_BYTES = 1, STK_KIND_IMAGE, STK_KIND_VALUE } stk_kind;
typedef enum stk_layout { STK_CHW = 1, STK_HWC, STK_CHANNELS_LAST } stk_layout;

/* Of pictures: RGB; of one channel: Pillow's "L", palette indices, values of 16 bits. */
typedef enum stk_mode { STK_MODE_RGB, STK_MODE_GRAY, STK_MODE_INDEX, STK_MODE_GRAY16 } stk_mode;

typedef struct stk_patch_spec { /* a picture as a sequence of patches: patches() */
    uint32_t side;              /* of a patch; 0: it is not cut */
    uint32_t block;             /* patches come in blocks of so many by so many; 1: row by row */
    uint32_t frames;            /* a picture is so many equal frames */
    int first; /* inside a patch channels come first, then frames: else they are last */
} stk_patch_spec;

/* A row has one picture, any number, any number that share what is drawn: pictures(). */
typedef enum stk_several { STK_ONE, STK_SEVERAL, STK_SEVERAL_SAME } stk_several;

/* Of numbers: none of a recording, its samples, frames of features. */
typedef enum stk_sound_kind { STK_NO_SOUND, STK_WAVE, STK_FEATURES } stk_sound_kind;

typedef struct stk_picture_spec { /* a picture at this point of the chain */
    uint32_t width, height;       /* 0: differs by sample (ragged) */
    stk_layout layout;
    stk_mode mode;
    int exif;      /* turned upright before anything else sees it */
    int high_byte; /* 16-bit gray becomes 8 bits: stk_media_ask */
    int like;      /* its geometry is another output's */
    int resized;
    int normalized;
    int channels_first;   /* of frames: (channels, frames, ...) */
    float mul[3], add[3]; /* out = u8 * mul + add, per channel */
    stk_patch_spec patch;
    stk_several several;
} stk_picture_spec;

/* Dimensions that a row has before those of its values. */
typedef enum stk_lead_kind {
    STK_LEAD_VIEWS = 1, /* one picture, drawn several times */
    STK_LEAD_FRAMES     /* several pictures, drawn once */
} stk_lead_kind;
#define STK_MAX_LEADS 2

typedef struct stk_lead {
    stk_lead_kind kind;
    uint32_t n;
} stk_lead;

typedef struct stk_spec { /* what one row looks like at this point of the chain */
    stk_kind kind;
    stk_out_kind out; /* how rows are handed out */
    stk_dtype dtype;
    uint32_t ndim;
    int64_t shape[STK_MAX_DIMS]; /* of a row, all its dimensions; of IMAGE when the plan is made */
    uint32_t n_leads;
    stk_lead lead[STK_MAX_LEADS]; /* of them, from the first on */
    stk_picture_spec picture;     /* IMAGE */
    STK_ANONYMOUS union {
        int dtype_fixed; /* to() has been seen: nothing but the end may follow */
        int typed STK_REPLACED_BY("dtype_fixed");
    };
    /* VALUE: a row of an array, which the pipe moves and turns into `dtype` (0: as it is stored);
     * its shape is the array's, or what tokens() says. */
    int array;
    STK_ANONYMOUS union {
        int64_t max_len; /* LIST: longer rows are cut to it along the first dimension; 0: none is */
        int64_t most STK_REPLACED_BY("max_len");
    };
    int keep_last;        /* ... of which the last ones stay */
    stk_sound_kind sound; /* VALUE: what of a recording it is */
    double rate;          /* ... in samples per second; 0: each recording has its own */
} stk_spec;

/* How many of that kind a row has; 0: it has no such dimension. */
static inline uint32_t stk_spec_lead(const stk_spec *s, stk_lead_kind kind)
{
    for (uint32_t i = 0; i < s->n_leads; i++)
        if (s->lead[i].kind == kind)
            return s->lead[i].n;
    return 0;
}

/* How often a row is drawn: once for each of its views, or once. */
static inline uint32_t stk_spec_draws(const stk_spec *s)
{
    uint32_t n = stk_spec_lead(s, STK_LEAD_VIEWS);

    return n ? n : 1;
}

/* How often a row has the values of its other dimensions: 1 where it has no leading one. */
static inline uint32_t stk_spec_times(const stk_spec *s)
{
    uint32_t n = 1;

    for (uint32_t i = 0; i < s->n_leads; i++)
        n *= s->lead[i].n;
    return n;
}

enum { /* what a codec can do: stk_codec.can.  OWN: its state is known to the library alone. */
       STK_CODEC_PICTURES = 1, /* its output is what decoders make of the bytes */
       STK_CODEC_UNPACKS = 2,  /* extract(NULL, ...) unpacks fields whose names end in `suffix` */
       STK_CODEC_WINDOWS = 4,  /* OWN: cuts rows out of arrays */
       STK_CODEC_OPENS = 8,    /* OWN: reads the file that a field names */
       /* reads numbers: of a field that has a type, it says which is wanted */
       STK_CODEC_NUMBERS = 16,
       STK_CODEC_NPY = 32,      /* reads what numpy.save() writes */
       STK_CODEC_SOUND = 64,    /* OWN: its output is what decoders of sound make of the bytes */
       STK_CODEC_VIDEO = 128,   /* OWN: a clip of a video's frames */
       STK_CODEC_SEVERAL = 256, /* OWN: any number of pictures */
       STK_CODEC_OWN = STK_CODEC_WINDOWS | STK_CODEC_OPENS | STK_CODEC_SOUND | STK_CODEC_VIDEO |
                       STK_CODEC_SEVERAL,
};

typedef struct stk_codec_work { /* what a worker lends to parse() */
    void *ctx;                  /* of the codec's open(), one for each worker and output */
    stk_scratch *scratch;       /* memory until the row is made */
} stk_codec_work;

typedef struct stk_codec {
    uint32_t abi, size;
    const char *name, *help;
    const stk_arg *args;
    size_t state_size;
    int (*plan)(void *state, const stk_args *args, stk_spec *spec, stk_error *err);
    /* BYTES -> BYTES: *out is in `in` or in scratch. */
    STK_ANONYMOUS union {
        int (*extract)(const void *state, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                       stk_error *err);
        int (*narrow)(const void *state, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                      stk_error *err) STK_REPLACED_BY("extract");
    };
    /* BYTES -> VALUE: write one row of the planned shape. */
    int (*parse)(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                 stk_error *err);
    /* Where plan() said VALUE and STK_OUT_LIST: type, ndim (at most STK_MAX_DIMS - 1) and shape of
     * this row, before parse() gets room for it.  NULL: rows have the planned shape. */
    int (*shape)(const void *state, stk_bytes in, stk_spec *row, stk_error *err);
    /* Let go of what plan() took, also when plan() failed.  May be NULL. */
    void (*fini)(void *state);
    uint32_t version; /* raised when the same arguments give other results than before */
    uint32_t can;
    const char *suffix; /* UNPACKS: from(x) takes x.gz and unpacks it where suffix is ".gz" */
    /* What each worker keeps between rows, made before its first one.  NULL: nothing. */
    int (*open)(const void *state, void **ctx, stk_error *err);
    void (*close)(void *ctx);
} stk_codec;

#ifdef __cplusplus
}
#endif
#endif
