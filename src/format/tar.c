/* SPDX-License-Identifier: Apache-2.0 */
/* tar.c - WebDataset shards: walk a tar file's headers once and hand its members to group.c.
 *
 * Only headers are read, through a window that grows while they are close together and shrinks
 * to 4 KiB when members are large, so that indexing costs a few percent of a shard of pictures.
 * Extension headers (pax 'x', GNU 'L') gather in `ext` until their member comes; where several
 * say the same, the first wins, as in Python's tarfile.
 *
 * An archive that just stops, without the blocks of zeros that end it, may be a whole one of a
 * careless writer or a copy that was cut between two members: it is read, and scan->warn() is
 * told.  Where it stops in the middle of a sample that can be known, it is an error.
 *
 * Invariant: a field is reported only after its whole range was found inside the file. */
#include "format/tar.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "format/group.h"

#define WINDOW_MAX (256u << 10)
#define WINDOW_MIN (4u << 10)    /* pax header, its data, the header, and a small member after it */
#define WINDOW_REMOTE (8u << 20) /* a round trip costs more than the bytes between headers */
#define GAP_MAX (8u << 10)       /* skipping less than this costs more calls than it saves bytes */
#define PROGRESS_STEP (4u << 20)

typedef struct window {
    stk_file *file;
    uint64_t size; /* of the file */
    uint64_t at;
    size_t len, cap, ahead;
    uint8_t *data;
} window;

typedef struct extension { /* what holds for the next member */
    uint64_t start;        /* first extension header; STK_NO_OFFSET: there is none */
    int has_name, has_size, sparse;
    uint64_t size;
    stk_text name;
} extension;

typedef struct walk {
    window w;
    stk_scan *scan;
    uint64_t at, told; /* header under hand; offset last told to progress() */
    extension ext;
    int global_sized, ended; /* ended: by a block of zeros */
    /* in a member of the sample that is put together? */
    enum { NOT_KNOWN, IN_SAMPLE, AFTER_SAMPLE } torn;
    uint64_t global_size;
    stk_group group;
} walk;

/* ---- the window ---- */

static int window_fill(window *w, uint64_t offset, size_t len, stk_error *err)
{
    int near = offset <= w->at + w->len + GAP_MAX,
        remote = (w->file->source->can & STK_SOURCE_REMOTE) != 0;
    size_t want, most = remote ? WINDOW_REMOTE : WINDOW_MAX, cap = len > most ? len : most;

    w->ahead = remote                          ? WINDOW_REMOTE
               : near && w->ahead < WINDOW_MAX ? w->ahead * 2
               : near                          ? w->ahead
                                               : WINDOW_MIN;
    if (w->cap < cap) {
        stk_free(w->data);
        w->cap = w->len = 0;
        w->data = stk_alloc(cap);
        if (!w->data)
            return stk_fail_nomem(err, cap);
        w->cap = cap;
    }
    want = len > w->ahead ? len : w->ahead;
    if (want > w->size - offset)
        want = (size_t)(w->size - offset);
    w->len = 0;
    STK_TRY(stk_file_read(w->file, offset, w->data, want, err));
    w->at = offset;
    w->len = want;
    return 0;
}

/* The file's bytes [offset, offset + len), which must be inside it; valid until the next call. */
static int window_get(window *w, uint64_t offset, size_t len, const uint8_t **out, stk_error *err)
{
    const stk_source *source = w->file->source;

    *out = source->peek ? source->peek(w->file, offset, len) : NULL;
    if (*out)
        return 0;
    if (offset < w->at || offset + len > w->at + w->len)
        STK_TRY(window_fill(w, offset, len, err));
    *out = w->data + (offset - w->at);
    return 0;
}

/* ---- headers ---- */

