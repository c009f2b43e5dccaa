/* SPDX-License-Identifier: Apache-2.0 */
/* litdata.c - LitData's index.json as that of shards: a chunk is u32 items | u32 places | items,
 * and an item is a u32 size for each leaf of the sample, then the leaves.  So a chunk is read as an
 * MDS shard whose columns all have sizes. */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "format/index_json.h"
#include "format/mds.h"
#include "format/parquet/parquet.h"

#define MAX_COLUMNS 4096u
#define MAX_CHUNKS 10000000u
#define MAX_DEPTH 16

/* ---- columns ---- */

/* Values without a head, by LitData's number of their type. */
static stk_dtype numpy_type(int n)
{
    static const stk_dtype known[] = { STK_I8,  STK_I16, STK_I32, STK_I64, STK_U8, STK_U16,
                                       STK_U32, 0,       STK_F16, STK_F32, STK_F64 };

    return n >= 0 && n < (int)(sizeof known / sizeof *known) ? known[n] : 0;
}

static stk_dtype torch_type(int n)
{
    static const stk_dtype known[] = {
        STK_F32, STK_F32, STK_F64, STK_F64, 0,       0,       0,       0,       STK_F16, STK_F16, 0,
        STK_U8,  STK_I8,  STK_I16, STK_I16, STK_I32, STK_I32, STK_I64, STK_I64, STK_U8,  STK_U16
    };

    return n >= 0 && n < (int)(sizeof known / sizeof *known) ? known[n] : 0;
}

static int number_after(const char *text)
{
    const char *p = strchr(text, ':');
    int n = 0;

    if (!p || !p[1])
        return -1;
    for (p++; *p >= '0' && *p <= '9' && n < 1000; p++)
        n = 10 * n + *p - '0';
    return *p ? -1 : n;
}

static void set_format(stk_mds_column *c, const char *text)
{
    stk_dtype list = !strncmp(text, "no_header_numpy:", 16)    ? numpy_type(number_after(text))
                     : !strncmp(text, "no_header_tensor:", 17) ? torch_type(number_after(text))
                                                               : 0;

    if (list) {
        *c = (stk_mds_column){
            .name = c->name, .size = -1, .dtype = list, .ndim = 1, .shape = { -1 }, .bare = 1
        };
        return;
    }
    c->dtype = !strcmp(text, "int")     ? STK_I64
               : !strcmp(text, "float") ? STK_F64
               : !strcmp(text, "bool")  ? STK_U8
                                        : 0;
    c->exact = c->dtype ? (uint32_t)stk_dtype_size(c->dtype) : 0;
}

static int add_leaf(stk_mds_index *x, const char *name, stk_error *err)
{
    stk_mds_column *grown = stk_grow(x->column, x->n_columns * sizeof *grown,
                                     (x->n_columns + 1) * sizeof *grown);

    if (!grown)
        return stk_fail_nomem(err, sizeof *grown);
    x->column = grown;
    if (x->n_columns == MAX_COLUMNS)
        return stk_fail(err, STK_ELIMIT, "index.json: more than %u leaves", MAX_COLUMNS);
    grown[x->n_columns] = (stk_mds_column){ .name = stk_strdup(name), .size = -1 };
    return grown[x->n_columns++].name ? 0 : stk_fail_nomem(err, strlen(name));
}

static int add_node(stk_mds_index *x, stk_bytes spec, const char *name, uint32_t depth,
                    stk_error *err);

/* Child number i of a node: by its key, where the node is a dictionary. */
static int add_child(stk_mds_index *x, stk_bytes spec, const char *up, const char *key,
                     uint32_t depth, stk_error *err)
{
    stk_text name = { 0 };
    int rc = stk_text_put(&name, up, strlen(up), err);

    if (rc == 0 && *up)
        rc = stk_text_put(&name, ".", 1, err);
    if (rc == 0)
        rc = stk_text_put(&name, key, strlen(key), err);
    if (rc == 0)
        rc = add_node(x, spec, name.s, depth + 1, err);
    stk_free(name.s);
    return rc;
}

/* Keys of a dictionary are a JSON list in a text. */
static int add_children(stk_mds_index *x, stk_bytes children, const char *context, const char *up,
                        uint32_t depth, stk_error *err)
{
    stk_bytes keys = { (const uint8_t *)(context ? context : "[]"), context ? strlen(context) : 2 },
              one, child;
    int rc = stk_doc_list(&children, err);

    if (rc == 0)
        rc = stk_doc_list(&keys, err);
    for (uint32_t i = 0; rc == 0 && stk_doc_element(&children, &child); i++) {
        char number[16], *key = NULL;
        size_t at = sizeof number - 1;

        number[at] = 0;
        for (uint32_t n = i; at && (n || at == sizeof number - 1); n /= 10)
            number[--at] = (char)('0' + n % 10);
        if (stk_doc_element(&keys, &one) && one.len && one.data[0] == '"')
            rc = stk_doc_text(one, &key, err);
        if (rc == 0)
            rc = add_child(x, child, up, key ? key : number + at, depth, err);
        stk_free(key);
    }
    return rc;
}

