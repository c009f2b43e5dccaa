/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h - what the loader hands out: one tensor per output, keys and ids of the samples.
 *
 * A batch is a handle.  Each output is in its own buffer with a count of holders: the batch is one,
 * every stk_buffer_ref() adds another.  A buffer goes back to its loader's pool when the last
 * holder releases it: on any thread, also after the loader was closed. */
#ifndef STOKER_BATCH_H
#define STOKER_BATCH_H

#include <stoker/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STK_MAX_DIMS 8

typedef struct stk_batch stk_batch;   /* Thread: one. */
typedef struct stk_buffer stk_buffer; /* Memory with a count of holders.  Thread: any. */

typedef enum stk_out_kind {
    STK_OUT_DENSE = 1, /* one tensor, rows stacked along the first dimension */
    STK_OUT_LIST = 2,  /* one tensor per row, each with its own shape */
    STK_OUT_BYTES = 3, /* one byte string per row */
    STK_OUT_TEXT = 4,  /* one UTF-8 string per row */
    STK_OUT_JSON = 5,  /* one JSON value per row, as text */
} stk_out_kind;

typedef struct stk_tensor { /* borrowed: valid while the batch or `buffer` is held */
    void *data;             /* first element; writable, it is the consumer's now */
    stk_buffer *buffer;     /* buffer that holds `data` */
    stk_dtype dtype;
    uint32_t ndim; /* entries of shape and strides that are set */
    int64_t shape[STK_MAX_DIMS];
    int64_t strides[STK_MAX_DIMS]; /* in elements */
    uint32_t gpu; /* 0: host memory; n: memory of GPU n - 1, complete when it is handed out */
} stk_tensor;

/* Call before releasing a buffer in GPU memory (stk_tensor.gpu) whose uses are queued on `stream`,
 * a cudaStream_t: the memory is used again only after them.  For host memory it does nothing. */
STK_API void stk_buffer_used(stk_buffer *buffer, void *stream);

/* One more holder, who must stk_buffer_unref() once. */
STK_API void stk_buffer_ref(stk_buffer *buffer);

/* Releases the buffer.  Any thread, also after the loader was closed; takes no lock of the
 * loader. */
STK_API void stk_buffer_unref(stk_buffer *buffer);

STK_API uint32_t stk_batch_rows(const stk_batch *b);  /* fewer than batch_size at the end */
STK_API uint64_t stk_batch_epoch(const stk_batch *b); /* from 0 */
STK_API uint64_t stk_batch_step(const stk_batch *b);  /* number in its epoch, from 0 */
/* number among its loader's batches, in the order in which they were begun */
STK_API uint64_t stk_batch_serial(const stk_batch *b);
STK_API uint32_t stk_batch_outputs(const stk_batch *b); /* how many, as the loader was asked for */

/* The output's name, the batch's; NULL past the last output. */
STK_API const char *stk_batch_output_name(const stk_batch *b, uint32_t output);

/* How its rows are handed out.  `output` must be below stk_batch_outputs(). */
STK_API stk_out_kind stk_batch_output_kind(const stk_batch *b, uint32_t output);

/* 1: its rows may differ in shape and were padded to one tensor (STK_COLLATE_PAD); stk_batch_row()
 * gives each at its own size, as a window of that tensor. */
STK_API int stk_batch_padded(const stk_batch *b, uint32_t output);

/* 1: its rows were joined to one tensor, without padding (STK_COLLATE_PACK). */
STK_API int stk_batch_joined(const stk_batch *b, uint32_t output);

/* For a row of patches: sets grid to the number of patches in time (0: patches have no time), down
 * and across.  Returns the side of the blocks in which they come; 0: the output has no patches. */
STK_API uint32_t stk_batch_grid(const stk_batch *b, uint32_t output, uint32_t row, int64_t grid[3]);

typedef struct stk_frame_at { /* a frame of a clip */
    int64_t number;           /* among all that are shown, from 0; -1: the row was not made */
    double seconds;           /* when it is shown */
} stk_frame_at;
/* For a row that is a clip: its frames, *n of them, borrowed.  NULL: the output has no clips. */
STK_API const stk_frame_at *stk_batch_frames(const stk_batch *b, uint32_t output, uint32_t row,
                                             uint32_t *n);

/* 1: rows of the output have any number of pictures. */
STK_API int stk_batch_several(const stk_batch *b, uint32_t output);

/* For such a row: returns the number of its first picture in the batch, and sets *n to how many it
 * has. */
STK_API uint32_t stk_batch_pictures(const stk_batch *b, uint32_t output, uint32_t row, uint32_t *n);

/* The same as stk_batch_grid() for a picture of the batch, if pictures are cut into patches.  Past
 * the last one the grid is empty. */
STK_API uint32_t stk_batch_picture_grid(const stk_batch *b, uint32_t output, uint32_t picture,
                                        int64_t grid[3]);

/* The stacked tensor of a DENSE output, borrowed.  STK_EINVAL: there is no such output, or it is of
 * another kind. */
STK_API int stk_batch_dense(const stk_batch *b, uint32_t output, stk_tensor *out);

/* One row of any output, borrowed: for DENSE and LIST its tensor, for the others its bytes as a u8
 * vector.  STK_EINVAL: there is no such output or row. */
STK_API int stk_batch_row(const stk_batch *b, uint32_t output, uint32_t row, stk_tensor *out);

/* Sample ids, one per row: numbers of the samples, counted over all data sets of the loader. */
STK_API const uint64_t *stk_batch_ids(const stk_batch *b);

/* One per row: 1, or 0 if another sample replaces a bad one, or if the rank had no sample left. */
STK_API const uint8_t *stk_batch_valid(const stk_batch *b);

/* The key of a row's sample, *len bytes, not terminated; the data set's, valid while the batch is
 * held.  "" past the last row. */
STK_API const char *stk_batch_key(const stk_batch *b, uint32_t row, size_t *len);

/* One more holder, who must stk_batch_release() once.  Thread: any. */
STK_API void stk_batch_ref(stk_batch *b);

/* Releases the batch and sets the pointer to NULL.  Buffers with other holders stay valid. */
STK_API void stk_batch_release(stk_batch **b);

#ifdef __cplusplus
}
#endif
#endif
