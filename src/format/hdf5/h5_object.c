/* SPDX-License-Identifier: Apache-2.0 */
/* h5_object.c - object headers of both versions: messages in a first piece and in those that
 * continue it. */
#include <string.h>

#include "format/hdf5/h5_parts.h"

#define PIECES 1024u
#define CONTINUED 0x10u
#define SHARED 2u /* flag: the message is elsewhere */

typedef struct header {
    const stk_h5_file *f;
    int version;
    uint32_t flags;
    uint64_t piece[PIECES][2]; /* where they are, and their bytes */
    uint32_t n;
    uint64_t bytes; /* of all: pieces that name each other come to an end */
    h5_message_fn fn;
    void *cookie;
} header;

static int add_piece(header *h, uint64_t at, uint64_t len, stk_error *err)
{
    h->bytes += len;
    if (h->n == PIECES || len > H5_META_MAX || h->bytes > h->f->size)
        return h5_bad(err, at, "an object header without end");
    h->piece[h->n][0] = at;
    h->piece[h->n++][1] = len;
    return 0;
}

typedef struct wanted { /* one message of a committed type */
    header *from;
    uint32_t type;
    int found;
} wanted;

static int found_shared(void *cookie, const h5_message *m, stk_error *err)
{
    wanted *w = cookie;

    if (m->type != w->type)
        return 0;
    w->found = 1;
    STK_TRY(w->from->fn(w->from->cookie, m, err));
    return STK_END;
}

/* A message that is in another object's header, as committed types are. */
static int take_shared(header *h, uint32_t type, stk_bytes data, stk_error *err)
{
    h5_cursor c = h5_over(data);
    uint32_t version = (uint32_t)h5_uint(&c, 1), where = (uint32_t)h5_uint(&c, 1);
    wanted w = { h, type, 0 };
    uint64_t at;
    int rc;

    if (version == 1) { /* a symbol table entry: the address is after its name's place */
        h5_skip(&c, 6);
        (void)h5_length(h->f, &c);
    }
    at = h5_address(h->f, &c);
    if (c.bad || !version || version > 3)
        return h5_bad(err, STK_NO_OFFSET, "a shared message");
    if (version == 3 && where != 2)
        return stk_fail(err, STK_ENOTSUP,
                        "the file has a table of shared messages, which is not supported: repack "
                        "it (h5repack)");
    if (h->cookie == NULL || h->fn == found_shared)
        return h5_bad(err, at, "a shared message that is shared again");
    rc = h5_messages(h->f, at, found_shared, &w, err);
    return rc < 0 ? rc : w.found ? 0 : h5_bad(err, at, "a shared message is not there");
}

static int take(header *h, uint32_t type, uint32_t flags, stk_bytes data, stk_error *err)
{
    h5_message m = { type, data };

    if (type == CONTINUED) {
        h5_cursor c = h5_over(data);
        uint64_t at = h5_address(h->f, &c), len = h5_length(h->f, &c);

        return c.bad ? h5_bad(err, STK_NO_OFFSET, "a continuation") : add_piece(h, at, len, err);
    }
    return flags & SHARED ? take_shared(h, type, data, err) : h->fn(h->cookie, &m, err);
}

/* All messages of a piece; what is left at its end and too short for one is a gap. */
static int walk(header *h, stk_bytes piece, stk_error *err)
{
    uint32_t head = h->version == 1 ? 8 : h->flags & 4 ? 6 : 4;
    h5_cursor c = h5_over(piece);

    while (h5_left(&c) >= head) {
        uint32_t type = (uint32_t)h5_uint(&c, h->version == 1 ? 2 : 1), flags;
        uint64_t len = h5_uint(&c, 2);
        const uint8_t *data;

        flags = (uint32_t)h5_uint(&c, 1);
        h5_skip(&c, h->version == 1 ? 3 : head - 4);
        data = h5_skip(&c, len);
        if (c.bad)
            return h5_bad(err, STK_NO_OFFSET, "a message ends past its object header");
        int rc = take(h, type, flags, (stk_bytes){ data, (size_t)len }, err);

        if (rc)
            return rc;
    }
    return 0;
}

static int walk_pieces(header *h, uint32_t from, stk_error *err)
{
    int rc = 0;

    for (uint32_t i = from; rc == 0 && i < h->n; i++) {
        uint64_t len = h->piece[i][1];
        uint8_t *bytes = NULL;

        rc = h5_get_new(h->f, h->piece[i][0], len, &bytes, err);
        if (rc == 0 && h->version == 2) {
            size_t front = i ? 4 : 0; /* the first one was checked with its head */

            if (i && (len < 8 || memcmp(bytes, "OCHK", 4) || !h5_sum_fits(bytes, (size_t)len)))
                rc = h5_bad(err, h->piece[i][0], "an object header's checksum is another");
            else
                rc = walk(h, (stk_bytes){ bytes + front, (size_t)len - front - (i ? 4 : 0) }, err);
        } else if (rc == 0)
            rc = walk(h, (stk_bytes){ bytes, (size_t)len }, err);
        stk_free(bytes);
    }
    return rc;
}

static int open_new(header *h, uint64_t at, h5_cursor *c, const uint8_t *head, stk_error *err)
{
    uint8_t *bytes = NULL;
    uint64_t len;
    size_t front;
    int rc;

    h5_skip(c, 1);
    h->flags = (uint32_t)h5_uint(c, 1);
    h5_skip(c, (h->flags & 0x20 ? 16 : 0) + (h->flags & 0x10 ? 4 : 0));
    len = h5_uint(c, 1u << (h->flags & 3));
    front = (size_t)(c->p - head);
    if (c->bad || len > H5_META_MAX)
        return h5_bad(err, at, "an object header");
    rc = h5_get_new(h->f, at, front + len + 4, &bytes, err);
    if (rc == 0 && !h5_sum_fits(bytes, (size_t)(front + len + 4)))
        rc = h5_bad(err, at, "an object header's checksum is another");
    stk_free(bytes);
    return rc < 0 ? rc : add_piece(h, at + front, len, err);
}

static int open_header(header *h, uint64_t at, stk_error *err)
{
    uint8_t head[48];
    uint64_t n = at < h->f->size ? h->f->size - at : 0;
    h5_cursor c;

    n = n < sizeof head ? n : sizeof head;
    if (n < 16)
        return h5_bad(err, at, "an object header is past its end");
    STK_TRY(h5_get(h->f, at, head, n, err));
    c = h5_over((stk_bytes){ head, (size_t)n });
    if (!memcmp(head, "OHDR", 4)) {
        h->version = 2;
        h5_skip(&c, 4);
        return head[4] == 2 ? open_new(h, at, &c, head, err)
                            : h5_bad(err, at, "an object header's version");
    }
    if (head[0] != 1)
        return h5_bad(err, at, "there is no object header");
    h->version = 1;
    h5_skip(&c, 8);
    return add_piece(h, at + 16, h5_uint(&c, 4), err);
}

int h5_messages(const stk_h5_file *f, uint64_t at, h5_message_fn fn, void *cookie, stk_error *err)
{
    header *h = STK_NEW(header);
    int rc;

    if (!h)
        return stk_fail_nomem(err, sizeof *h);
    h->f = f;
    h->fn = fn;
    h->cookie = cookie;
    rc = open_header(h, at, err);
    if (rc == 0)
        rc = walk_pieces(h, 0, err);
    stk_free(h);
    return rc < 0 ? rc : 0;
}
