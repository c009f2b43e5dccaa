/* SPDX-License-Identifier: Apache-2.0 */
/* folder_files.h - directories of pictures, videos or recordings: which of them are shards, which
 * files they have, and whether they changed.  Expanding names, indexing and the folder formats call
 * it.
 *
 * The name of a shard that is a directory shows that: "photos/train/cat/" is the class cat of the
 * root photos/train, "photos/train/." is a root with pictures without classes.  The system opens
 * both names as they are. */
#ifndef STOKER_SOURCE_FOLDER_H
#define STOKER_SOURCE_FOLDER_H

#include "source/source.h"

int stk_is_folder(const char *name); /* ends in "/" or "/." */
int stk_is_flat(const char *name);   /* ends in "/." */

/* What a file is by the suffix of its name, in upper or lower case.  The kind of a folder is the
 * first of these kinds that it has. */
typedef enum stk_file_kind {
    STK_FILE_OTHER,
    STK_FILE_PICTURE, /* .jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp */
    STK_FILE_VIDEO,   /* .mp4 .m4v .mov .mkv .webm */
    STK_FILE_SOUND    /* .wav .flac .mp3 .opus .ogg .oga .m4a .aac .mka */
} stk_file_kind;

stk_file_kind stk_file_kind_of(const char *name);
const char *stk_file_kind_field(stk_file_kind k); /* image, video, sound */
int stk_is_picture(const char *name);

/* 1: the name is ignored: hidden files (.DS_Store, ._1.jpg, .ipynb_checkpoints), and files that
 * some systems put beside the data (__MACOSX, @eaDir, lost+found ...). */
int stk_is_clutter(const char *name);

/* Sets *best to the first kind among *best and the files in path/sub; deep: also in folders
 * below. */
int stk_folder_kind(const char *path, const char *sub, int deep, stk_file_kind *best,
                    stk_error *err);

/* Adds the shards of the root `path`: its subdirectories, if any of them has a file of the root's
 * kind, at any depth; else the root itself.  A root without such files adds nothing. */
int stk_folder_expand(const char *path, stk_names *out, stk_error *err);

/* Opens a directory as a shard: stat() returns the directory's mtime and size 0, and nothing can be
 * read from it. */
int stk_folder_open(const char *path, stk_file **out, stk_error *err);
const char *stk_folder_path(const stk_file *f); /* NULL: f is no directory */

/* Sets the mtime of a directory, and its etag: a hash of names and mtimes of the directories in it;
 * "": there are none.  If a directory is added to one with etag "", its mtime changes, too. */
int stk_folder_state(const stk_file *f, stk_file_info *out, stk_error *err);

/* Lists all directories at and below `path`, relative to it ("" first), sorted bytewise.  Symlinks
 * are followed; one that leads back to a directory above it is an error. */
int stk_folder_walk(const char *path, stk_names *out, stk_error *err);

typedef struct stk_dir_entry {
    const char *name;
    int fd;     /* descriptor of the directory that has the entry */
    int folder; /* a directory, or a symlink to one */
    int linked; /* a symlink */
} stk_dir_entry;

/* Calls fn() for every entry of the directory base/sub that is not ignored, in the system's order.
 * If fn() returns something other than 0, that ends the list and is returned. */
int stk_folder_list(const char *base, const char *sub,
                    int (*fn)(void *cookie, const stk_dir_entry *e, stk_error *err), void *cookie,
                    stk_error *err);

#endif
