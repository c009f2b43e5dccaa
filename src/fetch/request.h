/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - one sample's bytes on their way.
 *
 * A worker owns a request and uses it over and over while bytes are available: begin, try, finish,
 * end.  When bytes must be waited for, the request is submitted and leaves the worker; it comes
 * back through arrived(), to any worker. */
#ifndef STOKER_REQUEST_H
#define STOKER_REQUEST_H

#include "fetch/cache.h"

typedef struct stk_request stk_request; /* Thread: one at a time. */

typedef struct stk_wanted { /* one field */
    stk_field field;
    stk_place place;
    uint32_t number;  /* of the field in its sample, set before begin(); with a fallback UINT16_MAX:
                       * it has none */
    stk_block *block; /* shared place */
    stk_file *file;   /* else: where the range is; NULL: the bytes are here */
    int own;          /* file was opened for this request */
    stk_waiter waiter;
    uint32_t io; /* else: which read has it */
    /* place.unpacked of a range: where in the request's bytes it is unpacked to ... */
    uint64_t room;
    uint64_t made;   /* ... and how many bytes that made; UINT64_MAX: not yet */
    stk_bytes bytes; /* the answer */
    /* the engine's: where a GPU has it, so that nothing is read; 0: nowhere */
    uint64_t gpu_cached;
    stk_bytes
        /* the engine's: its bytes, so that nothing is read; data NULL: they are not */
        cached_bytes;
    stk_bytes hint;           /* the engine's: what the index keeps of it for decoders; or none */
    int learn;                /* the engine's: a hint is worth finding */
    int direct;               /* the engine's: it is read to where it is wanted */
    uint32_t width, height;   /* the engine's: of the picture that it is, upright; for followers */
    unsigned turn;            /* ... and EXIF's turn of it */
    const stk_codec *unpack;  /* the engine's: what it goes through before its chain; or NULL ... */
    const void *unpack_state; /* ... and its state */
} stk_wanted;

typedef struct stk_ranged {                  /* a field of which only some bytes are read */
    uint32_t n;                              /* 0: it is read whole */
    stk_media_range range[STK_MEDIA_RANGES]; /* bytes of the field, ascending; set before plan() */
    uint32_t io[STK_MEDIA_RANGES];           /* which read has each */
    stk_media_part part[STK_MEDIA_RANGES];   /* the answer */
} stk_ranged;

#define STK_PLUG_MAX 128
/* reads that are begun together, so that neighbours become one.  Thread: worker. */
typedef struct stk_plug {
    uint32_t n;
    stk_io *io[STK_PLUG_MAX]; /* by file and offset */
} stk_plug;

typedef struct stk_async {             /* what requests and the threads of async sources share */
    _Atomic uint32_t in_flight;        /* reads that sources have */
    void (*wake)(struct stk_async *a); /* the first of them: there is something to drive */
    /* stk_io_again(io) after the pause for the failed-th failure.  0: do it now, without. */
    int (*later)(struct stk_async *a, stk_io *io, uint32_t failed);
} stk_async;

struct stk_request {
    uint64_t ticket; /* the engine's: whose row this is */
    uint64_t position;
    uint32_t attempt;  /* substitutes tried */
    int whole;         /* the engine's: parts of its fields were not enough; all of them is read */
    int late;          /* its bytes had to be waited for: rows come in any order */
    int polls;         /* the engine's: begin() may answer STK_PENDING, nothing is begun then */
    const void *table; /* the engine's: how its row is made */
    int index_failed;  /* the index is bad, not the sample: nothing to skip */
    stk_where where;
    const stk_dataset *data;
    /* The engine's, by output: where files are that the field names ("": in the shard's folder);
     * NULL: the field itself is wanted. */
    const char *const *open_root;
    const stk_bytes *fallback; /* the engine's, by output: bytes of a field that is not there */
    stk_cache *cache;
    stk_async *async;     /* NULL: failed reads of async sources are tried again without a pause */
    stk_account *account; /* NULL: for stk_request_wait() */
    stk_entry entry;
    uint32_t cap_want, n;
    stk_wanted *want; /* cap_want of each of these */
    stk_ranged *ranged;
    stk_seek_room *hint_room; /* what hints were read into */
    stk_io *io;               /* STK_MEDIA_RANGES times cap_want of each of these */
    uint32_t *order;          /* pieces of fields by file and offset, while reads are planned */
    uint8_t *missing;         /* by read: try() left it */
    stk_bytes *scratch;       /* the engine's, by field */
    uint32_t n_io;
    uint64_t total;      /* bytes of all reads, and of what ranges unpack to */
    uint64_t shard_size; /* without an account */
    int blocks;          /* some of its fields are in blocks */
    uint32_t reads;      /* samples that had something read */
    int unpacks;         /* some places have something to unpack */
    uint8_t *bytes;      /* where its reads begin, and rooms are counted from */
    uint64_t lacks;      /* bytes that begin() had no room for, for now; 0: it never will */
    uint64_t most;       /* without an account: bytes that a sample may take */
    stk_file *file;
    uint8_t *buf;
    size_t cap;
    _Atomic uint32_t pending;
    _Atomic uint32_t retries;        /* since the owner last looked and set it to zero */
    void (*arrived)(stk_request *r); /* any thread, once after a submit() that said STK_PENDING */
    void *owner;
    stk_request *next;
    _Atomic uint64_t waiting; /* the engine's: its ticket + 1 while bytes are on their way */
    stk_request *all;         /* the engine's: the request made before */
    uint64_t in_flight;       /* the engine's: bytes of it that are counted as in flight */
    stk_plug *plug;           /* the engine's: where submit() may leave reads; NULL: nowhere */
};

