/* SPDX-License-Identifier: Apache-2.0 */
/* shipped.c - the plug-ins that ship (registry.def), and what an added plug-in of each kind must
 * have.
 *
 * The only file that knows the tables of all folders.  base/registry.c keeps the lists and looks
 * plug-ins up. */
#include "base/registry.h"

#include <stddef.h>

#include "base/err.h"
#include "codec/codec.h"
#include "codec/sound_decoders.h"
#include "data/data.h"
#include "format/annotated.h"
#include "format/format.h"
#include "index/seekfile.h"
#include "op/view.h"
#include "source/pair_folders.h"
#include "source/source.h"
#include "store/dialect.h"

/* ---- what ships ---- */

#define STK_SOURCE(x) &stk_source_##x,
#define STK_STORE(x) &stk_dialect_##x.source,
static const void *const sources[] = {
#include "registry.def"
};

#define STK_FORMAT(x) &stk_format_##x,
static const void *const formats[] = {
#include "registry.def"
};

#define STK_CODEC(x) &stk_codec_##x,
static const void *const codecs[] = {
#include "registry.def"
};

#define STK_DECODER(x) &stk_decoder_##x,
static const void *const decoders[] = {
#include "registry.def"
};

#define STK_OP(x) &stk_op_##x,
static const void *const ops[] = {
#include "registry.def"
};

#define STK_DATA(x) &stk_data_##x,
static const void *const data[] = {
#include "registry.def"
};

/* ---- what an added table may not say ---- */

#define OWN_OPS                                                                                    \
    (STK_OP_PACKS | STK_OP_CALL | STK_OP_LIKE | STK_OP_VIEWS | STK_OP_CHOOSE | STK_OP_GPU |        \
     STK_OP_ROW)

/* Flags whose steps the library looks into would make it read a stranger's state as its own. */
static int check_can(const char *kind, const char *name, int own, stk_error *err)
{
    return own ? stk_fail(err, STK_EINVAL,
                          "%s %s sets a flag in `can` that only the library's own may set", kind,
                          name)
               : 0;
}

static int check_codec(const stk_registry *r, const void *table, stk_error *err)
{
    const stk_codec *c = table;

    (void)r;
    STK_TRY(check_can("codec", c->name, (c->can & STK_CODEC_OWN) != 0, err));
    if (c->can & STK_CODEC_UNPACKS && (!c->extract || c->state_size || !c->suffix || !c->suffix[0]))
        return stk_fail(err, STK_EINVAL,
                        "codec %s unpacks: it needs extract() and a suffix, and has no state",
                        c->name);
    return 0;
}

/* Points are known by their first byte alone. */
static int check_tag(const stk_registry *r, const stk_decoder *d, stk_error *err)
{
    const stk_decoder *other;

    if (d->tag == STK_SEEK_SHORT || d->tag <= ' ' || d->tag > '~')
        return stk_fail(err, STK_EINVAL,
                        "decoder %s: the tag of its points is a printable character other than %c, "
                        "which marks short fields",
                        d->name, STK_SEEK_SHORT);
    for (size_t i = 0; (other = stk_registry_get(r, STK_PLUGIN_DECODER, i)); i++)
        if (other->know && other->tag == d->tag)
            return stk_fail(err, STK_EINVAL,
                            "decoder %s: points with the tag %c are those of decoder %s: choose "
                            "another tag",
                            d->name, d->tag, other->name);
    return 0;
}

static int check_decoder(const stk_registry *r, const void *table, stk_error *err)
{
    const stk_decoder *d = table;

    STK_TRY(check_can("decoder", d->name,
                      (d->can & (STK_DECODER_GPU | STK_DECODER_SOUND_TRACK)) != 0, err));
    if (!d->know && (d->points || d->ranges || d->tag))
        return stk_fail(err, STK_EINVAL,
                        "decoder %s has points(), ranges() or a tag: it needs know() too, without "
                        "which points are not used",
                        d->name);
    if (!d->start != !d->stop)
        return stk_fail(err, STK_EINVAL, "decoder %s: start() and stop() go together", d->name);
    return d->know ? check_tag(r, d, err) : 0;
}

static int check_op(const stk_registry *r, const void *table, stk_error *err)
{
    const stk_op *op = table;

    (void)r;
    STK_TRY(check_can("op", op->name, (op->can & OWN_OPS) != 0, err));
    if (op->cookie && op->state_size < sizeof op->cookie)
        return stk_fail(err, STK_EINVAL,
                        "op %s has a cookie: its state begins with a pointer, and has %zu bytes",
                        op->name, op->state_size);
    if (!(op->can & STK_OP_VIEW) != !op->draw)
        return stk_fail(err, STK_EINVAL, "op %s: draw() and STK_OP_VIEW in `can` go together",
                        op->name);
    if (!(op->can & STK_OP_ACT) != !op->act || !op->act != !op->tile || op->choose)
        return stk_fail(err, STK_EINVAL,
                        "op %s: act(), tile() and a flag of STK_OP_ACT in `can` go together",
                        op->name);
    return 0;
}

static int check_data(const stk_registry *r, const void *table, stk_error *err)
{
    const stk_data_kind *k = table;

    (void)r;
    if (!k->suffixes && !k->meant)
        return stk_fail(err, STK_EINVAL, "kind of data %s has neither suffixes nor meant()",
                        k->name);
    if (k->open == stk_table_open && (!k->file_open || !k->column || !k->locate || !k->file_close))
        return stk_fail(err, STK_EINVAL,
                        "kind of data %s opens tables: it needs file_open(), column(), locate() "
                        "and file_close()",
                        k->name);
    return 0;
}

/* ---- the kinds ---- */

#define NEEDS(type, field)                                                                         \
    {                                                                                              \
        offsetof(type, field), #field                                                              \
    }

const stk_registry_kind stk_registry_kinds[STK_PLUGIN_KINDS] = {
    [STK_PLUGIN_SOURCE] = { "source",
                            sources,
                            sizeof sources / sizeof *sources,
                            sizeof(stk_source),
                            { NEEDS(stk_source, open), NEEDS(stk_source, ready),
                              NEEDS(stk_source, read), NEEDS(stk_source, close) } },
    [STK_PLUGIN_FORMAT] = { "format",
                            formats,
                            sizeof formats / sizeof *formats,
                            sizeof(stk_format),
                            { NEEDS(stk_format, probe), NEEDS(stk_format, index) } },
    [STK_PLUGIN_CODEC] = { "codec",
                           codecs,
                           sizeof codecs / sizeof *codecs,
                           sizeof(stk_codec),
                           { NEEDS(stk_codec, plan) },
                           .check = check_codec },
    [STK_PLUGIN_DECODER] = { "decoder",
                             decoders,
                             sizeof decoders / sizeof *decoders,
                             sizeof(stk_decoder),
                             { NEEDS(stk_decoder, probe), NEEDS(stk_decoder, open),
                               NEEDS(stk_decoder, header), NEEDS(stk_decoder, decode),
                               NEEDS(stk_decoder, close) },
                             .check = check_decoder },
    [STK_PLUGIN_OP] = { "op",
                        ops,
                        sizeof ops / sizeof *ops,
                        sizeof(stk_op),
                        { NEEDS(stk_op, plan) },
                        .check = check_op },
    [STK_PLUGIN_DATA] = { "kind of data",
                          data,
                          sizeof data / sizeof *data,
                          sizeof(stk_data_kind),
                          { NEEDS(stk_data_kind, open) },
                          .check = check_data },
};
