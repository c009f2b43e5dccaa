/* SPDX-License-Identifier: Apache-2.0 */
/* pair_folders.h - addresses of shards that are made of several folders or files, and functions
 * that read them.  Expanding names and the formats of annotated pictures call it.
 *
 * In pairs://image=/data/images&mask=/data/masks files of the same name belong together;
 * pairs:///data/photos is for the files of one folder.  coco:///data/train.json&images=/data/photos
 * is an annotation file with the folder of its pictures.
 *
 * &missing=drop or &missing=keep says what happens to a name that some folder lacks; otherwise it
 * is an error.  In names, "%", "&" and "=" are written %25, %26 and %3D, and so is any other byte
 * with a meaning in patterns of names. */
#ifndef STOKER_PAIR_FOLDERS_H
#define STOKER_PAIR_FOLDERS_H

#include "base/text.h"
#include "source/source.h"

#define STK_PAIRS_SCHEME "pairs://"
#define STK_PAIRS_MAX 64 /* most folders */

#define STK_FRAMES_SCHEME "frames://" /* frames:///data/clips: folders of numbered pictures */

#define STK_COCO_SCHEME "coco://"
#define STK_VOC_SCHEME "voc://" /* voc:///data/VOC2012/ImageSets/Main/train.txt */
#define STK_YOLO_SCHEME                                                                            \
    "yolo://" /* yolo:///data/images/train, labels in /data/labels/train;
                                   * &names=/data/data.yaml has the names of classes */

extern const stk_source stk_source_pairs;
extern const stk_source stk_source_frames;
extern const stk_source stk_source_coco; /* the annotation file itself */
extern const stk_source stk_source_voc, stk_source_yolo;

typedef enum stk_missing { STK_MISSING_ERROR, STK_MISSING_DROP, STK_MISSING_KEEP } stk_missing;

typedef struct stk_pairs { /* init with zeros, end with fini */
    stk_names field;       /* field of each folder; "": the suffix of a file is its field */
    stk_names folder;      /* absolute */
    stk_missing missing;
    char split[8]; /* split of a YOLO data set: "train", "val", "test"; "": not given */
} stk_pairs;

int stk_is_pairs(const char *url);
int stk_is_frames(const char *url);
int stk_is_coco(const char *url);
int stk_is_voc(const char *url);
int stk_is_yolo(const char *url);
/* Adds the addresses of the folders of a YOLO data set, which data.yaml or
 * yolo://data.yaml&split=val names.  STK_END: the name is not of this kind. */
int stk_yolo_add(const char *name, stk_names *out, stk_error *err);
/* The same for a folder that is such a data set: with images/ and labels/, images/train and
 * labels/train, or data.yaml in it.  STK_END: it is not. */
int stk_yolo_add_folder(const char *path, stk_names *out, stk_error *err);
/* Appends a name with its special bytes as %xx. */
int stk_pairs_escape(stk_text *t, const char *name, stk_error *err);
/* Adds the address of a local VOC2012/ImageSets/Main/train.txt.  STK_END: the name is not of this
 * kind. */
int stk_voc_add(const char *name, stk_names *out, stk_error *err);
/* 1: the shard is made of many files (pairs, frames, voc, yolo), and so is its version. */
int stk_is_many(const char *url);
/* Writes the folder with the annotations of a VOC list, or of a YOLO folder of pictures. */
int stk_labels_folder(const char *url, const char *path, stk_text *out, stk_error *err);
int stk_pairs_parse(const char *url, stk_pairs *out, stk_error *err);
void stk_pairs_fini(stk_pairs *p);
/* Writes the annotation file of a COCO shard, and the folder of its pictures; "": the shard's name
 * does not say it.  If `shard` is a plain path, it is the file. */
int stk_coco_file(const char *shard, stk_text *file, stk_text *images, stk_error *err);
/* Adds the address with absolute folders; the index is found by it. */
int stk_pairs_resolve(const char *url, stk_names *out, stk_error *err);

#endif
