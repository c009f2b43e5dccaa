/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - the bytes of one sample: located, read, checked.
 *
 * A worker of the engine (pipe/worker.c) owns a request and uses it for one sample after another:
 * stk_request_begin() finds the fields and plans the reads, try() reads what needs no waiting,
 * finish() checks the bytes, end() lets go of them.  If bytes have to be waited for, submit()
 * starts the reads and the request leaves its worker; arrived() hands it to any worker.  Code that
 * reads one sample outside an engine (`stoker cat`, ds[i]) uses stk_request_wait().
 *
 * Some fields can only be found by the values of others: a cell of a table names a file, a column
 * says which part of a video is wanted.  Such a request has two stages (request_stages.c): all
 * other fields are read first, and after their finish() second() finds what is left, which is
 * planned and read like a request of its own.  What the first stage read stays as it is.  A list of
 * names stands for any number of files: they are read between the two stages (request_files.c). */
#ifndef STOKER_REQUEST_H
#define STOKER_REQUEST_H

#include "fetch/cache.h"

typedef struct stk_request stk_request; /* Thread: one at a time. */

typedef struct stk_wanted { /* one field of the sample */
    stk_field field;
    stk_place place;
    /* number of the field in its sample, set before begin().  UINT16_MAX: the sample does not have
     * the field, and the fallback is used */
    uint32_t number;
    stk_block *block;  /* the block that the field is in.  NULL: it is in none */
    stk_file *file;    /* the file that the field is a range of.  NULL: its bytes are in memory */
    int own;           /* true if `file` was opened for this request */
    stk_waiter waiter; /* called when the block is available */
    uint32_t io;       /* index of the read that has the range */
    uint64_t room;     /* compressed range: where in the request's bytes it is decompressed to */
    uint64_t made; /* compressed range: its decompressed size.  UINT64_MAX: not decompressed yet */
    stk_bytes bytes; /* result: the bytes of the field */
    /* Set by the engine. */
    uint64_t gpu_cached;     /* the field's place in the GPU's cache; nothing is read.  0: none */
    stk_bytes cached_bytes;  /* cached bytes of this field.  data NULL: it has to be read */
    stk_bytes hint;          /* what the index stores about it for decoders; or nothing */
    stk_buffer *hint_shared; /* holds the bytes of `hint`.  NULL: they are stored elsewhere */
    int learn;               /* true if a hint should be found while it is decoded */
    int second;              /* true if it is read in the second stage */
    stk_file *later;         /* second stage: file of the range, while the first stage is read */
    stk_block *used; /* first stage: the block of its value, while the second stage is read */
    int direct;      /* true if it is read straight to the place that needs it */
    uint32_t first_file, n_files; /* the files that its list names, among all of the request */
    uint32_t width, height;       /* size of an upright picture, for the outputs that follow it */
    unsigned turn;                /* EXIF orientation of that picture */
    const stk_codec *unpack;      /* decompresses the field before its chain.  NULL: none */
    const void *unpack_state;     /* state of `unpack` */
} stk_wanted;

typedef struct stk_ranged {                  /* a field of which only some bytes are read */
    uint32_t n;                              /* ranges.  0: the field is read whole */
    stk_media_range range[STK_MEDIA_RANGES]; /* bytes of the field, ascending; set before plan() */
    uint32_t io[STK_MEDIA_RANGES];           /* which read has each range */
    stk_media_part part[STK_MEDIA_RANGES];   /* result: the bytes of each range */
    uint64_t later;                          /* further bytes that were read while it was decoded */
} stk_ranged;

#define STK_PLUG_MAX 128
/* reads that are begun together, so that neighbours become one.  Thread: worker. */
typedef struct stk_plug {
    uint32_t n;
    stk_io *io[STK_PLUG_MAX]; /* by file and offset */
} stk_plug;

typedef struct stk_async {             /* what requests and the threads of async sources share */
    _Atomic uint32_t in_flight;        /* reads that sources have */
    void (*wake)(struct stk_async *a); /* called when in_flight becomes 1: wakes those threads */
    /* Calls stk_io_again(io) after a pause, which grows with `failed`, the number of failures.  0:
     * no thread can wait for that; the caller tries again at once. */
    int (*later)(struct stk_async *a, stk_io *io, uint32_t failed);
} stk_async;

typedef enum stk_request_stage {
    STK_REQUEST_WHOLE,  /* all fields are read together */
    STK_REQUEST_FIRST,  /* fields that are not `second` */
    STK_REQUEST_FILES,  /* files that lists of the first ones name, in rounds */
    STK_REQUEST_SECOND, /* the others; the first ones are available */
} stk_request_stage;

