/* SPDX-License-Identifier: Apache-2.0 */
/* arrow.h - the index of a data set as a table that other programs read, and their tables as data
 * sets: Arrow C streams.
 *
 * The three structs are Arrow's C data and C stream interfaces: an agreement on names and memory
 * layout, not a library.  The guards are part of it, so that this header may stand beside others
 * that declare them. */
#ifndef STOKER_ARROW_H
#define STOKER_ARROW_H

#include <stoker/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif

/* One row per sample, in batches of at most 65536: `sample` (u64, its number), `key`, `shard` (a
 * dictionary of names), `offset` (u64, in the shard), `size` (u64, of all fields), and every
 * typed column under its name (one that is called like those five gets a "_" after it).  Texts
 * are utf8, or binary where some are no UTF-8.
 * *out is the caller's and holds the data set: it, and the batches taken from it, may be used after
 * the handle is gone, and end by their own release().  Thread: one. */
STK_API STK_MUST_CHECK int stk_dataset_arrow(stk_dataset *ds, struct ArrowArrayStream *out,
                                             stk_error *err);

/* A table of another library in this process (pyarrow, Polars, DuckDB, Hugging Face datasets) as a
 * data set, without a copy: its batches are held until the data set is closed.  *stream is taken
 * over and released, also when this fails.  Rows are samples and columns fields, as for files. */
STK_API STK_MUST_CHECK int stk_dataset_open_arrow(stk_dataset **out,
                                                  struct ArrowArrayStream *stream,
                                                  const stk_dataset_options *opt, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