/* {"type": null} is a leaf. */
static int add_node(stk_mds_index *x, stk_bytes spec, const char *name, uint32_t depth,
                    stk_error *err)
{
    stk_bytes type = { 0 }, context = { 0 }, children = { 0 };
    char *keys = NULL;
    int rc;

    if (depth > MAX_DEPTH)
        return stk_fail(err, STK_ELIMIT, "index.json: samples more than %d deep", MAX_DEPTH);
    STK_TRY(stk_json_find(spec, "type", &type, err));
    if (stk_doc_is(type, "null"))
        return add_leaf(x, *name ? name : "value", err);
    STK_TRY(stk_json_find(spec, "context", &context, err));
    STK_TRY(stk_json_find(spec, "children_spec", &children, err));
    if (stk_doc_is(type, "\"builtins.dict\""))
        STK_TRY(stk_doc_text(context, &keys, err));
    rc = add_children(x, children, keys, name, depth, err);
    stk_free(keys);
    return rc;
}

/* "[1, {...}]": how a sample is made of leaves; then what each leaf is. */
static int read_columns(stk_mds_index *x, stk_bytes config, stk_error *err)
{
    stk_bytes spec = { 0 }, list, node, one;
    char *text = NULL, *format = NULL;
    uint32_t n = 0;
    int rc;

    STK_TRY(stk_json_find(config, "data_spec", &spec, err));
    STK_TRY(stk_json_find(config, "data_format", &list, err));
    rc = stk_doc_text(spec, &text, err);
    if (rc == 0)
        rc = stk_json_find((stk_bytes){ (const uint8_t *)text, strlen(text) }, "1", &node, err);
    if (rc == 0)
        rc = add_node(x, node, "", 0, err);
    if (rc == 0)
        rc = stk_doc_list(&list, err);
    while (rc == 0 && stk_doc_element(&list, &one)) {
        rc = n < x->n_columns ? stk_doc_text(one, &format, err)
                              : stk_fail(err, STK_ECORRUPT, "index.json: more formats than leaves");
        if (rc == 0)
            set_format(&x->column[n++], format);
    }
    if (rc == 0 && (n != x->n_columns || !n))
        rc = stk_fail(err, STK_ECORRUPT, "index.json: %u leaves and %u formats", x->n_columns, n);
    stk_free(text);
    stk_free(format);
    return rc;
}

/* ---- chunks ---- */

static int is_set(stk_bytes config, const char *name)
{
    stk_bytes v;
    stk_error none;

    return stk_json_find(config, name, &v, &none) == 0 && !stk_doc_is(v, "null");
}

/* compression_level="batch", the default of zstd in version 0.2.76. */
static int read_frames(stk_mds_index *x, stk_bytes config, stk_error *err)
{
    stk_bytes level, rows;
    stk_error none;
    uint64_t n = 0;

    if (!is_set(config, "compression_level") ||
        stk_json_find(config, "compression_level", &level, &none) < 0 ||
        stk_doc_is(level, "\"chunk\""))
        return 0;
    if (!stk_doc_is(level, "\"batch\""))
        return stk_fail(err, STK_ENOTSUP,
                        "its samples are packed one by one: write them with "
                        "compression_level=\"batch\" or \"chunk\"");
    STK_TRY(stk_json_find(config, "compression_batch_size", &rows, err));
    STK_TRY(stk_doc_number(rows, UINT32_MAX, &n, err));
    x->frame_rows = (uint32_t)n;
    return n ? 0 : stk_fail(err, STK_ECORRUPT, "index.json: frames without samples");
}

static int check_config(stk_bytes config, stk_error *err)
{
    stk_bytes loader;
    stk_error none;

    if (is_set(config, "encryption"))
        return stk_fail(err, STK_ENOTSUP, "its chunks are encrypted: write them without");
    if (is_set(config, "ipc_compression"))
        return stk_fail(
            err, STK_ENOTSUP,
            "its chunks have packed Arrow batches: write them with compression_level=\"chunk\", or "
            "without compression");
    if (stk_json_find(config, "item_loader", &loader, &none) == 0 &&
        !stk_doc_is(loader, "\"PyTreeLoader\"") && !stk_doc_is(loader, "null"))
        return stk_fail(
            err, STK_ENOTSUP,
            "its chunks are for %.*s and hold no samples of their own: pack them as token files",
            (int)(loader.len < 40 ? loader.len : 40), (const char *)loader.data);
    return 0;
}

