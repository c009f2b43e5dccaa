/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_node.h - makes schemas and arrays of Arrow's C data interface, for columns that are handed
 * to other libraries.  The files of column/ that export Arrow call it.
 *
 * A consumer may take a child out of its parent (it nulls the child's release), and release both in
 * any order on any thread.  So every node owns its memory, and frees nothing else. */
#ifndef STOKER_ARROW_NODE_H
#define STOKER_ARROW_NODE_H

#include <stdatomic.h>
#include <stoker/arrow.h>

#include "base/mem.h"

/* ---- texts that all batches share ---- */

typedef struct shared_names {
    _Atomic uint32_t refs;
    int32_t *offsets;
    char *text;
    size_t n, len, cap;
    int plain; /* true if all names are UTF-8 */
} shared_names;

int stk_shared_open(shared_names **out, uint64_t room, stk_error *err);
int stk_shared_put(shared_names *s, const char *name, stk_error *err); /* at most `room` of them */
void stk_shared_unref(shared_names *s);                                /* NULL is fine */

/* ---- all of these return 0, or -1 if there is no memory ---- */

/* Makes a schema with zeroed children, which the caller fills in.  `format` must be static text. */
int stk_schema_node(struct ArrowSchema *out, const char *format, const char *name, int64_t flags,
                    uint32_t n_children);
int stk_schema_dictionary(struct ArrowSchema *of, const char *format);

/* These take `bits` (validity; NULL: no nulls) and the other buffers, on failure too. */
int stk_array_struct(struct ArrowArray *out, uint32_t n_children);
int stk_array_fixed(struct ArrowArray *out, uint64_t n, void *bits, int64_t nulls, void *values);
int stk_array_text(struct ArrowArray *out, uint64_t n, void *bits, int64_t nulls, void *offsets,
                   void *bytes);
int stk_array_names(struct ArrowArray *of, shared_names *s); /* its dictionary */

#endif
