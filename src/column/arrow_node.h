/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_node.h - schemas and arrays of Arrow's C data interface: nodes that own what they show.
 *
 * A consumer may take a child out of its parent (it nulls the child's release) and end both in any
 * order on any thread, so every node frees its own memory and nothing else. */
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
    int plain; /* all are UTF-8 */
} shared_names;

int stk_shared_open(shared_names **out, uint64_t room, stk_error *err);
int stk_shared_put(shared_names *s, const char *name, stk_error *err); /* at most `room` of them */
void stk_shared_unref(shared_names *s);                                /* NULL is fine */

/* ---- all of these: 0, or -1 without memory ---- */

/* With zeroed children, to be filled in; `format` lives without limit. */
int stk_schema_node(struct ArrowSchema *out, const char *format, const char *name, int64_t flags,
                    uint32_t n_children);
int stk_schema_dictionary(struct ArrowSchema *of, const char *format);

/* The arrays own `bits` (validity; NULL: all have a value) and the other buffers from now on, also
 * when they fail. */
int stk_array_struct(struct ArrowArray *out, uint32_t n_children);
int stk_array_fixed(struct ArrowArray *out, uint64_t n, void *bits, int64_t nulls, void *values);
int stk_array_text(struct ArrowArray *out, uint64_t n, void *bits, int64_t nulls, void *offsets,
                   void *bytes);
int stk_array_names(struct ArrowArray *of, shared_names *s); /* its dictionary */

#endif
