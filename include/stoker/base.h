/* SPDX-License-Identifier: Apache-2.0 */
/* base.h - what every other public header uses: error codes, the error object, logging, types.
 *
 * Conventions of all headers.  Handles are opaque: `open` gives one to the caller through an out
 * pointer (NULL on failure), `close` or `unref` ends it, takes a pointer to it, nulls it and
 * accepts NULL.  Parameters borrow for the time of the call unless a comment says otherwise.
 * Strings are UTF-8 or whatever bytes the file system has, terminated unless a length goes with
 * them; returned strings belong to the object they came from.  `err` may be NULL and is written
 * only on failure. Option and report structs begin with `size`, which the caller sets to sizeof,
 * so that they can grow; a zero elsewhere is the default.  Structs without it stay as they are
 * while the soname does (libstoker.so.0.3; docs/versions.md).  Each type says which threads may
 * use it: "any" (at once), or "one" (one at a time, whichever). */
#ifndef STOKER_BASE_H
#define STOKER_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define STK_API __attribute__((visibility("default")))
#define STK_MUST_CHECK __attribute__((warn_unused_result))
#define STK_PRINTF(f, a) __attribute__((format(printf, f, a)))
/* A name that was replaced: it works for one more version, and the compiler warns. */
#define STK_REPLACED_BY(name) __attribute__((deprecated("use " name)))
#define STK_ANONYMOUS __extension__
#else
#define STK_API
#define STK_MUST_CHECK
#define STK_PRINTF(f, a)
#define STK_REPLACED_BY(name)
#define STK_ANONYMOUS
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define STK_VERSION "0.3.0"

/* Return codes.  Functions that can fail return 0, a negative STK_E*, or a positive STK_END or
 * STK_PENDING where their comment says so. */
enum {
    STK_OK = 0,
    STK_END = 1,        /* nothing more: end of epoch, end of listing */
    STK_PENDING = 2,    /* accepted; the answer comes later, by callback */
    STK_EINVAL = -1,    /* the caller's mistake: an argument, an option, a chain */
    STK_ENOMEM = -2,    /* the allocator said no */
    STK_EIO = -3,       /* the system or the network failed; retried before it is reported */
    STK_ECORRUPT = -4,  /* bad data: a torn shard, a broken picture, a text that is not a number */
    STK_ENOTFOUND = -5, /* no such file, field, sample */
    STK_ESTALE = -6,    /* the data is not what the index was made from */
    STK_ELIMIT = -7,    /* a stated limit (pixels, memory, sizes) was reached */
    STK_ENOTSUP = -8,   /* valid, but not supported here */
    STK_ETIMEOUT = -9,  /* the time given to stk_loader_next() ran out; call again */
    /* the object was closed, or belongs to another process (fork); the call was stopped */
    STK_ECLOSED = -10,
};

#define STK_NO_OFFSET UINT64_MAX

/* What went wrong and where.  Plain memory, owned by the caller; filled by the function that
 * failed. */
typedef struct stk_error {
    int code;          /* the STK_E* that was returned */
    uint64_t offset;   /* byte offset in the shard, or STK_NO_OFFSET */
    uint64_t sample;   /* sample id, or UINT64_MAX */
    char shard[256];   /* name of the shard as it is, or "" (long names lose their head) */
    char key[128];     /* key of the sample as it is, or "" (long ones lose their tail) */
    char message[240]; /* one line, without shard, offset and key; fit to be shown */
} stk_error;

/* "EINVAL" for STK_EINVAL, and so on; a static string. */
STK_API const char *stk_code_name(int code);

/* Write "message [shard S, offset O, key K]" into buf (always terminated), fit to be shown.
 * Returns the full length. */
STK_API size_t stk_error_format(const stk_error *err, char *buf, size_t size);

/* Text that may hold anything, fit to be shown: control characters, bytes that are not UTF-8,
 * characters without width and those that turn the direction of text are written as \n, \x1b or
 * \u202e.  Whole characters go into buf (always terminated).  Returns the full length. */
STK_API size_t stk_text_show(const char *text, size_t len, char *buf, size_t size);

/* Replace user, password and query of every address in `text` by stars and dots, in place: it does
 * not get longer.  Errors and log lines have none; call it for what else you show. */
STK_API void stk_secrets_hide(char *text);

/* Log levels and sink.  The library never prints; without a sink it is silent.  `line` has no
 * newline, is fit to be shown and is valid during the call, which may come from any thread, also
 * from several at once; the sink must not call back into the object that logs. */
typedef enum stk_log_level {
    STK_LOG_ERROR,
    STK_LOG_WARN,
    STK_LOG_INFO,
    STK_LOG_DEBUG
} stk_log_level;
typedef void (*stk_log_fn)(void *cookie, stk_log_level level, const char *line);

/* Called now and then (about 20 times a second) by a job that takes long, by one thread at a time;
 * stk_dataset_open() and stk_index_build() call it on the thread that called them.  total 0: not
 * known yet (shards are looked at, or another process does the job).  A non-zero answer stops
 * the job: STK_ECLOSED. */
typedef int (*stk_progress_fn)(void *cookie, uint64_t done, uint64_t total);

typedef int (*stk_asked_fn)(void *cookie);
/* What the calling thread asks, about 20 times a second, while it waits in this library for a
 * server or for another process, or for threads that do.  A non-zero answer ends the call with
 * STK_ECLOSED; it is then to stay non-zero until the call is over.  NULL, the default: nothing is
 * asked.  Of the calling thread alone. */
STK_API void stk_thread_ask(stk_asked_fn asked, void *cookie);

/* An option that is left alone, no or yes. */
typedef enum stk_tri { STK_UNSET = 0, STK_NO = 1, STK_YES = 2 } stk_tri;

/* Element types of tensors; in the machine's byte order. */
typedef enum stk_dtype {
    STK_U8 = 1,
    STK_I8,
    STK_U16,
    STK_I16,
    STK_I32,
    STK_I64,
    STK_F16,
    STK_BF16,
    STK_F32,
    STK_F64,
    STK_U32,
} stk_dtype;

STK_API size_t stk_dtype_size(stk_dtype dtype);      /* bytes; 0 for an unknown one */
STK_API const char *stk_dtype_name(stk_dtype dtype); /* "f32"; "?" for an unknown one */

/* Sizes as text, one rule everywhere.  K, M, G, T, P, E, with or without a B, are powers of 1,000
 * and Ki to Ei, or KiB to EiB, powers of 1,024: "2000000000", "2GB", "1.5 GiB".  0, or STK_EINVAL:
 * not a size, or more than 64 bits. */
STK_API STK_MUST_CHECK int stk_size_parse(const char *text, uint64_t *bytes);
/* "1.5 GB", in powers of 1,000, into buf, which is returned. */
STK_API const char *stk_size_format(char buf[16], uint64_t bytes);

STK_API const char *stk_version(void); /* STK_VERSION of the library that runs */

/* One line on what this build found ("jpeg: libjpeg-turbo 2.1.5; cpu: avx2; ..."); a static
 * string. */
STK_API const char *stk_build_info(void);

#ifdef __cplusplus
}
#endif
#endif
