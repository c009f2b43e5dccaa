/* SPDX-License-Identifier: Apache-2.0 */
/* pack_stamp.h - the note that a pack keeps of itself: DIR/.stoker/PATTERN.pack, JSON lines.
 *
 * The first line has the fingerprint of source and options, then one line per shard, written
 * before the shard gets its name.  So a shard that is in place, has its line and that size is
 * this pack's, however the run ended.  The line also has the samples that could not be made.  One
 * process at a time holds the lock.  Processes that write parts of one pack have a note each.
 *
 * In a bucket each shard has a note of its own: see pack_remote.c.  There the lock is one of the
 * host's processes alone. */
#ifndef STOKER_PACK_STAMP_H
#define STOKER_PACK_STAMP_H

#include <stdatomic.h>
#include <stoker/store.h>

#include "base/atomic_file.h"
#include "base/log.h"
#include "source/source.h"
#include "tools/shard_writer.h"

typedef struct stk_stamp { /* init with zeros, end with close */
    char *path;
    stk_lock_file lock;
    int fd;         /* 0: none */
    int found;      /* there is one with the fingerprint asked for */
    int others;     /* others have such notes: parts, or for a part the whole */
    uint64_t *size; /* by shard; 0: it has no line */
    char **failed;  /* by shard: what could not be made, JSON objects; NULL: all was */
    uint64_t n;
    char part[64]; /* "part-3-of-64."; "": the whole */
    /* A target that is no folder: */
    const stk_source *source; /* NULL: it is one */
    const stk_store *store;   /* borrowed */
    uint64_t fingerprint;
    _Atomic uint64_t notes; /* of shards */
    int whole;              /* there is a note of the whole, of this pack */
    int listed_failed;      /* there is a list of what failed */
    stk_names foreign;      /* notes of other packs */
} stk_stamp;

typedef struct stk_stamp_line {
    uint64_t shard, size;
    const stk_text *failed; /* JSON objects with commas between them; NULL or empty: none */
} stk_stamp_line;

/* Make the folder and take the lock, waiting for another holder; stop() non-zero gives up
 * (STK_ECLOSED). */
int stk_stamp_lock(stk_stamp *s, const stk_shard_pattern *p, int (*stop)(void *cookie),
                   void *cookie, stk_error *err);
/* Read it, for a pack of n shards with this fingerprint. */
int stk_stamp_load(stk_stamp *s, uint64_t fingerprint, uint64_t n, stk_error *err);
/* The reading of it: lines of terminated text, for s->n shards. */
void stk_stamp_parse(stk_stamp *s, char *text, uint64_t fingerprint);
/* Go on with the one that was found (first 0), or begin. */
int stk_stamp_begin(stk_stamp *s, uint64_t fingerprint, int first, stk_error *err);
int stk_stamp_add(stk_stamp *s, const stk_stamp_line *line, stk_error *err); /* Thread: any */
uint64_t stk_stamp_failed(const stk_stamp *s, uint64_t shard); /* samples that could not be made */
/* Read the notes of all parts, and for a part that of the whole, into this one.  drop_parts()
 * removes parts'. */
int stk_stamp_gather(stk_stamp *s, const stk_shard_pattern *p, uint64_t fingerprint,
                     stk_error *err);
void stk_stamp_drop_parts(const stk_stamp *s, const stk_shard_pattern *p);
/* Write DIR/.stoker/PATTERN.failed, one JSON object per line, or remove it where nothing failed. */
int stk_stamp_list_failed(const stk_stamp *s, const stk_shard_pattern *p, stk_error *err);
void stk_stamp_close(stk_stamp *s);

#define STK_STAMP_HEAD 160
/* The first line, and the line of a shard, appended. */
size_t stk_stamp_head(const stk_stamp *s, uint64_t fingerprint, char line[STK_STAMP_HEAD]);
int stk_stamp_line_text(const stk_stamp_line *l, stk_text *out, stk_error *err);

/* pack_remote.c: the same for a target in a bucket. */
/* 0: there is no place for one */
int stk_remote_lock_path(const stk_stamp *s, char *out, size_t size);
int stk_remote_notes_load(stk_stamp *s, uint64_t fingerprint, stk_error *err);
int stk_remote_notes_begin(stk_stamp *s, stk_error *err); /* those of other packs go */
int stk_remote_note_add(const stk_stamp *s, const stk_stamp_line *l, const stk_text *line,
                        stk_error *err);
/* all shards are there: one note of all */
int stk_remote_notes_settle(stk_stamp *s, stk_error *err);

/* pack_classes.c: DIR/classes.txt, where the data set has classes. */
int stk_pack_classes(const stk_dataset *ds, const stk_shard_pattern *p, int force, stk_error *err);

/* DIR/.stoker/PATTERN.END; NULL: no memory.  The caller frees it. */
char *stk_stamp_path(const stk_shard_pattern *p, const char *end);
/* The same list, and those of parts that are not merged, read; a sample may stand in several.
 * STK_ENOTFOUND: there is none. */
int stk_stamp_read_failed(const stk_shard_pattern *p, stk_text *out, stk_error *err);

#endif
