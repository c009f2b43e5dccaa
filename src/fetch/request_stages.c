/* SPDX-License-Identifier: Apache-2.0 */
/* request_stages.c - fields that are found by the values of others: the files that fields name, and
 * the second stage of a request.
 *
 * While the first stage is read, a field of the second one is without a file, so that it is not
 * read; in the second stage so are those of the first, whose bytes are available.  Planning,
 * reading and finishing thus know nothing of stages.  The stages have a buffer each: what the first
 * one read stays where it is. */
#include "fetch/reads.h"

#include <assert.h>
#include <string.h>

/* Opening may wait for a disk: names and inodes, as a rule, are in memory long before the bytes. */
int stk_wanted_open(stk_request *r, stk_wanted *w, stk_error *err)
{
    const char *root = stk_wanted_root(r, w);

    for (stk_wanted *o = r->want; o < w; o++)
        if (o->own && o->number == w->number &&
            (!root || (stk_wanted_root(r, o) && !strcmp(root, stk_wanted_root(r, o))))) {
            w->file = o->file;
            w->place = o->place;
            return 0;
        }
    STK_TRY(stk_named_open(&(stk_named){ r->data, r->entry.shard, root && *root ? root : NULL },
                           &w->place, &w->file, err));
    w->own = 1;
    r->reads.files = 1;
    return 0;
}

void stk_request_defer(stk_request *r, uint32_t i)
{
    stk_wanted *w = &r->want[i];

    if (r->reads.stage == STK_REQUEST_SECOND)
        return;
    assert(!w->second && w->file);
    r->reads.stage = STK_REQUEST_FIRST;
    r->reads.files = 1; /* end() has something to let go of */
    w->second = 1;
    w->later = NULL;
    if (stk_wanted_root(r, w))
        return; /* the first stage reads its name */
    assert(!w->block && !w->place.unpacked);
    w->later = w->file;
    w->file = NULL;
    w->place.here = (stk_bytes){ (const uint8_t *)"", 0 };
}

/* A value that was read stays as it is. */
static void keep(stk_wanted *w)
{
    w->used = w->block;
    w->block = NULL;
    w->file = NULL;
    w->place.here = w->bytes;
}

int stk_request_second(stk_request *r, stk_error *err)
{
    assert(r->reads.stage == STK_REQUEST_FIRST);
    r->reads.unread = stk_request_in_parts(r) ? stk_request_unread(r) : 0;
    stk_request_swap_buffers(r);
    r->reads.stage = STK_REQUEST_SECOND;
    r->memory.lacks = 0; /* what a name makes fail is the sample's */
    r->unpacks = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        stk_wanted *w = &r->want[i];

        if (w->later) {
            w->file = w->later;
            w->place.here = (stk_bytes){ 0 };
            continue;
        }
        keep(w);
        if (!w->second || w->place.absent)
            continue;
        w->place = (stk_place){ .name = w->bytes, .whole = 1 };
        STK_TRY(stk_wanted_open(r, w, err));
    }
    return 0;
}

void stk_request_let_go(stk_request *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->want[i].block)
            stk_block_put(r->cache, r->want[i].block);
        if (r->want[i].own)
            stk_file_close(&r->want[i].file);
        if (r->want[i].used)
            stk_block_put(r->cache, r->want[i].used);
    }
    stk_request_files_end(r);
    if (r->reads.stage == STK_REQUEST_SECOND)
        stk_request_swap_buffers(r);
    if (r->reads.stage != STK_REQUEST_WHOLE)
        for (uint32_t i = 0; i < r->cap_want; i++) {
            r->want[i].second = 0;
            r->want[i].later = NULL;
            r->want[i].used = NULL;
        }
    r->reads.stage = STK_REQUEST_WHOLE;
}
