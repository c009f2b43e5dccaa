/* SPDX-License-Identifier: Apache-2.0 */
/* folder_files.h - directories of pictures, videos or recordings: which of them are shards, what is
 * in them, and whether they changed.
 *
 * A shard that is a directory says so by its name: "photos/train/cat/" is the class cat of the
 * root photos/train, "photos/train/." is a root whose pictures are in it without classes.  Both
 * are names that the system opens as they stand. */
#ifndef STOKER_SOURCE_FOLDER_H
#define STOKER_SOURCE_FOLDER_H

#include "source/source.h"

int stk_is_folder(const char *name); /* ends in "/" or "/." */
int stk_is_flat(const char *name);   /* ends in "/." */

/* What a file is by the end of its name, in any case.  A folder is one of the first of these kinds
 * that is in it. */
typedef enum stk_file_kind {
    STK_FILE_OTHER,
    STK_FILE_PICTURE, /* .jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp */
    STK_FILE_VIDEO,   /* .mp4 .m4v .mov .mkv .webm */
    STK_FILE_SOUND    /* .wav .flac .mp3 .opus .ogg .oga .m4a .aac .mka */
} stk_file_kind;

stk_file_kind stk_file_kind_of(const char *name);
const char *stk_file_kind_field(stk_file_kind k); /* image, video, sound */
int stk_is_picture(const char *name);

/* Names that are not looked at: hidden ones (.DS_Store, ._1.jpg, .ipynb_checkpoints) and what some
 * systems put beside the data (__MACOSX, @eaDir, lost+found ...). */
int stk_is_clutter(const char *name);

/* *best: the first of the kinds that files in path/sub are, and in *best before; deep: or below. */
int stk_folder_kind(const char *path, const char *sub, int deep, stk_file_kind *best,
                    stk_error *err);

/* The shards of the root `path`: its subdirectories, if a file of its kind is anywhere below one of
 * them, else the root itself.  A root without such files adds nothing. */
int stk_folder_expand(const char *path, stk_names *out, stk_error *err);

/* A directory as a shard: stat() tells its own mtime and size 0, nothing can be read from it. */
int stk_folder_open(const char *path, stk_file **out, stk_error *err);
const char *stk_folder_path(const stk_file *f); /* NULL: f is no directory */

/* mtime of the directory; etag: "" if no directory is in it, else a hash of the names and mtimes
 * of all that do.  A directory with etag "" gets one only together with a new mtime. */
int stk_folder_state(const stk_file *f, stk_file_info *out, stk_error *err);

/* All directories at and below `path`, relative to it ("" first), sorted bytewise.  Symlinks are
 * followed; one that leads back to a directory above it is an error. */
int stk_folder_walk(const char *path, stk_names *out, stk_error *err);

typedef struct stk_dir_entry {
    const char *name;
    int fd;     /* of the directory */
    int folder; /* a directory, or a symlink to one */
    int linked; /* a symlink */
} stk_dir_entry;

/* Every entry of the directory base/sub but clutter, in the system's order; fn's answer other than
 * 0 ends it and is returned. */
int stk_folder_list(const char *base, const char *sub,
                    int (*fn)(void *cookie, const stk_dir_entry *e, stk_error *err), void *cookie,
                    stk_error *err);

#endif