/* Is [at + 512, + size) in the file, whole blocks of it?  *next: the header after it. */
static int check_range(const walk *k, const char *name, uint64_t size, uint64_t *next,
                       stk_error *err)
{
    uint64_t room = k->w.size - k->at - TAR_BLOCK;

    if (size > room)
        return stk_fail(err, STK_ECORRUPT,
                        "member \"%.80s\" has %" PRIu64 " bytes, the shard ends after %" PRIu64
                        " of them: cut short or damaged",
                        name, size, room);
    size = (size + TAR_BLOCK - 1) & ~(uint64_t)(TAR_BLOCK - 1);
    if (size > room)
        return stk_fail(err, STK_ECORRUPT,
                        "the shard ends inside the last block of member \"%.80s\": cut short",
                        name);
    *next = k->at + TAR_BLOCK + size;
    return 0;
}

static int refuse_sparse(const char *name, stk_error *err)
{
    return stk_fail(err, STK_ENOTSUP,
                    "member \"%.100s\" is a GNU sparse file: pack it again without tar --sparse",
                    name);
}

/* Data of an extension header, at most `max` bytes of it. */
static int extension_data(walk *k, const tar_header *h, size_t max, const uint8_t **data,
                          stk_error *err)
{
    if (h->size > max)
        return stk_fail(err, STK_ECORRUPT,
                        "an extension header (type '%c') has %" PRIu64 " bytes, the limit is %zu",
                        h->type, h->size, max);
    return window_get(&k->w, k->at + TAR_BLOCK, (size_t)h->size, data, err);
}

static int extension_name(extension *e, const char *name, size_t len, stk_error *err)
{
    if (e->has_name)
        return 0;
    e->has_name = 1;
    e->name.len = 0;
    return stk_text_put(&e->name, name, len, err);
}

static int take_pax(walk *k, const tar_header *h, stk_error *err)
{
    const uint8_t *data;
    tar_pax pax;

    STK_TRY(extension_data(k, h, TAR_PAX_MAX, &data, err));
    STK_TRY(stk_tar_pax_parse(data, (size_t)h->size, &pax, err));
    if (h->type == 'g') { /* a path for all members would make them one: not taken */
        if (pax.sparse)
            return refuse_sparse(h->name, err);
        if (pax.has_size) {
            k->global_sized = 1;
            k->global_size = pax.size;
        }
        return 0;
    }
    if (pax.path)
        STK_TRY(extension_name(&k->ext, pax.path, pax.path_len, err));
    if (pax.has_size && !k->ext.has_size) {
        k->ext.has_size = 1;
        k->ext.size = pax.size;
    }
    k->ext.sparse |= pax.sparse;
    return 0;
}

static int take_long_name(walk *k, const tar_header *h, stk_error *err)
{
    const uint8_t *data;

    STK_TRY(extension_data(k, h, TAR_NAME_MAX, &data, err));
    return extension_name(&k->ext, (const char *)data, strnlen((const char *)data, (size_t)h->size),
                          err);
}

static int take_extension(walk *k, const tar_header *h, uint64_t *next, stk_error *err)
{
    STK_TRY(check_range(k, h->name, h->size, next, err));
    if (h->type != 'g' && k->ext.start == STK_NO_OFFSET)
        k->ext.start = k->at;
    if (h->type == 'L')
        return take_long_name(k, h, err);
    return h->type == 'K' ? 0 : take_pax(k, h, err);
}

/* Is this a member of the sample that is being put together? */
static int of_group(const stk_group *g, const stk_member *m)
{
    size_t key_len, ext;

    return g->open && stk_wds_split(m->name, m->name_len, &key_len, &ext) &&
           key_len == g->key.len && !memcmp(m->name, g->key.s, key_len);
}

static int take_member(walk *k, const tar_header *h, uint64_t *next, stk_error *err)
{
    const char *name = k->ext.has_name ? k->ext.name.s : h->name;
    stk_member m = { .name = name,
                     .name_len = k->ext.has_name ? k->ext.name.len : h->name_len,
                     .start = k->ext.start == STK_NO_OFFSET ? k->at : k->ext.start,
                     .at = k->at,
                     .data = k->at + TAR_BLOCK,
                     .size = h->size };
    int rc;

    if (h->type == 'S' || k->ext.sparse)
        return refuse_sparse(name, err);
    if (stk_tar_has_data(h->type)) {
        if (k->ext.has_size)
            m.size = k->ext.size;
        else if (k->global_sized && k->global_size != m.size)
            return stk_fail(err, STK_ENOTSUP,
                            "a global pax header gives member \"%.80s\" %" PRIu64
                            " bytes, its own header %" PRIu64,
                            name, k->global_size, m.size);
    }
    rc = check_range(k, name, m.size, next, err);
    k->torn = rc == 0 ? NOT_KNOWN : of_group(&k->group, &m) ? IN_SAMPLE : AFTER_SAMPLE;
    STK_TRY(rc);
    if (h->type == '0' || h->type == '7' || !h->type)
        STK_TRY(stk_group_add(&k->group, &m, err));
    k->ext.start = STK_NO_OFFSET;
    k->ext.has_name = k->ext.has_size = k->ext.sparse = 0;
    return 0;
}