/* For samples of which up to `fields` fields are wanted. */
int stk_request_open(stk_request **out, uint32_t fields, stk_cache *cache, stk_account *account,
                     stk_error *err);
/* For stk_request_wait(): without an account; blocks are kept by the data set, and one request for
 * the next caller.  Any thread. */
int stk_dataset_request(stk_dataset *ds, uint32_t fields, stk_request **out, stk_error *err);
void stk_dataset_request_done(stk_dataset *ds, stk_request **r); /* ends it; NULL is fine */
void stk_dataset_rest(stk_dataset *ds); /* no one reads: let go of what is kept */
void stk_request_close(stk_request **r);
int stk_request_trim(stk_request *r); /* between samples: give its memory back.  1: it had some */

/* Locate the fields want[0..n).number of r->entry, of r->data (UINT16_MAX: r->fallback stands in),
 * and plan the reads.  STK_ELIMIT: memory_limit is reached, with r->lacks for now (begin again when
 * others have let go), else by this sample alone, which is a bad one. */
int stk_request_begin(stk_request *r, uint32_t n, stk_error *err);
/* The same in two steps.  Between them r->ranged[i] may say which bytes of field i are wanted,
 * where stk_request_has_range() allows it.  plan() ends the request where it fails. */
int stk_request_locate(stk_request *r, uint32_t n, stk_error *err);
int stk_request_plan(stk_request *r, stk_error *err);
/* 1: field i is a plain range of a file, of which parts can be read. */
int stk_request_has_range(const stk_request *r, uint32_t i);
/* 1: only parts of some field were read. */
int stk_request_in_parts(const stk_request *r);
/* Bytes of such fields that were not asked for. */
uint64_t stk_request_unread(const stk_request *r);
/* The read that field i has to itself, to be pointed elsewhere before try(); NULL: it shares
 * one. */
stk_io *stk_request_own_io(stk_request *r, uint32_t i);
/* Read what needs no waiting.  0: all bytes are there.  STK_PENDING: submit or wait. */
int stk_request_try(stk_request *r, stk_error *err);
/* Start the missing reads; `queue` takes those whose source has no submit() of its own.  0 or
 * STK_PENDING. */
int stk_request_submit(stk_request *r, void (*queue)(void *cookie, stk_io *io), void *cookie,
                       stk_error *err);
/* Check what came and point want[i].bytes at it, or ranged[i].part.  STK_PENDING: another one
 * unpacks a block of it, so that r->arrived() comes, then finish() again; only with r->blocks. */
int stk_request_finish(stk_request *r, stk_error *err);
/* For one sample outside an engine, after begin(): read to dst[0..r->total), waiting, then finish.
 * The request has no account: nothing is charged, and begin() checks ranges against the shard's
 * size.  Fields in blocks (r->blocks) are valid until end(), all others as long as dst and the data
 * set. */
int stk_request_wait(stk_request *r, void *dst, stk_error *err);
/* Let go of file and blocks; the request can begin again. */
void stk_request_end(stk_request *r);

/* Begin what was left there.  Until then it is not read: flush before anything is waited for. */
void stk_plug_flush(stk_plug *p);

/* Read without waiting: 1 done, 0 not. */
int stk_io_try(stk_io *io, stk_file *f);

/* A failed read of an async source, after its pause: submit it again.  Any thread. */
void stk_io_again(stk_io *io);

#endif
