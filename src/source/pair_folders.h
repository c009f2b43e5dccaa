/* SPDX-License-Identifier: Apache-2.0 */
/* pair_folders.h - folders whose files belong together by their names, as one shard:
 * pairs://image=/data/images&mask=/data/masks, or pairs:///data/photos for the files of one folder;
 * and an annotation file with the folder of its pictures:
 * coco:///data/train.json&images=/data/photos.
 *
 * &missing=drop or keep says what becomes of a name that some folder lacks; otherwise that is an
 * error.  "%", "&" and "=" in names are written %25, %26 and %3D, as is any other byte that
 * patterns of names would take for theirs. */
#ifndef STOKER_PAIR_FOLDERS_H
#define STOKER_PAIR_FOLDERS_H

#include "base/text.h"
#include "source/source.h"

#define STK_PAIRS_SCHEME "pairs://"
#define STK_PAIRS_MAX 64 /* folders */

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
    stk_names field;       /* of each folder; "": its files are fields by their suffix */
    stk_names folder;      /* absolute */
    stk_missing missing;
    char split[8]; /* of a YOLO data set: "train", "val", "test"; "": not said */
} stk_pairs;

int stk_is_pairs(const char *url);
int stk_is_frames(const char *url);
int stk_is_coco(const char *url);
int stk_is_voc(const char *url);
int stk_is_yolo(const char *url);
/* A YOLO data set as the addresses of its folders: data.yaml, or yolo://data.yaml&split=val.
 * STK_END: the name is another. */
int stk_yolo_add(const char *name, stk_names *out, stk_error *err);
/* A folder that is one: images/ beside labels/, images/train beside labels/train, or data.yaml in
 * it.  STK_END: it is not. */
int stk_yolo_add_folder(const char *path, stk_names *out, stk_error *err);
/* Append a name as addresses have it. */
int stk_pairs_escape(stk_text *t, const char *name, stk_error *err);
/* A local VOC2012/ImageSets/Main/train.txt as its address.  STK_END: the name is another. */
int stk_voc_add(const char *name, stk_names *out, stk_error *err);
/* Is its version made of many files: pairs, frames, voc or yolo? */
int stk_is_many(const char *url);
/* Where the annotations of a VOC list or of a YOLO folder of pictures are: a folder. */
int stk_labels_folder(const char *url, const char *path, stk_text *out, stk_error *err);
int stk_pairs_parse(const char *url, stk_pairs *out, stk_error *err);
void stk_pairs_fini(stk_pairs *p);
/* The annotation file, and the folder of its pictures, "" where the name of the shard says none; of
 * a plain path that path. */
int stk_coco_file(const char *shard, stk_text *file, stk_text *images, stk_error *err);
/* The address with absolute folders, by which the index is found. */
int stk_pairs_resolve(const char *url, stk_names *out, stk_error *err);

#endif