static int add_chunk(stk_mds_index *x, stk_bytes text, int packed, stk_error *err)
{
    stk_bytes name, bytes, items;
    uint64_t n = 0;
    stk_mds_shard *s;

    if (!(x->n & (x->n - 1))) { /* a power of two: full */
        size_t room = (x->n ? 2 * x->n : 1) * sizeof *s;

        s = stk_grow(x->shard, x->n * sizeof *s, room);
        if (!s || x->n >= MAX_CHUNKS)
            return stk_fail_nomem(err, room);
        x->shard = s;
    }
    s = &x->shard[x->n++];
    *s = (stk_mds_shard){ .codec = STK_PQ_ZSTD };
    STK_TRY(stk_json_find(text, "filename", &name, err));
    STK_TRY(stk_json_find(text, "chunk_bytes", &bytes, err));
    STK_TRY(stk_json_find(text, "chunk_size", &items, err));
    STK_TRY(stk_doc_text(name, &s->raw, err));
    STK_TRY(stk_doc_name(s->raw, err));
    STK_TRY(stk_doc_number(bytes, UINT32_MAX, &s->raw_bytes, err));
    STK_TRY(stk_doc_number(items, UINT32_MAX - 1, &n, err));
    s->samples = (uint32_t)n;
    if (packed && strstr(s->raw, ".zstd")) {
        s->zip = stk_strdup(s->raw);
        return s->zip ? 0 : stk_fail_nomem(err, strlen(s->raw));
    }
    return 0;
}

int stk_litdata_index_read(stk_mds_index *out, stk_bytes json, stk_error *err)
{
    stk_bytes list, config = { 0 }, one;
    int rc, packed = 0;

    *out = (stk_mds_index){ .litdata = 1 };
    rc = stk_json_find(json, "chunks", &list, err);
    if (rc == 0)
        rc = stk_json_find(json, "config", &config, err);
    if (rc == 0)
        rc = check_config(config, err);
    if (rc == 0)
        rc = read_frames(out, config, err);
    if (rc == 0)
        rc = read_columns(out, config, err);
    if (rc == 0) {
        packed = is_set(config, "compression");
        rc = stk_doc_list(&list, err);
    }
    while (rc == 0 && stk_doc_element(&list, &one))
        rc = add_chunk(out, one, packed, err);
    if (rc == 0 && !out->n)
        rc = stk_fail(err, STK_ECORRUPT, "index.json: it names no chunks");
    if (rc < 0)
        stk_mds_index_fini(out);
    return rc;
}

/* ---- frames: magic | u16 version | u16 flags | u32 samples | u32 rows of a frame | u32 frames |
 * u32 places of each sample and of the end, in what is packed | by frame: u32 first, u32 samples,
 * u64 offset, u32 bytes, u32 bytes unpacked ---- */

#define FRAMES_PREFIX 24u
#define FRAME_ENTRY 24u

static uint32_t word(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t place_at(stk_bytes head, uint32_t i)
{
    return word(head.data + FRAMES_PREFIX + 4 * (size_t)i);
}

static uint32_t frames_of(uint32_t samples, uint32_t rows)
{
    return samples / rows + (samples % rows != 0);
}

uint64_t stk_litdata_head(uint32_t samples, uint32_t frame_rows)
{
    return FRAMES_PREFIX + 4 * ((uint64_t)samples + 1) +
           FRAME_ENTRY * (uint64_t)frames_of(samples, frame_rows);
}

int stk_litdata_frame_of(const stk_litdata_chunk *c, uint32_t i, stk_litdata_frame *out,
                         stk_error *err)
{
    static const uint8_t magic[12] = "LDFZ01\0\0\1\0";
    stk_bytes head = c->head;
    uint32_t rows = c->frame_rows, number = i / rows, left = c->samples - number * rows;
    const uint8_t *e = head.data + FRAMES_PREFIX + 4 * ((size_t)c->samples + 1) +
                       FRAME_ENTRY * (size_t)number;

    if (head.len < stk_litdata_head(c->samples, rows) || memcmp(head.data, magic, 10) != 0)
        return stk_fail(err, STK_ECORRUPT, "the chunk is not packed in frames as index.json says");
    if (word(head.data + 12) != c->samples || word(head.data + 16) != rows ||
        word(head.data + 20) != frames_of(c->samples, rows))
        return stk_fail(err, STK_ECORRUPT,
                        "the chunk has not the %u samples in frames of %u that index.json says",
                        c->samples, rows);
    *out = (stk_litdata_frame){ number, number * rows, left < rows ? left : rows,
                                0,      word(e + 16),  word(e + 20) };
    memcpy(&out->offset, e + 8, 8);
    if (word(e) != out->first || word(e + 4) != out->n || out->offset < head.len ||
        out->offset > c->size || out->len > c->size - out->offset ||
        place_at(head, out->first + out->n) - place_at(head, out->first) != out->unpacked)
        return stk_fail(err, STK_ECORRUPT, "frame %u of the chunk is damaged", number);
    return 0;
}

int stk_litdata_in_frame(stk_bytes head, const stk_litdata_frame *f, uint32_t i, uint64_t *at,
                         uint64_t *len, stk_error *err)
{
    uint32_t base = place_at(head, f->first), from = place_at(head, i), end = place_at(head, i + 1);

    if (from < base || end < from || end - base > f->unpacked)
        return stk_fail(err, STK_ECORRUPT, "sample %u of the chunk is outside its frame", i);
    *at = from - base;
    *len = end - from;
    return 0;
}
