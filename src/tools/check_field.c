/* SPDX-License-Identifier: Apache-2.0 */
/* check_field.c - what is one field, and does it decode?
 *
 * Content decides: the decoders' probes, and the magic numbers of gzip, zstd, npy and zip.  A name
 * decides where content can't: bytes in a field jpg that no decoder knows are no picture, a cls
 * must be a whole number, a json must parse.  What neither says is only read, and counted so. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/crc32.h"
#include "base/registry.h"
#include "codec/sound_decoders.h"
#include "tools/check_model.h"
#include "compress/unpack.h"
#include "format/zip.h"

#define DEFAULT_PIXELS 178956970u
#define PICTURE ((check_kind)(STK_MAX_DECODERS - 1)) /* named[]: any picture */
#define SOUND ((check_kind)(STK_MAX_DECODERS - 2))   /* named[]: any recording */

static const struct {
    const char *name, *chain;
} codecs[] = {
    /* from CHECK_FIRST_CODEC on */
    { "gzip", "gunzip" }, { "zstd", "unzstd" }, { "npy", "npy" }, { "npz", NULL },
    { "json", "json" },   { "text", "text" },   { "int", "int" },
};

static const struct {
    const char *ending;
    check_kind kind;
} named[] = {
    { "jpg", PICTURE },    { "jpeg", PICTURE },    { "png", PICTURE },     { "webp", PICTURE },
    { "image", PICTURE },  { "json", CHECK_JSON }, { "txt", CHECK_TEXT },  { "text", CHECK_TEXT },
    { "cls", CHECK_INT },  { "cls2", CHECK_INT },  { "index", CHECK_INT }, { "inx", CHECK_INT },
    { "npy", CHECK_NPY },  { "npz", CHECK_NPZ },   { "gz", CHECK_GZIP },   { "gzip", CHECK_GZIP },
    { "zst", CHECK_ZSTD }, { "zstd", CHECK_ZSTD }, { "wav", SOUND },       { "flac", SOUND },
    { "mp3", SOUND },      { "ogg", SOUND },       { "opus", SOUND },      { "m4a", SOUND },
    { "sound", SOUND },
};

int check_codecs_plan(check *c, stk_error *err)
{
    for (size_t k = 0; k < sizeof codecs / sizeof *codecs; k++) {
        int rc = codecs[k].chain ? stk_chain_plan(&c->chain[k], NULL, "x", codecs[k].chain, err)
                                 : 0;

        c->missing[k] = rc == STK_ENOTSUP;
        if (rc < 0 && !c->missing[k])
            return rc;
    }
    return 0;
}

const char *check_kind_name(size_t kind)
{
    const stk_decoder *d = NULL;

    if (kind >= CHECK_FIRST_CODEC)
        return kind < CHECK_KINDS ? codecs[kind - CHECK_FIRST_CODEC].name : NULL;
    d = stk_registry_get(NULL, STK_PLUGIN_DECODER, kind);
    return d ? d->name : NULL;
}

void check_reader_fini(reader *r)
{
    for (size_t i = 0; i < STK_MAX_DECODERS; i++) {
        const stk_decoder *d = stk_registry_get(NULL, STK_PLUGIN_DECODER, i);

        if (d && r->decoder[i])
            d->close(r->decoder[i]);
    }
    stk_scratch_fini(&r->scratch);
}

/* ---- what is it ---- */

static int begins(stk_bytes in, size_t at, const char *magic, size_t len)
{
    return in.len >= at + len && !memcmp(in.data + at, magic, len);
}

static check_kind by_content(stk_bytes in)
{
    const stk_decoder *d;

    for (size_t i = 0; i < STK_MAX_DECODERS && (d = stk_registry_get(NULL, STK_PLUGIN_DECODER, i));
         i++)
        if (d->probe(in))
            return (check_kind)i;
    return begins(in, 0, "\x1f\x8b\x08", 3)       ? CHECK_GZIP
           : begins(in, 0, "\x28\xb5\x2f\xfd", 4) ? CHECK_ZSTD
           : begins(in, 0, "\x93NUMPY", 6)        ? CHECK_NPY
           : begins(in, 0, "PK\3\4", 4)           ? CHECK_NPZ
                                                  : CHECK_NONE;
}

/* Are names of fields suffixes of files, which WebDataset gives a meaning?  Columns of tables and
 * members of lines are called what their writer liked: a text may be called index. */
static int by_suffix(const stk_dataset *ds)
{
    return !strcmp(ds->ops->kind(ds), "tar") || !strcmp(ds->ops->kind(ds), "folder");
}