typedef struct stk_request_row { /* the row that a request is for.  Only the engine uses it. */
    uint64_t ticket;             /* number of the row in its epoch */
    uint64_t position;
    uint32_t attempt;         /* substitutes tried so far */
    int whole;                /* parts of fields were not enough: fields are read whole now */
    uint64_t told;            /* bit per output: its draws were reported before `whole` was set */
    const void *table;        /* the stk_row_table by which the row is made */
    _Atomic uint64_t waiting; /* ticket + 1 while its bytes are being read; else 0 */
    uint64_t in_flight;       /* its bytes that are counted as in flight */
    stk_request *older;       /* the request that was opened before this one */
} stk_request_row;

#define STK_FILES_MOST (1u << 16) /* of a sample */

typedef struct stk_list_file { /* a file that a list names */
    stk_bytes name;            /* a JSON string, in its field's bytes */
    const char *root;          /* folder of the names */
    stk_file *file;            /* while it is read */
    uint64_t at, len;          /* its bytes, in the room for all */
    uint32_t io;               /* which read has it */
    int asks;                  /* its size is asked for */
} stk_list_file;

typedef struct stk_request_files { /* request_files.c */
    stk_list_file *list;           /* of all outputs; memory for `cap` */
    uint32_t n, cap;
    uint32_t from, upto; /* those that are open */
    int asking;          /* for sizes of remote ones */
    uint8_t *room;       /* where their bytes are */
    uint64_t used;
    size_t room_cap;
    uint64_t lacks; /* as stk_request_memory.second */
    struct stk_round *round;
} stk_request_files;

typedef struct stk_request_reads { /* the reads of one sample, or of one of its stages */
    stk_request_stage stage;
    stk_io *io;       /* room for STK_MEDIA_RANGES per field; so have the next two */
    uint32_t *order;  /* pieces of fields by file and offset, while reads are planned */
    uint8_t *missing; /* by read: true if try() left it to submit() */
    uint32_t n;
    int in_parts;     /* some field is read in part; set by plan() */
    int apart;        /* nothing is read between the parts of neighbouring fields; set by callers */
    int files;        /* some fields opened files for themselves, or there are two stages */
    uint64_t total;   /* bytes of all reads, and of what is decompressed after them */
    uint8_t *bytes;   /* where the first read goes */
    uint32_t samples; /* samples so far of which something was read */
    uint64_t unread;  /* stk_request_unread() of the first stage */
    stk_request_files named;
} stk_request_reads;

typedef struct stk_request_memory {
    uint8_t *buf; /* what reads go to */
    size_t cap;
    uint8_t *other_buf; /* what those of the other stage go to */
    size_t other_cap;
    /* bytes that the second stage lacked when this row was begun before: the first stage is only
     * read when there is room for both */
    uint64_t second;
    uint64_t lacks;      /* bytes that begin() had no memory for.  0: there will never be enough */
    uint64_t most;       /* without an account: bytes that one sample may take */
    uint64_t shard_size; /* without an account: what ranges are checked against */
} stk_request_memory;

struct stk_request {
    stk_request_row row;
    int late;  /* its bytes had to be waited for, so rows may finish in any order */
    int polls; /* begin() may answer STK_PENDING; then nothing is begun.  Set by the engine */
    int index_failed; /* the index is bad, not the sample: skipping does not help */
    stk_where where;
    const stk_dataset *data;
    /* By output: the folder of files that the field names ("": the shard's).  NULL: the bytes of
     * the field itself are wanted.  Set by the engine. */
    const char *const *open_root;
    const stk_bytes
        *fallback; /* by output: bytes for a field that is missing.  Set by the engine */
    stk_cache *cache;
    stk_async *async;     /* NULL: failed reads of async sources are tried again without a pause */
    stk_account *account; /* NULL: for stk_request_wait() */
    stk_entry entry;
    uint32_t cap_want, n;
    stk_wanted *want; /* n of cap_want fields; the next three have as many */
    stk_ranged *ranged;
    stk_seek_room *hint_room; /* memory of hints */
    stk_bytes *scratch;       /* for the engine */
    stk_request_reads reads;
    stk_request_memory memory;
    int blocks;  /* some of its fields are in blocks */
    int unpacks; /* some of its places are compressed */
    int cached;  /* some fields may have cached bytes, or be on a GPU.  Set by the engine */
    stk_file *file;
    _Atomic uint32_t pending;        /* reads that have not come back */
    _Atomic uint32_t retries;        /* since the owner last set it to zero */
    void (*arrived)(stk_request *r); /* any thread, once after a submit() that said STK_PENDING */
    void *owner;
    stk_request *next;
    stk_plug *plug; /* where submit() may leave reads.  NULL: nowhere.  Set by the engine */
};

/* A request for samples of which up to `fields` fields are wanted. */
int stk_request_open(stk_request **out, uint32_t fields, stk_cache *cache, stk_account *account,
                     stk_error *err);
/* A request without an account, for stk_request_wait().  The data set keeps the blocks, and one
 * idle request for the next caller.  Thread: any. */
int stk_dataset_request(stk_dataset *ds, uint32_t fields, stk_request **out, stk_error *err);
void stk_dataset_request_done(stk_dataset *ds, stk_request **r); /* gives it back; NULL is fine */
void stk_dataset_rest(stk_dataset *ds); /* frees the idle request and unused blocks */
void stk_request_close(stk_request **r);
int stk_request_trim(stk_request *r); /* between samples: frees its memory.  1: it had some */

