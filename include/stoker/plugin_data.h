/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_data.h - the table of a kind of data: which names mean it, and how it is opened.  A format
 * of tables is a kind whose open() is stk_table_open(), with four functions that know its files.
 * UNSTABLE, as plugin.h is. */
#ifndef STOKER_PLUGIN_DATA_H
#define STOKER_PLUGIN_DATA_H

#include <stoker/dataset.h>
#include <stoker/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_data_kind stk_data_kind;
struct stk_data_kind {
    uint32_t abi, size;
    const char *name, *help;
    /* ".rows .rws": a name that ends so means this kind; NULL: only meant() says it. */
    const char *suffixes;
    /* Do these names, or what is said of the data, mean this kind?  May be NULL. */
    int (*meant)(const char *const *urls, size_t n, const stk_dataset_options *o);
    int (*open)(stk_dataset **out, const stk_data_kind *kind, const char *const *urls, size_t n,
                const stk_dataset_options *o, stk_error *err);
    /* 1: samples are rows, read one by one: `check` goes through them, `index` opens the data. */
    int rows;

    /* ---- with open = stk_table_open ---- */
    /* Read what is needed to know where rows are: how many there are, and a state of the file.  f
     * is open for the call alone.  Thread: any; the state is read-only after it. */
    int (*file_open)(stk_file *f, uint64_t size, void **state, uint64_t *rows, stk_error *err);
    /* Name and type of column i, which the state owns; 0 past the last, else 1. */
    int (*column)(const void *state, uint32_t i, stk_field_type *out);
    /* *out is zeros.  Say where the value is: `offset` and `len` in the file, or `here`, or
     * `absent`.  Numbers are little-endian.  Reads nothing; called for every row by any thread. */
    int (*locate)(const void *state, uint64_t row, uint32_t column, stk_place *out, stk_error *err);
    void (*file_close)(void *state); /* state: what file_open() made, not NULL */
};

/* Files of rows and columns, one after another, which all have the columns of the first. */
STK_API int stk_table_open(stk_dataset **out, const stk_data_kind *kind, const char *const *urls,
                           size_t n, const stk_dataset_options *o, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
