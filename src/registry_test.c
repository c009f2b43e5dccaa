/* SPDX-License-Identifier: Apache-2.0 */
/* registry_test.c - lists without a width, tables of other sizes, registries with a parent, flags
 * that a stranger may not set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/registry.h"
#include "base/table.h"
#include "codec/decoders.h"
#include "source/source.h"

enum { MANY = 200 };

static char names[MANY][16];

static const char *name_of(int i)
{
    snprintf(names[i], sizeof names[i], "step_%d", i);
    return names[i];
}

static int plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state, (void)args, (void)spec, (void)err;
    return 0;
}

static stk_op op_of(const char *name)
{
    return (stk_op){ .abi = STK_PLUGIN_ABI, .size = sizeof(stk_op), .name = name, .plan = plan };
}

static stk_codec codec_of(const char *name)
{
    return (
        stk_codec){ .abi = STK_PLUGIN_ABI, .size = sizeof(stk_codec), .name = name, .plan = plan };
}

static void ok(int rc, const stk_error *err)
{
    if (rc)
        fail_msg("%s", err->message);
}

static void refuses(int rc, const stk_error *err, const char *says)
{
    assert_int_equal(rc, STK_EINVAL);
    assert_string_equal(err->message, says);
}

/* Far more than any list had room for; numbers stay, names are found, the end is the end. */
static void lists_grow(void **state)
{
    size_t first = stk_registry_count(NULL, STK_PLUGIN_OP);
    stk_error err;

    (void)state;
    for (int i = 0; i < MANY; i++) {
        stk_op op = op_of(name_of(i));
        const void *before = i ? stk_registry_find(NULL, STK_PLUGIN_OP, names[0]) : NULL;

        ok(stk_plugin_add(STK_PLUGIN_OP, &op, &err), &err);
        memset(&op, 0xa5, sizeof op); /* it was copied */
        if (i)
            assert_ptr_equal(before, stk_registry_find(NULL, STK_PLUGIN_OP, names[0]));
    }
    assert_int_equal(stk_registry_count(NULL, STK_PLUGIN_OP), first + MANY);
    for (int i = 0; i < MANY; i++) {
        const stk_op *op = stk_registry_get(NULL, STK_PLUGIN_OP, first + (size_t)i);

        assert_string_equal(op->name, names[i]);
        assert_ptr_equal(op->plan, plan);
        assert_ptr_equal(op, stk_registry_find(NULL, STK_PLUGIN_OP, names[i]));
    }
    assert_null(stk_registry_get(NULL, STK_PLUGIN_OP, first + MANY));
    assert_string_equal(stk_registry_nearest(NULL, STK_PLUGIN_OP, "stepp_199"), "step_199");
    assert_null(stk_registry_nearest(NULL, STK_PLUGIN_OP, "qqqqqqqqqqqqqqqqqq"));
}

/* A table that ends early has zeros; one that is longer must have them. */
static void sizes(void **state)
{
    struct {
        stk_codec codec;
        uint64_t later[4];
    } newer = { codec_of("newer"), { 0 } };
    stk_codec older = codec_of("older"), cut = codec_of("cut"), huge = codec_of("huge");
    const stk_codec *found;
    stk_error err;

    (void)state;
    older.size = offsetof(stk_codec, version);
    older.version = 77; /* beyond its end: not read */
    older.can = STK_CODEC_WINDOWS;
    ok(stk_plugin_add(STK_PLUGIN_CODEC, &older, &err), &err);
    found = stk_registry_find(NULL, STK_PLUGIN_CODEC, "older");
    assert_true(!found->version && !found->can && found->plan && found->size == sizeof *found);

    newer.codec.size = sizeof newer;
    newer.later[2] = 1;
    refuses(stk_plugin_add(STK_PLUGIN_CODEC, &newer, &err), &err,
            "codec newer sets fields that this library does not have: it was built for a newer "
            "one, update the library");
    newer.later[2] = 0;
    ok(stk_plugin_add(STK_PLUGIN_CODEC, &newer, &err), &err);

    cut.size = offsetof(stk_codec, plan);
    refuses(stk_plugin_add(STK_PLUGIN_CODEC, &cut, &err), &err, "codec cut has no plan()");
    cut.size = 4;
    refuses(stk_plugin_add(STK_PLUGIN_CODEC, &cut, &err), &err,
            "codec cut has size 4: set it to the sizeof of its struct");
    huge.size = UINT32_MAX;
    refuses(stk_plugin_add(STK_PLUGIN_CODEC, &huge, &err), &err,
            "codec huge has size 4294967295: set it to the sizeof of its struct");
    huge.abi = 1;
    refuses(stk_plugin_add(STK_PLUGIN_CODEC, &huge, &err), &err,
            "codec huge was built for ABI 1, this is 4: rebuild it");
}

