/* SPDX-License-Identifier: Apache-2.0 */
/* decoders.c - which decoder knows some bytes.  The number of decoders is taken once, so that one
 * that is added to the process later has no context here and is not used. */
#include "codec/decoders.h"

#include "base/err.h"
#include "base/mem.h"

int stk_decoders_init(stk_decoders *d, const stk_registry *registry, stk_error *err)
{
    size_t n = stk_registry_count(registry, STK_PLUGIN_DECODER);

    *d = (stk_decoders){ registry, n, stk_zalloc(n + 1, sizeof *d->ctx) };
    if (d->ctx)
        return 0;
    d->n = 0;
    return stk_fail_nomem(err, n * sizeof *d->ctx);
}

void stk_decoders_fini(stk_decoders *d)
{
    for (size_t i = 0; i < d->n; i++) {
        const stk_decoder *decoder = stk_registry_get(d->registry, STK_PLUGIN_DECODER, i);

        if (d->ctx[i])
            decoder->close(d->ctx[i]);
    }
    stk_free(d->ctx);
    *d = (stk_decoders){ 0 };
}

int stk_decoders_find(stk_decoders *d, stk_bytes in, const stk_decoder **out, void **ctx,
                      stk_error *err)
{
    for (size_t i = 0; i < d->n; i++) {
        const stk_decoder *decoder = stk_registry_get(d->registry, STK_PLUGIN_DECODER, i);

        if (!decoder->probe(in))
            continue;
        if (!d->ctx[i])
            STK_TRY(decoder->open(&d->ctx[i], err));
        *out = decoder;
        *ctx = d->ctx[i];
        return 0;
    }
    return STK_END;
}
