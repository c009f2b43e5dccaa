/* SPDX-License-Identifier: Apache-2.0 */
/* pack_stamp.h - the note of a pack, by which an interrupted run goes on: DIR/.stoker/PATTERN.pack,
 * JSON lines.  The files pack_*.c call it.
 *
 * The first line has the fingerprint of source and options.  Then there is one line per shard,
 * written before the shard gets its name.  So a shard that exists, has a line and has that size
 * belongs to this pack, however the run ended.  The line also lists the samples that could not be
 * made.  One process at a time holds the lock.  Processes that write parts of one pack have one
 * note each.
 *
 * In a bucket each shard has its own note: see pack_remote.c.  There the lock is only for processes
 * of one host. */
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
    int fd;         /* 0: the note is not open */
    int found;      /* true if there is a note with the wanted fingerprint */
    int others;     /* true if other parts, or for a part the whole, have such a note */
    uint64_t *size; /* by shard: its size; 0: it has no line */
    char **failed;  /* by shard: JSON objects of samples that failed; NULL: none */
    uint64_t n;
    char part[64]; /* "part-3-of-64."; "": the whole pack */
    /* the fields below are for a target in a bucket */
    const stk_source *source; /* NULL: the target is a folder */
    const stk_store *store;   /* borrowed */
    uint64_t fingerprint;
    _Atomic uint64_t notes; /* number of notes of shards */
    int whole;              /* true if there is a note of the whole pack */
    int listed_failed;      /* true if there is a list of samples that failed */
    stk_names foreign;      /* names of notes of other packs */
} stk_stamp;

typedef struct stk_stamp_line {
    uint64_t shard, size;
    const stk_text *failed; /* JSON objects with commas between them; NULL or empty: none */
} stk_stamp_line;

/* Makes the folder and takes the lock; waits while another process holds it.  STK_ECLOSED: stop()
 * returned non-zero. */
int stk_stamp_lock(stk_stamp *s, const stk_shard_pattern *p, int (*stop)(void *cookie),
                   void *cookie, stk_error *err);
/* Reads the note, for a pack of n shards with this fingerprint. */
int stk_stamp_load(stk_stamp *s, uint64_t fingerprint, uint64_t n, stk_error *err);
/* Parses the text of a note, which ends with a NUL, for s->n shards. */
void stk_stamp_parse(stk_stamp *s, char *text, uint64_t fingerprint);
/* Opens the note for writing: first 0: adds to the one that was found; else begins a new one. */
int stk_stamp_begin(stk_stamp *s, uint64_t fingerprint, int first, stk_error *err);
int stk_stamp_add(stk_stamp *s, const stk_stamp_line *line, stk_error *err); /* Thread: any */
uint64_t stk_stamp_failed(const stk_stamp *s, uint64_t shard); /* number of samples that failed */
/* Adds the notes of all parts, and for a part that of the whole, to this one.  drop_parts() removes
 * the notes of parts. */
int stk_stamp_gather(stk_stamp *s, const stk_shard_pattern *p, uint64_t fingerprint,
                     stk_error *err);
void stk_stamp_drop_parts(const stk_stamp *s, const stk_shard_pattern *p);
/* Writes DIR/.stoker/PATTERN.failed, one JSON object per line; removes it if nothing failed. */
int stk_stamp_list_failed(const stk_stamp *s, const stk_shard_pattern *p, stk_error *err);
void stk_stamp_close(stk_stamp *s);

#define STK_STAMP_HEAD 160
/* Write the first line of a note; append the line of a shard. */
size_t stk_stamp_head(const stk_stamp *s, uint64_t fingerprint, char line[STK_STAMP_HEAD]);
int stk_stamp_line_text(const stk_stamp_line *l, stk_text *out, stk_error *err);

/* pack_remote.c: the same for a target in a bucket. */
/* Writes the path of the lock file; 0: there is no folder for it. */
int stk_remote_lock_path(const stk_stamp *s, char *out, size_t size);
int stk_remote_notes_load(stk_stamp *s, uint64_t fingerprint, stk_error *err);
int stk_remote_notes_begin(stk_stamp *s, stk_error *err); /* removes notes of other packs */
int stk_remote_note_add(const stk_stamp *s, const stk_stamp_line *l, const stk_text *line,
                        stk_error *err);
/* Call when all shards are written: replaces their notes by one. */
int stk_remote_notes_settle(stk_stamp *s, stk_error *err);

/* pack_classes.c: writes DIR/classes.txt, if the data set has classes. */
int stk_pack_classes(const stk_dataset *ds, const stk_shard_pattern *p, int force, stk_error *err);

/* The path DIR/.stoker/PATTERN.END, which the caller frees; NULL: no memory. */
char *stk_stamp_path(const stk_shard_pattern *p, const char *end);
/* Reads the list PATTERN.failed, and those of parts that are not merged; a sample may be in
 * several.  STK_ENOTFOUND: there is no list. */
int stk_stamp_read_failed(const stk_shard_pattern *p, stk_text *out, stk_error *err);

#endif