static void draw(const void *state, stk_rng *rng, stk_view *view)
{
    (void)state, (void)rng, (void)view;
}

static void flags(void **state)
{
    static const char own[] = " sets a flag in `can` that only the library's own may set";
    stk_codec windows = codec_of("w"), opens = codec_of("o"), unpacks = codec_of("u");
    stk_op packs = op_of("p"), silent = op_of("s");
    char text[128];
    stk_error err;

    (void)state;
    windows.can = STK_CODEC_WINDOWS;
    opens.can = STK_CODEC_OPENS;
    packs.can = STK_OP_PACKS;
    unpacks.can = STK_CODEC_UNPACKS;
    silent.draw = draw;
    snprintf(text, sizeof text, "codec w%s", own);
    refuses(stk_plugin_add(STK_PLUGIN_CODEC, &windows, &err), &err, text);
    snprintf(text, sizeof text, "codec o%s", own);
    refuses(stk_plugin_add(STK_PLUGIN_CODEC, &opens, &err), &err, text);
    snprintf(text, sizeof text, "op p%s", own);
    refuses(stk_plugin_add(STK_PLUGIN_OP, &packs, &err), &err, text);
    refuses(stk_plugin_add(STK_PLUGIN_CODEC, &unpacks, &err), &err,
            "codec u unpacks: it needs extract() and a suffix, and has no state");
    refuses(stk_plugin_add(STK_PLUGIN_OP, &silent, &err), &err,
            "op s: draw() and STK_OP_VIEW in `can` go together");
}

/* A child has its parent's as they were when it was opened, and its own after them. */
static void children(void **state)
{
    stk_op mine = op_of("mine"), late = op_of("late"), deep = op_of("deep");
    stk_source source = { .abi = STK_PLUGIN_ABI, .size = sizeof source, .name = "s" };
    stk_registry *child = NULL, *grandchild = NULL, *kept;
    size_t n = stk_registry_count(NULL, STK_PLUGIN_OP);
    stk_error err;

    (void)state;
    ok(stk_registry_open(&child, NULL, &err), &err);
    refuses(stk_registry_add(NULL, STK_PLUGIN_OP, &mine, &err), &err,
            "stk_registry_add() needs a registry: open one with stk_registry_open(), or add the "
            "plug-in for all loaders with stk_plugin_add()");
    assert_int_equal(stk_registry_add(NULL, STK_PLUGIN_SOURCE, NULL, NULL), STK_EINVAL);
    ok(stk_registry_add(child, STK_PLUGIN_OP, &mine, &err), &err);
    ok(stk_plugin_add(STK_PLUGIN_OP, &late, &err), &err);
    assert_int_equal(stk_registry_count(child, STK_PLUGIN_OP), n + 1);
    assert_string_equal(((const stk_op *)stk_registry_get(child, STK_PLUGIN_OP, n))->name, "mine");
    assert_null(stk_registry_find(NULL, STK_PLUGIN_OP, "mine"));
    assert_null(stk_registry_find(child, STK_PLUGIN_OP, "late"));
    assert_non_null(stk_registry_find(child, STK_PLUGIN_OP, "hflip"));
    refuses(stk_registry_add(child, STK_PLUGIN_OP, &mine, &err), &err,
            "a plug-in called mine is there already");
    refuses(stk_registry_add(child, STK_PLUGIN_SOURCE, &source, &err), &err,
            "source s is for data sets, which know no registry of a loader: use stk_plugin_add()");

    ok(stk_registry_open(&grandchild, child, &err), &err);
    ok(stk_registry_add(grandchild, STK_PLUGIN_OP, &deep, &err), &err);
    kept = stk_registry_ref(grandchild);
    stk_registry_close(&child);
    stk_registry_close(&grandchild);
    assert_null(grandchild);
    for (size_t i = 0; i < n; i++) /* alive by its reference, with its parents */
        assert_ptr_equal(stk_registry_get(kept, STK_PLUGIN_OP, i),
                         stk_registry_get(NULL, STK_PLUGIN_OP, i));
    assert_string_equal(((const stk_op *)stk_registry_get(kept, STK_PLUGIN_OP, n))->name, "mine");
    assert_string_equal(((const stk_op *)stk_registry_get(kept, STK_PLUGIN_OP, n + 1))->name,
                        "deep");
    assert_null(stk_registry_get(kept, STK_PLUGIN_OP, n + 2));
    stk_registry_seal(kept);
    refuses(stk_registry_add(kept, STK_PLUGIN_OP, &late, &err), &err,
            "a chain was planned with this registry: add late before that");
    stk_registry_close(&kept);
}