static check_kind by_name(const char *name)
{
    const char *dot = strrchr(name, '.'), *ending = dot ? dot + 1 : name;

    for (size_t k = 0; k < sizeof named / sizeof *named; k++)
        if (!strcasecmp(named[k].ending, ending))
            return named[k].kind;
    return CHECK_NONE;
}

int check_names_picture(const char *name)
{
    return by_name(name) == PICTURE;
}

int check_names_sound(const char *name)
{
    return by_name(name) == SOUND;
}

/* A kind of picture that is known and that no decoder of this build reads; NULL: none. */
static const char *foreign_picture(stk_bytes in)
{
    static const struct {
        size_t at, len;
        const char *magic, *name;
    } known[] = {
        { 0, 3, "\xff\xd8\xff", "JPEG" },
        { 0, 4, "\x89PNG", "PNG" },
        { 8, 4, "WEBP", "WebP" },
        { 0, 4, "GIF8", "GIF" },
        { 0, 4, "II*\0", "TIFF" },
        { 0, 4, "MM\0*", "TIFF" },
        { 4, 8, "ftypavif", "AVIF" },
        { 4, 8, "ftypheic", "HEIC" },
        { 0, 4, "\0\0\0\x0c", "JPEG 2000" },
        { 0, 2, "\xff\x0a", "JPEG XL" },
        { 0, 2, "BM", "BMP" },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (in.len >= 12 && begins(in, known[i].at, known[i].magic, known[i].len))
            return known[i].name;
    return NULL;
}

/* ---- pictures, video, sound ---- */

static int drop_frame(void *cookie, uint32_t i, int64_t time_us, const stk_planes *p,
                      stk_error *err)
{
    (void)cookie, (void)i, (void)time_us, (void)p, (void)err;
    return 0;
}

/* Every frame, some at a time. */
static int check_video(reader *r, const stk_decoder *d, void *ctx, stk_bytes in, uint64_t frames,
                       stk_error *err)
{
    const stk_media_sink sink = { .frame = drop_frame };
    const stk_media_points points = { .head = { 0 } };
    const stk_media_part all = { 0, in };
    uint64_t frame[256];
    stk_media_ask ask = { .frame = frame };
    unsigned mark = stk_scratch_mark(&r->scratch);

    for (uint64_t at = 0; at < frames; at += ask.n_frames) {
        ask.n_frames = frames - at < 256 ? (uint32_t)(frames - at) : 256;
        for (uint32_t i = 0; i < ask.n_frames; i++)
            frame[i] = at + i;
        stk_scratch_rewind(&r->scratch, mark);
        STK_TRY(d->decode(ctx,
                          &(stk_media_job){ .points = &points,
                                            .ask = &ask,
                                            .part = &all,
                                            .n_parts = 1,
                                            .sink = &sink,
                                            .scratch = &r->scratch },
                          err));
    }
    return 0;
}

static int drop_samples(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                        stk_error *err)
{
    (void)cookie, (void)first, (void)channel, (void)n, (void)err;
    return 0;
}

static int check_sound(reader *r, const stk_decoder *d, void *ctx, stk_bytes in, uint64_t units,
                       stk_error *err)
{
    stk_lane lane = STK_LANE_PLAIN;
    const stk_media_sink sink = { .sound = drop_samples, .lane = &lane };
    const stk_media_points points = { .head = { 0 } };
    const stk_media_part all = { 0, in };
    const stk_media_ask ask = { .to = units };

    if (!units)
        return stk_fail(err, STK_ECORRUPT, "the recording has no samples");
    return d->decode(ctx,
                     &(stk_media_job){ .points = &points,
                                       .ask = &ask,
                                       .part = &all,
                                       .n_parts = 1,
                                       .sink = &sink,
                                       .scratch = &r->scratch },
                     err);
}

static int header_of(reader *r, size_t i, stk_bytes in, stk_media_info *info, stk_error *err)
{
    const stk_decoder *d = stk_registry_get(NULL, STK_PLUGIN_DECODER, i);

    if (!r->decoder[i])
        STK_TRY(d->open(&r->decoder[i], err));
    *info = (stk_media_info){ 0 };
    return d->header(r->decoder[i], in, &(stk_media_points){ .head = { 0 } }, info, err);
}

/* The decoder of a file's sound alone, where that of its video, *i, finds none. */
static int header_of_sound(reader *r, size_t *i, stk_bytes in, stk_media_info *info)
{
    const stk_decoder *d;

    for (size_t k = 0; k < STK_MAX_DECODERS && (d = stk_registry_get(NULL, STK_PLUGIN_DECODER, k));
         k++)
        if (k != *i && d->can & STK_DECODER_SOUND_TRACK && d->probe(in) &&
            header_of(r, k, in, info, NULL) == 0) {
            *i = k;
            return 1;
        }
    return 0;
}

static int check_picture(reader *r, size_t i, stk_bytes in, stk_error *err)
{
    uint64_t limit = r->c->o.max_pixels ? r->c->o.max_pixels : DEFAULT_PIXELS;
    const stk_decoder *d;
    stk_pixels pixels = { 0 };
    stk_picture_source from;
    stk_media_info info;
    stk_rect all = { 0 };
    int rc = header_of(r, i, in, &info, err);

    if (rc < 0 && !header_of_sound(r, &i, in, &info))
        return rc;
    d = stk_registry_get(NULL, STK_PLUGIN_DECODER, i);
    from = (stk_picture_source){ .decoder = d, .ctx = r->decoder[i] };
    if (info.medium == STK_SOUND)
        return check_sound(r, d, r->decoder[i], in, info.units, err);
    if (!info.width || !info.height)
        return stk_fail(err, STK_ECORRUPT, "the picture is %ux%u", info.width, info.height);
    if ((uint64_t)info.width * info.height > limit)
        return stk_fail(err, STK_ELIMIT,
                        "the picture is %ux%u, over the limit of %" PRIu64 " pixels", info.width,
                        info.height, limit);
    if (info.medium == STK_VIDEO)
        return check_video(r, d, r->decoder[i], in, info.units, err);
    all.w = info.width;
    all.h = info.height;
    return stk_picture_whole(&from, in, &(stk_decode_request){ .need = all, .high_byte = 1 },
                             &r->scratch, &pixels, err);
}

static int no_picture(check_kind said, stk_bytes in, stk_error *err)
{
    const char *kind = foreign_picture(in);

    if (said == SOUND)
        return stk_fail(err, STK_ECORRUPT,
                        in.len ? "these %zu bytes are not sound that this build decodes"
                               : "the recording is empty (%zu bytes)",
                        in.len);
    if (kind)
        return stk_fail(err, STK_ENOTSUP, "a %s picture, which this build can't decode", kind);
    return stk_fail(
        err, STK_ECORRUPT,
        in.len ? "these %zu bytes are not a picture" : "the picture is empty (%zu bytes)", in.len);
}

/* ---- values ---- */

static int check_value(reader *r, const stk_chain *chain, stk_bytes *in, stk_error *err)
{
    const stk_codec *parse = chain->parse ? chain->parse->codec : NULL;
    stk_codec_work work = { NULL, &r->scratch };
    stk_spec row = { 0 };
    void *dst;
    int rc;

    for (uint32_t i = 0; i < chain->n_steps; i++)
        if (chain->step[i].codec->extract)
            STK_TRY(chain->step[i].codec->extract(chain->step[i].state, *in, &r->scratch, in, err));
    if (!parse)
        return 0;
    if (parse->shape) /* it looks at all that can be wrong */
        return parse->shape(chain->parse->state, *in, &row, err);
    dst = stk_scratch_get(&r->scratch, chain->row_bytes);
    if (!dst)
        return stk_fail_nomem(err, chain->row_bytes);
    if (parse->open)
        STK_TRY(parse->open(chain->parse->state, &work.ctx, err));
    rc = parse->parse(chain->parse->state, &work, *in, dst, err);
    if (parse->open && parse->close)
        parse->close(work.ctx);
    return rc;
}

static int check_codec(reader *r, check_kind kind, stk_bytes *in, stk_error *err)
{
    size_t k = (size_t)kind - CHECK_FIRST_CODEC;

    if (r->c->missing[k])
        return stk_fail(err, STK_ENOTSUP, "%s, which this build can't unpack", codecs[k].name);
    return check_value(r, &r->c->chain[k], in, err);
}

/* ---- npz ---- */

typedef struct memory_file {
    stk_file base;
    stk_bytes bytes;
} memory_file;

static int memory_read(stk_file *f, stk_io *io)
{
    stk_bytes in = ((memory_file *)f)->bytes;
    uint64_t left = io->offset < in.len ? in.len - io->offset : 0;

    io->rc = io->sys = 0;
    io->got = io->len < left ? io->len : (size_t)left;
    if (io->got)
        memcpy(io->dst, in.data + io->offset, io->got);
    return 0;
}

static const stk_source memory_source = {
    .abi = STK_PLUGIN_ABI, .size = sizeof(stk_source), .name = "field", .read = memory_read
};

static uint32_t crc32_of(stk_bytes in)
{
    stk_crc32 crc;

    stk_crc32_init(&crc);
    return stk_crc32_of(&crc, 0, in.data, in.len);
}

static int member_bytes(reader *r, memory_file *f, const stk_zip_member *m, stk_bytes *out,
                        stk_error *err)
{
    uint8_t *dst;

    if (m->method == STK_ZIP_STORED) {
        *out = (stk_bytes){ f->bytes.data + m->offset, (size_t)m->size };
        return crc32_of(*out) == m->crc
                   ? 0
                   : stk_fail(err, STK_ECORRUPT, "npz: member %.80s has another checksum", m->name);
    }
    if (m->size > STK_UNPACK_MAX)
        return stk_unpack_bomb("npz", (size_t)m->packed, err);
    dst = stk_scratch_get(&r->scratch, (size_t)m->size + 1);
    if (!dst)
        return stk_fail_nomem(err, (size_t)m->size);
    *out = (stk_bytes){ dst, (size_t)m->size };
    return stk_zip_inflate(&f->base, m, dst, err);
}

static int check_npz(reader *r, stk_bytes in, stk_error *err)
{
    memory_file f = { { &memory_source }, in };
    stk_zip z = { 0 };
    int rc = stk_zip_read(&f.base, in.len, &z, err);

    for (size_t i = 0; rc == 0 && i < z.n; i++) {
        stk_bytes member;

        rc = member_bytes(r, &f, &z.member[i], &member, err);
        if (rc == 0 && by_content(member) == CHECK_NPY)
            rc = check_codec(r, CHECK_NPY, &member, err);
    }
    stk_zip_fini(&z);
    return rc;
}

/* ---- one field ---- */

/* A text that begins as JSON and is all of it; one that isn't may be anything. */
static int is_json(reader *r, stk_bytes in)
{
    return in.len && strchr("{[", in.data[0]) && in.data[0] &&
           check_codec(r, CHECK_JSON, &in, NULL) == 0;
}

/* What it has to be: its name wins, where it names a kind, and any picture will do for a
 * picture. */
static check_kind settle(reader *r, const char *name, stk_bytes in)
{
    check_kind said = by_name(name), is = by_content(in);

    if (said == CHECK_INT && !by_suffix(r->c->ds))
        said = CHECK_NONE;
    if (said == PICTURE || said == SOUND)
        return is < CHECK_FIRST_CODEC ? is : said;
    if (said != CHECK_NONE)
        return said;
    return is == CHECK_NONE && is_json(r, in) ? CHECK_JSON : is;
}

static int check_as(reader *r, check_kind kind, stk_bytes *in, stk_error *err)
{
    if (kind == CHECK_NPZ)
        return check_npz(r, *in, err);
    if (kind >= CHECK_FIRST_CODEC)
        return check_codec(r, kind, in, err);
    return by_content(*in) == kind ? check_picture(r, kind, *in, err) : no_picture(kind, *in, err);
}

/* What is packed is checked too: json.gz as json.  One layer, as a chain unpacks it. */
static int check_inside(reader *r, const char *name, stk_bytes in, stk_error *err)
{
    const char *dot = strrchr(name, '.');
    char inner[128];
    check_kind kind;

    snprintf(inner, sizeof inner, "%.*s", dot ? (int)(dot - name) : 0, name);
    kind = settle(r, inner, in);
    return kind == CHECK_NONE || kind == CHECK_GZIP || kind == CHECK_ZSTD
               ? 0
               : check_as(r, kind, &in, err);
}

int check_field(reader *r, const char *name, stk_bytes in, stk_error *err)
{
    check_kind kind;
    char why[sizeof err->message];
    int rc;

    stk_scratch_reset(&r->scratch);
    kind = settle(r, name, in);
    r->tally.fields++;
    r->tally.bytes += in.len;
    if (kind == CHECK_NONE) {
        r->tally.only_read++;
        r->tally.unchecked += foreign_picture(in) != NULL;
        return 0;
    }
    rc = check_as(r, kind, &in, err);
    if (rc == 0 && (kind == CHECK_GZIP || kind == CHECK_ZSTD))
        rc = check_inside(r, name, in, err);
    r->tally.decoded[kind] += rc == 0;
    if (rc < 0) {
        memcpy(why, err->message, sizeof why);
        stk_fail(err, rc, "%.40s: %.190s", name, why);
    }
    return rc;
}