/* A zero block: STK_END when the archive ends here.  One alone is enough at the end of the file. */
static int take_zero(walk *k, stk_error *err)
{
    const uint8_t *block;

    k->ended = 1;
    if (k->w.size - k->at < 2 * TAR_BLOCK)
        return STK_END;
    STK_TRY(window_get(&k->w, k->at + TAR_BLOCK, TAR_BLOCK, &block, err));
    if (stk_tar_is_zero(block))
        return STK_END;
    return stk_fail(
        err, STK_ECORRUPT,
        "one block of zeros, then more data: a damaged shard, or tar files strung together");
}

/* One header.  0, STK_END, or an error. */
static int step(walk *k, stk_error *err)
{
    const uint8_t *block;
    uint64_t left = k->w.size - k->at, next = 0;
    tar_header h;
    int rc;

    if (left && left < TAR_BLOCK)
        return stk_fail(err, STK_ECORRUPT,
                        "the shard ends inside a header, after %" PRIu64 " of 512 bytes: cut short",
                        left);
    rc = left ? window_get(&k->w, k->at, TAR_BLOCK, &block, err) : STK_END;
    if (rc == 0 && stk_tar_is_zero(block))
        rc = take_zero(k, err);
    if (rc == STK_END && k->ext.start != STK_NO_OFFSET)
        return stk_fail(err, STK_ECORRUPT,
                        "the shard ends between an extension header and its member: cut short");
    if (rc)
        return rc;
    STK_TRY(stk_tar_header_parse(block, &h, err));
    if (h.type && strchr("xXgLK", h.type))
        STK_TRY(take_extension(k, &h, &next, err));
    else
        STK_TRY(take_member(k, &h, &next, err));
    k->at = next;
    return 0;
}

static int tell(walk *k, uint64_t offset, stk_error *err)
{
    int rc;

    k->told = offset;
    rc = k->scan->progress ? k->scan->progress(k->scan, offset) : 0;
    return rc ? stk_fail(err, rc < 0 ? rc : STK_ECLOSED, "indexing was stopped") : 0;
}

/* The file ends where a header could follow. */
static int take_no_end(walk *k, stk_error *err)
{
    stk_scan *scan = k->scan;

    if (!k->w.size)
        return stk_fail(err, STK_ECORRUPT,
                        "the shard is empty, it has 0 bytes: copy or write it again, or remove it");
    if (stk_group_is_cut(&k->group))
        return stk_fail(err, STK_ECORRUPT,
                        "the shard ends inside sample \"%.60s\": it has only %u of the fields that "
                        "all samples before it have, and no end mark follows: cut short",
                        k->group.key.s, k->group.n);
    if (scan->warn)
        scan->warn(scan, "the shard has no end mark (two blocks of zeros): it may be cut short "
                         "between two members; copy or write it again if samples are missing");
    return 0;
}

/* The shard is torn at k->at.  The sample before it counts if another one's member is torn, or if
 * it has the fields of those before it. */
static int take_before_tear(walk *k, stk_error *err)
{
    int whole = k->torn == AFTER_SAMPLE ||
                (k->torn == NOT_KNOWN && k->group.usual.len && !stk_group_is_cut(&k->group));
    char why[240];

    snprintf(why, sizeof why, "torn at byte %" PRIu64 ", the samples before that are taken: %.150s",
             k->at, err ? err->message : "damaged");
    if (whole)
        STK_TRY(stk_group_flush(&k->group, err));
    if (k->scan->warn)
        k->scan->warn(k->scan, why);
    return tell(k, k->w.size, err);
}