/* ---- decoders: the 40th is found ---- */

static int probe_40(stk_bytes head)
{
    return head.len == 1 && head.data[0] == 40;
}

static int probe_none(stk_bytes head)
{
    (void)head;
    return 0;
}

static int opened;

static int ctx_open(void **ctx, stk_error *err)
{
    (void)err;
    opened++;
    *ctx = &opened;
    return 0;
}

static void ctx_close(void *ctx)
{
    assert_ptr_equal(ctx, &opened);
    opened--;
}

static int header(void *ctx, stk_bytes in, const stk_media_points *p, stk_media_info *out,
                  stk_error *err)
{
    (void)ctx, (void)in, (void)p, (void)out;
    return stk_fail(err, STK_ECORRUPT, "no picture");
}

static int decode(void *ctx, const stk_media_job *job, stk_error *err)
{
    (void)ctx, (void)job;
    return stk_fail(err, STK_ECORRUPT, "no picture");
}

static void many_decoders(void **state)
{
    stk_decoder d = { .abi = STK_PLUGIN_ABI,
                      .size = sizeof d,
                      .open = ctx_open,
                      .header = header,
                      .decode = decode,
                      .close = ctx_close };
    const uint8_t forty = 40;
    const stk_decoder *found = NULL;
    stk_registry *r = NULL;
    stk_decoders set;
    stk_error err;
    void *ctx;

    (void)state;
    ok(stk_registry_open(&r, NULL, &err), &err);
    for (int i = 0; i <= 40; i++) {
        d.name = name_of(i);
        d.probe = i == 40 ? probe_40 : probe_none;
        ok(stk_registry_add(r, STK_PLUGIN_DECODER, &d, &err), &err);
    }
    ok(stk_decoders_init(&set, r, &err), &err);
    assert_int_equal(stk_decoders_find(&set, (stk_bytes){ &forty, 1 }, &found, &ctx, &err), 0);
    assert_string_equal(found->name, "step_40");
    assert_int_equal(stk_decoders_find(&set, (stk_bytes){ &forty, 0 }, &found, &ctx, &err),
                     STK_END);
    assert_int_equal(opened, 1);
    stk_decoders_fini(&set);
    assert_int_equal(opened, 0);
    stk_registry_close(&r);
}

static int know(const stk_media_points *p, uint32_t track, stk_media_info *out, stk_error *err)
{
    (void)p, (void)track, (void)out;
    return stk_fail(err, STK_ECORRUPT, "no points");
}

static int points(void *ctx, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                  stk_error *err)
{
    (void)ctx, (void)read, (void)scratch, (void)out;
    return stk_fail(err, STK_ECORRUPT, "no points");
}

static int start(const stk_media_points *p, uint32_t track, void **session, stk_error *err)
{
    (void)p, (void)track, (void)err;
    *session = NULL;
    return 0;
}

static void refuses_decoder(stk_registry *r, const stk_decoder *d, const char *says)
{
    stk_error err;

    refuses(stk_registry_add(r, STK_PLUGIN_DECODER, d, &err), &err, says);
}

