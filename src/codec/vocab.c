/* SPDX-License-Identifier: Apache-2.0 */
/* vocab - a text label to the number of its line in a file of names, counted from 0.
 *
 * The file is read once, when the chain is planned, through whatever source its name says.  A
 * name is a line without the white space around it; a label is looked up the same way.  Names
 * must differ: the number of a name that stands twice would depend on who looks. */
#include "codec/codec.h"
#include "base/json.h"

#include <string.h>

#include "base/hash.h"
#include "base/registry.h"
#include "source/source.h"

#define MAX_FILE ((uint64_t)256 << 20)

struct vocab {
    char *path;
    uint8_t *text; /* the file */
    stk_bytes *name;
    uint32_t *slot; /* open addressing: number + 1, 0 where free */
    uint32_t n, mask;
};

static stk_bytes trimmed(const uint8_t *p, size_t len)
{
    while (len && (*p == ' ' || (*p >= '\t' && *p <= '\r')))
        p++, len--;
    while (len && (p[len - 1] == ' ' || (p[len - 1] >= '\t' && p[len - 1] <= '\r')))
        len--;
    return (stk_bytes){ p, len };
}

/* The slot that holds `s`, or the free one where it belongs. */
static uint32_t *find(const struct vocab *v, stk_bytes s)
{
    uint32_t at = (uint32_t)stk_hash64(0, s.data, s.len) & v->mask;

    for (; v->slot[at]; at = (at + 1) & v->mask) {
        const stk_bytes *have = &v->name[v->slot[at] - 1];

        if (have->len == s.len && !memcmp(have->data, s.data, s.len))
            break;
    }
    return &v->slot[at];
}

static int read_all(struct vocab *v, stk_file *f, size_t *len, stk_error *err)
{
    stk_file_info info;

    STK_TRY(stk_file_stat(f, &info, err));
    if (info.size > MAX_FILE)
        return stk_fail(err, STK_ELIMIT, "vocab: %s has %" PRIu64 " bytes, at most %" PRIu64,
                        v->path, info.size, MAX_FILE);
    v->text = stk_alloc((size_t)info.size + 1);
    if (!v->text)
        return stk_fail_nomem(err, (size_t)info.size);
    *len = (size_t)info.size;
    return stk_file_read(f, 0, v->text, *len, err);
}

static int read_file(struct vocab *v, size_t *len, stk_error *err)
{
    const stk_source *source = stk_registry_source(v->path);
    stk_file *f = NULL;
    int rc;

    if (!source)
        return stk_fail(err, STK_EINVAL, "vocab: no source knows %s", v->path);
    STK_TRY(stk_source_open(source, STK_URL(v->path, NULL), &f, err));
    rc = read_all(v, f, len, err);
    stk_file_close(&f);
    return rc;
}

static size_t count_lines(const uint8_t *p, size_t len)
{
    size_t n = len && p[len - 1] != '\n';

    for (size_t i = 0; i < len; i++)
        n += p[i] == '\n';
    return n;
}

static int add_names(struct vocab *v, size_t len, stk_error *err)
{
    const uint8_t *at = v->text, *end = v->text + len;
    char shown[STK_SHOWN_MAX];

    for (; at < end; v->n++) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        uint32_t *slot;
        stk_bytes s;

        stop = stop ? stop : end;
        s = trimmed(at, (size_t)(stop - at));
        if (!s.len)
            return stk_fail(err, STK_EINVAL, "vocab: line %u of %s is empty", v->n + 1, v->path);
        slot = find(v, s);
        if (*slot)
            return stk_fail(err, STK_EINVAL, "vocab: %s stands twice in %s, on lines %u and %u",
                            stk_shown(s, shown), v->path, *slot, v->n + 1);
        *slot = v->n + 1;
        v->name[v->n] = s;
        at = stop + 1;
    }
    return v->n ? 0 : stk_fail(err, STK_EINVAL, "vocab: %s names nothing", v->path);
}

static int vocab_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct vocab *v = state;
    size_t len = 0, lines, slots = 16;

    if (spec->kind != STK_KIND_BYTES || spec->out == STK_OUT_JSON)
        return stk_fail(err, STK_EINVAL,
                        "vocab reads a text label: put it first, or after json(...) | text");
    v->path = stk_strdup(stk_args_str(args, "file"));
    if (!v->path)
        return stk_fail_nomem(err, 64);
    STK_TRY(read_file(v, &len, err));
    lines = count_lines(v->text, len);
    while (slots < 2 * lines)
        slots *= 2;
    v->mask = (uint32_t)(slots - 1);
    v->name = stk_zalloc(lines + 1, sizeof *v->name);
    v->slot = stk_zalloc(slots, sizeof *v->slot);
    if (!v->name || !v->slot)
        return stk_fail_nomem(err, lines * sizeof *v->name);
    STK_TRY(add_names(v, len, err));
    *spec = (stk_spec){ .kind = STK_KIND_VALUE, .out = STK_OUT_DENSE, .dtype = STK_I64 };
    return 0;
}

static int vocab_parse(const void *state, const stk_codec_work *work, stk_bytes in, void *dst,
                       stk_error *err)
{
    const struct vocab *v = state;
    char shown[STK_SHOWN_MAX];
    stk_bytes s = trimmed(in.data, in.len);
    uint32_t number = s.len ? *find(v, s) : 0;
    int64_t out = (int64_t)number - 1;

    if (!number)
        return stk_fail(err, STK_ECORRUPT, "vocab: %s is none of the %u names in %s",
                        stk_shown(s, shown), v->n, v->path);
    memcpy(dst, &out, sizeof out);
    return 0;
}

static void vocab_fini(void *state)
{
    struct vocab *v = state;

    stk_free(v->path);
    stk_free(v->text);
    stk_free(v->name);
    stk_free(v->slot);
}

static const stk_arg vocab_args[] = {
    { "file", STK_ARG_NAME, NULL, "one name a line, quoted: 'names.txt'" },
    { 0 },
};

const stk_codec stk_codec_vocab = { .abi = STK_PLUGIN_ABI,
                                    .size = sizeof(stk_codec),
                                    .name = "vocab",
                                    .help = "a text label as its line's number in a file, i64",
                                    .args = vocab_args,
                                    .state_size = sizeof(struct vocab),
                                    .plan = vocab_plan,
                                    .parse = vocab_parse,
                                    .fini = vocab_fini };
