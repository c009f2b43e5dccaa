/* SPDX-License-Identifier: Apache-2.0 */
/* megatron.c - see megatron.h.  Every number is checked against the file sizes before it is used;
 * lookups stay inside the .bin also where the index was not read to its end. */
#include "format/megatron.h"

#include <string.h>

static const char magic[9] = { 'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0 };

static uint64_t u64_at(const uint8_t *p, uint64_t i)
{
    uint64_t v;

    memcpy(&v, p + i * sizeof v, sizeof v);
    return v;
}

static int32_t i32_at(const uint8_t *p, uint64_t i)
{
    int32_t v;

    memcpy(&v, p + i * sizeof v, sizeof v);
    return v;
}

int stk_megatron_probe(stk_bytes head)
{
    return head.len >= sizeof magic && !memcmp(head.data, magic, sizeof magic);
}

static int bad(uint64_t offset, int code, stk_error *err)
{
    stk_error_at(err, NULL, offset, (stk_bytes){ 0 });
    return code;
}

static int read_type(uint8_t code, stk_dtype *out, stk_error *err)
{
    static const stk_dtype known[] = {
        0, STK_U8, STK_I8, STK_I16, STK_I32, STK_I64, 0, 0, STK_U16
    };

    *out = code < sizeof known / sizeof *known ? known[code] : 0;
    if (*out)
        return 0;
    return bad(17,
               code == 6 || code == 7
                   ? stk_fail(err, STK_ENOTSUP,
                              "the index says type %u, floating point: tokens "
                              "are whole numbers",
                              code)
                   : stk_fail(err, STK_ECORRUPT, "the index says type %u; known are 1 to 8", code),
               err);
}

static int bad_sequence(const stk_megatron *m, uint64_t i, uint64_t want, stk_error *err)
{
    int32_t len = i32_at(m->length, i);
    int64_t at = (int64_t)u64_at(m->at, i);
    int rc;

    if (len < 0)
        return bad(STK_MEGATRON_HEAD + 4 * i,
                   stk_fail(err, STK_ECORRUPT, "sequence %" PRIu64 " has %d tokens", i, len), err);
    rc = stk_fail(
        err, STK_ECORRUPT,
        "sequence %" PRIu64 " begins at byte %" PRId64 " of the .bin, %s: the one before it "
        "ends at %" PRIu64,
        i, at, at < 0 || (uint64_t)at < want ? "which goes backwards" : "past a gap", want);
    return bad(STK_MEGATRON_HEAD + 4 * m->sequences + 8 * i, rc, err);
}

/* Sequences from..to follow each other, the first at byte `want`; *want becomes their end. */
static int check_sequences(const stk_megatron *m, uint64_t from, uint64_t to, uint64_t *want,
                           stk_error *err)
{
    uint64_t size = stk_dtype_size(m->dtype);

    for (uint64_t i = from; i < to; i++) {
        int32_t len = i32_at(m->length, i);

        if (len < 0 || u64_at(m->at, i) != *want)
            return bad_sequence(m, i, *want, err);
        *want += (uint64_t)len * size;
    }
    return 0;
}

static int check_documents(const stk_megatron *m, uint64_t base, stk_error *err)
{
    uint64_t before = 0;

    for (uint64_t d = 0; d <= m->documents; d++) {
        uint64_t s = u64_at(m->doc, d);

        if (s > m->sequences || s < before || (!d && s))
            return bad(base + 8 * d,
                       stk_fail(err, STK_ECORRUPT,
                                "document %" PRIu64 " begins at sequence %" PRId64 " of %" PRIu64
                                ", the one before it at %" PRIu64,
                                d, (int64_t)s, m->sequences, before),
                       err);
        before = s;
    }
    if (before != m->sequences)
        return bad(base + 8 * m->documents,
                   stk_fail(err, STK_ECORRUPT, "documents end at sequence %" PRIu64 " of %" PRIu64,
                            before, m->sequences),
                   err);
    return 0;
}

static int check_end(const stk_megatron *m, uint64_t end, uint64_t bin, stk_error *err)
{
    uint64_t last = m->sequences ? m->sequences - 1 : 0;

    if (end == bin)
        return 0;
    return bad(STK_MEGATRON_HEAD + 4 * m->sequences + 8 * last,
               stk_fail(err, STK_ECORRUPT,
                        "sequences end at byte %" PRIu64 " of a .bin of %" PRIu64 " bytes: %s", end,
                        bin, end > bin ? "it is truncated" : "it is another's"),
               err);
}

int stk_megatron_check(const stk_megatron *m, stk_error *err)
{
    uint64_t want = 0;

    STK_TRY(check_sequences(m, 0, m->sequences, &want, err));
    return check_end(m, want, m->tokens * stk_dtype_size(m->dtype), err);
}

static int check_all(const stk_megatron *m, uint64_t bin, uint64_t docs_at, stk_error *err)
{
    uint64_t want = 0, last = m->sequences ? m->sequences - 1 : 0;

    if (m->sequences > STK_MEGATRON_CHECKED) {
        want = u64_at(m->at, last);
        if (want > bin)
            return bad_sequence(m, last, bin, err);
        STK_TRY(check_sequences(m, last, m->sequences, &want, err));
    } else {
        STK_TRY(check_sequences(m, 0, m->sequences, &want, err));
        STK_TRY(check_documents(m, docs_at, err));
    }
    return check_end(m, want, bin, err);
}

int stk_megatron_read(stk_bytes idx, uint64_t bin, stk_megatron *m, stk_error *err)
{
    uint64_t left, docs_at, entries;

    *m = (stk_megatron){ 0 };
    if (!stk_megatron_probe(idx))
        return bad(0,
                   stk_fail(err, STK_ECORRUPT,
                            "no Megatron index: it does not begin with MMIDIDX; if the .bin "
                            "needs none, move it away or give dtype="),
                   err);
    if (idx.len < STK_MEGATRON_HEAD)
        return bad(idx.len,
                   stk_fail(err, STK_ECORRUPT,
                            "the index is truncated: its %zu bytes end "
                            "in the header",
                            idx.len),
                   err);
    if (u64_at(idx.data + 9, 0) != 1)
        return bad(9,
                   stk_fail(err, STK_ENOTSUP, "the index has version %" PRIu64 ", known is 1",
                            u64_at(idx.data + 9, 0)),
                   err);
    STK_TRY(read_type(idx.data[17], &m->dtype, err));
    m->sequences = u64_at(idx.data + 18, 0);
    entries = u64_at(idx.data + 26, 0);
    left = idx.len - STK_MEGATRON_HEAD;
    if (m->sequences > left / 12 || entries > (left - 12 * m->sequences) / 8)
        return bad(idx.len,
                   stk_fail(err, STK_ECORRUPT,
                            "the index is truncated: %" PRIu64 " sequences and %" PRIu64
                            " document marks do not fit into %zu bytes",
                            m->sequences, entries, idx.len),
                   err);
    if (!entries)
        return bad(26, stk_fail(err, STK_ECORRUPT, "the index has no document marks"), err);
    m->documents = entries - 1;
    m->tokens = bin / stk_dtype_size(m->dtype);
    m->length = idx.data + STK_MEGATRON_HEAD;
    m->at = m->length + 4 * m->sequences;
    m->doc = m->at + 8 * m->sequences;
    docs_at = STK_MEGATRON_HEAD + 12 * m->sequences;
    return check_all(m, bin, docs_at, err);
}

uint64_t stk_megatron_document(const stk_megatron *m, uint64_t d)
{
    uint64_t s = d < m->documents ? u64_at(m->doc, d) : m->sequences, at;

    if (s >= m->sequences)
        return m->tokens;
    at = u64_at(m->at, s) / stk_dtype_size(m->dtype);
    return at < m->tokens ? at : m->tokens;
}

uint64_t stk_megatron_length(const stk_megatron *m, uint64_t s)
{
    return (uint64_t)i32_at(m->length, s);
}

uint64_t stk_megatron_sequence(const stk_megatron *m, uint64_t s, uint64_t *at)
{
    *at = u64_at(m->at, s) / stk_dtype_size(m->dtype);
    return stk_megatron_length(m, s);
}