static int walk_all(walk *k, stk_error *err)
{
    int rc = 0;

    while (rc == 0) {
        if (k->at - k->told >= PROGRESS_STEP)
            STK_TRY(tell(k, k->at, err));
        rc = step(k, err);
    }
    if (rc == STK_END && !k->ended)
        rc = take_no_end(k, err);
    if (rc == STK_ECORRUPT && k->scan->salvage)
        return take_before_tear(k, err);
    if (rc < 0) {
        stk_error_at(err, NULL, k->at, (stk_bytes){ 0 });
        return rc;
    }
    STK_TRY(stk_group_flush(&k->group, err));
    return tell(k, k->w.size, err);
}

/* ---- the format ---- */

/* What compressed the file, or NULL. */
static const char *compression(stk_bytes head, const char **remedy)
{
    static const struct {
        const char *magic, *name, *remedy;
    } known[] = {
        { "\x1f\x8b", "gzip", "gunzip" },       { "BZh", "bzip2", "bunzip2" },
        { "\xfd\x37zXZ", "xz", "unxz" },        { "\x28\xb5\x2f\xfd", "zstd", "unzstd" },
        { "\x04\x22\x4d\x18", "lz4", "unlz4" },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t len = strlen(known[i].magic);

        if (head.len >= len && !memcmp(head.data, known[i].magic, len)) {
            *remedy = known[i].remedy;
            return known[i].name;
        }
    }
    return NULL;
}

/* A member's name can begin like a magic number, so a sound header comes first. */
static int refuse_compressed(window *w, stk_error *err)
{
    size_t len = w->size < TAR_BLOCK ? (size_t)w->size : TAR_BLOCK;
    const char *name, *remedy = NULL;
    const uint8_t *head = NULL;

    if (!len)
        return 0;
    STK_TRY(window_get(w, 0, len, &head, err));
    if (len == TAR_BLOCK && stk_tar_checksum_ok(head))
        return 0;
    name = compression((stk_bytes){ head, len }, &remedy);
    if (!name)
        return 0;
    return stk_fail(err, STK_ENOTSUP,
                    "is %s-compressed; Stoker needs plain tar for random access: %s it", name,
                    remedy);
}

static int tar_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    walk *k = STK_NEW(walk);
    int rc;

    if (!k)
        return stk_fail_nomem(err, sizeof *k);
    k->w = (window){ .file = f, .size = size, .ahead = WINDOW_MIN };
    k->scan = k->group.scan = scan;
    k->ext.start = STK_NO_OFFSET;
    rc = refuse_compressed(&k->w, err);
    if (rc == 0)
        rc = walk_all(k, err);
    stk_free(k->w.data);
    stk_free(k->ext.name.s);
    stk_group_fini(&k->group);
    stk_free(k);
    return rc;
}

static int name_ends(const char *name, const char *suffix)
{
    size_t n = strlen(name), s = strlen(suffix);

    return n >= s && !strcasecmp(name + n - s, suffix);
}

/* A name that says tar is believed to a degree even when the bytes don't: index() then says what
 * is wrong with them. */
static int tar_probe(const char *name, stk_bytes head)
{
    int named = name &&
                (name_ends(name, ".tar") || name_ends(name, ".tgz") || name_ends(name, ".tar.gz"));

    if (head.len >= TAR_BLOCK && stk_tar_checksum_ok(head.data) && !stk_tar_is_zero(head.data))
        return memcmp(head.data + 257, "ustar", 5) ? 80 + 20 * named : 100;
    if (head.len >= TAR_BLOCK && !memcmp(head.data + 257, "ustar", 5))
        return 70 + 20 * named;
    return named ? 50 : 0;
}

const stk_format stk_format_tar = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_format),
    .name = "tar",
    .help = "WebDataset shards: members KEY.FIELD, a sample's members side by side",
    .suffixes = ".tar .tgz .tar.gz",
    .probe = tar_probe,
    .index = tar_index,
};