/* Locates the fields want[0..n).number of the sample r->entry in r->data, and plans the reads.  For
 * the number UINT16_MAX r->fallback is used.  STK_ELIMIT: memory_limit is reached.  If
 * r->memory.lacks is set, begin again when others have given memory back; else this sample alone is
 * too large, which makes it a bad one. */
int stk_request_begin(stk_request *r, uint32_t n, stk_error *err);
/* The same in two steps: locate(), then plan() or plan_parts().  Before plan_parts(), r->ranged[i]
 * may say which bytes of field i are wanted, if stk_request_has_range() allows it; plan() reads all
 * fields whole.  If a step fails, it ends the request. */
int stk_request_locate(stk_request *r, uint32_t n, stk_error *err);
int stk_request_plan(stk_request *r, stk_error *err);
int stk_request_plan_parts(stk_request *r, stk_error *err);
/* Between locate() and plan_parts(): field i is read in the second stage, by values of the first.
 * In the second stage it does nothing. */
void stk_request_defer(stk_request *r, uint32_t i);
/* After the first stage's finish(): opens the files that were named, and locates the fields that
 * are `second`.  Then ranges may be set as after locate(), and plan_parts() comes again. */
int stk_request_second(stk_request *r, stk_error *err);
/* Between locate() and plan_parts(): lists of names are read, and their files after them. */
void stk_request_expect_files(stk_request *r);
/* After second(): one more file.  `name` is a JSON string in the bytes of a field. */
int stk_request_add_file(stk_request *r, const char *root, stk_bytes name, stk_error *err);
/* After that, and whenever the reads have come that it planned: plans the next ones.  STK_END: all
 * files are there, and plan_parts() comes.  It ends the request where it fails. */
int stk_request_next_files(stk_request *r, stk_error *err);
static inline stk_bytes stk_request_file(const stk_request *r, uint32_t k)
{
    const stk_list_file *l = &r->reads.named.list[k];

    return (stk_bytes){ r->reads.named.room + l->at, (size_t)l->len };
}
/* 1: when its reads have come, second() or next_files() says what is read after them. */
static inline int stk_request_goes_on(const stk_request *r)
{
    return r->reads.stage == STK_REQUEST_FIRST || r->reads.stage == STK_REQUEST_FILES;
}
/* 1: its reads go to a store: those of the shard, or of files that the sample names. */
static inline int stk_request_is_remote(const stk_request *r)
{
    const stk_file *f = r->reads.n ? r->reads.io[0].file : r->file;

    return f && f->source->can & STK_SOURCE_REMOTE;
}
/* 1: field i is a plain range of a file, of which parts can be read. */
int stk_request_has_range(const stk_request *r, uint32_t i);
/* 1: only parts of some field were read. */
static inline int stk_request_in_parts(const stk_request *r)
{
    return r->reads.in_parts;
}
/* After finish(): bytes of fields read in part that were not read. */
uint64_t stk_request_unread(const stk_request *r);
/* The read that field i has to itself, to be pointed elsewhere before try(); NULL: it shares
 * one. */
stk_io *stk_request_own_io(stk_request *r, uint32_t i);
/* Reads what needs no waiting.  0: all bytes are read.  STK_PENDING: submit() or wait() reads the
 * rest. */
int stk_request_try(stk_request *r, stk_error *err);
/* Starts the missing reads; `queue` gets those whose source has no submit().  0: all bytes are
 * read.  STK_PENDING: r->arrived() is called later. */
int stk_request_submit(stk_request *r, void (*queue)(void *cookie, stk_io *io), void *cookie,
                       stk_error *err);
/* Checks what was read and sets want[i].bytes, or ranged[i].part.  STK_PENDING, only with
 * r->blocks: another thread unpacks one of its blocks; call finish() again after r->arrived(). */
int stk_request_finish(stk_request *r, stk_error *err);
/* For one sample outside an engine, after begin(): reads to dst[0..r->reads.total), waits, then
 * calls finish().  The request has no account, so no memory is charged, and begin() checks ranges
 * against the shard's size.  Fields in blocks (r->blocks) are valid until end(), all others as long
 * as dst and the data set.  A first stage was read by locate(): its fields are valid until
 * end(). */
int stk_request_wait(stk_request *r, void *dst, stk_error *err);
/* Releases its file and blocks; the request can begin again. */
void stk_request_end(stk_request *r);

/* Begins the reads that were collected in *p.  Call it before waiting for anything: until then they
 * are not read. */
void stk_plug_flush(stk_plug *p);

/* Reads if no waiting is needed.  1: done; 0: not. */
int stk_io_try(stk_io *io, stk_file *f);

/* Submits a failed read of an async source again, after its pause.  Thread: any. */
void stk_io_again(stk_io *io);

#endif