/* Points are known by one byte: it is one decoder's, and not what the index means otherwise. */
static void tags_of_decoders(void **state)
{
    static const char tag[] = "decoder d: the tag of its points is a printable character other "
                              "than B, which marks short fields";
    static const char needs[] = "decoder d has points(), ranges() or a tag: it needs know() too, "
                                "without which points are not used";
    stk_decoder d = { .abi = STK_PLUGIN_ABI,
                      .size = sizeof d,
                      .name = "d",
                      .probe = probe_none,
                      .open = ctx_open,
                      .header = header,
                      .decode = decode,
                      .close = ctx_close,
                      .points = points };
    stk_registry *r = NULL, *child = NULL;
    const stk_decoder *found;
    stk_decoders set;
    stk_error err;
    void *ctx;

    (void)state;
    ok(stk_registry_open(&r, NULL, &err), &err);
    refuses_decoder(r, &d, needs);
    d.points = NULL;
    d.tag = '!';
    refuses_decoder(r, &d, needs);
    d.know = know;
    d.points = points;
    d.tag = 0;
    refuses_decoder(r, &d, tag);
    d.tag = 'B'; /* of short fields */
    refuses_decoder(r, &d, tag);
    d.tag = '\n';
    refuses_decoder(r, &d, tag);
    d.tag = 'J';
    refuses_decoder(r, &d,
                    "decoder d: points with the tag J are those of decoder jpeg: choose another "
                    "tag");
    d.tag = '!';
    d.start = start;
    refuses_decoder(r, &d, "decoder d: start() and stop() go together");
    d.start = NULL;
    d.can = 2; /* a sound track's */
    refuses_decoder(r, &d, "decoder d sets a flag in `can` that only the library's own may set");
    d.can = 0;
    ok(stk_registry_add(r, STK_PLUGIN_DECODER, &d, &err), &err);
    ok(stk_registry_open(&child, r, &err), &err);
    d.name = "e";
    refuses_decoder(child, &d,
                    "decoder e: points with the tag ! are those of decoder d: choose another tag");
    d.tag = '"';
    ok(stk_registry_add(child, STK_PLUGIN_DECODER, &d, &err), &err);
    ok(stk_decoders_init(&set, child, &err), &err);
    ok(stk_decoders_of_points(&set, (stk_bytes){ (const uint8_t *)"!", 1 }, &found, &ctx, &err),
       &err);
    assert_string_equal(found->name, "d");
    stk_decoders_fini(&set);
    stk_registry_close(&child);
    stk_registry_close(&r);
}

/* ---- a source whose table is short: files point to the long copy ---- */

static stk_file the_file;

static int short_open(const stk_open_info *o, stk_file **out, stk_error *err);

static int short_ready(stk_file *f, int wait, stk_file_info *out, stk_error *err)
{
    (void)f, (void)out, (void)err;
    return 0;
}

static int short_read(stk_file *f, stk_io *io)
{
    (void)f, (void)io;
    return 0;
}

static void short_close(stk_file *f)
{
    (void)f;
}

static int loud_fd(const stk_file *f)
{
    (void)f;
    fail_msg("a field beyond the table's end was used");
    return 0;
}

static const stk_source short_source = { .abi = STK_PLUGIN_ABI,
                                         .size = offsetof(stk_source, can),
                                         .name = "short",
                                         .scheme = "short",
                                         .open = short_open,
                                         .ready = short_ready,
                                         .read = short_read,
                                         .close = short_close,
                                         .fd = loud_fd };

static int short_open(const stk_open_info *o, stk_file **out, stk_error *err)
{
    (void)o, (void)err;
    the_file.source = &short_source;
    *out = &the_file;
    return 0;
}

static void short_sources(void **state)
{
    stk_file *f = NULL;
    stk_error err;

    (void)state;
    ok(stk_plugin_add(STK_PLUGIN_SOURCE, &short_source, &err), &err);
    ok(stk_source_open(stk_registry_source("short://x"), STK_URL("short://x", NULL), &f, &err),
       &err);
    assert_int_equal(stk_file_fd(f), -1);
    assert_ptr_not_equal(f->source, &short_source);
    stk_file_close(&f);
}

static void memory_fails(void **state)
{
    stk_op op = op_of("starved");
    stk_error err;
    int done = 0;

    (void)state;
    for (int64_t n = 1; !done; n++) {
        stk_registry *r = NULL;
        int rc;

        stk_mem_fail_at(n);
        rc = stk_registry_open(&r, NULL, &err);
        if (rc == 0)
            rc = stk_registry_add(r, STK_PLUGIN_OP, &op, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
        done = rc == 0;
        stk_registry_close(&r);
    }
}

/* Points are known by their first byte, whoever made them; B is of short fields that are kept. */
static void tags_of_points_differ(void **state)
{
    const stk_decoder *d;
    char seen[256] = { ['B'] = 1 };

    (void)state;
    for (size_t i = 0; (d = stk_registry_get(NULL, STK_PLUGIN_DECODER, i)); i++) {
        if (!d->know)
            continue;
        assert_true(d->tag);
        assert_false(seen[(uint8_t)d->tag]);
        seen[(uint8_t)d->tag] = 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_grow),
        cmocka_unit_test(sizes),
        cmocka_unit_test(flags),
        cmocka_unit_test(children),
        cmocka_unit_test(many_decoders),
        cmocka_unit_test(short_sources),
        cmocka_unit_test(tags_of_decoders),
        cmocka_unit_test(memory_fails),
        cmocka_unit_test(tags_of_points_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
