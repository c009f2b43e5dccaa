/* SPDX-License-Identifier: Apache-2.0 */
/* slab.h - the records by which pictures go to a GPU, and the arguments of the launch that makes
 * them.  Rows write records (gpu/pic.h), gpu/pictures.c launches, and the kernels of cuda/ read
 * them.
 *
 * A worker draws a picture's view and writes one record (stk_pic) to its row of the batch's slab:
 * the geometry, the tables, where decoding may begin (units), and only those bytes of the file that
 * the view needs.  A slab is one page-locked buffer and is sent in one copy.  The worker that makes
 * the batch's last row plans the scratch memory and lists the work (stk_pic_plan).  Then a few
 * kernels run, each over all pictures of the batch:
 *
 *     taps     filter weights of both axes, as kern/taps.c makes them
 *     sync     pictures without seek points: units are found (pic_sync.h)
 *     decode   units -> samples: entropy decoding and inverse DCT, a thread a unit; planes of u8
 *              that cover the MCUs that the view sees
 *     across   planes -> rows of output width, RGBX, u8: chroma brought to size, color, filter
 *     down     rows -> the output: filter, color, type, layout
 *
 * A record may have a program: what ops drew for its pixels, as steps (stk_pic_step).  Then the
 * pass down makes an 8-bit tile in scratch memory, and steps are done in rounds: a launch does the
 * next step of all pictures for which that is of one sort (STK_PIC_PLAIN..., pic_tile.h), whatever
 * their programs are:
 *
 *     step     tile -> tile; a picture's last one -> the output
 *
 * Records that see the same picture (views, other outputs) share one decode: the first of them has
 * the bytes and decodes what any of them sees; the others have only geometry and read its planes.
 *
 * Pictures that are on the GPU already, because other code decoded them, have records with only
 * geometry; a launch of such pictures says where their pixels are (stk_pic_source).
 *
 * Frames of videos are planes of Y, U and V (stk_pic_yuv).  They are in the record if the host
 * decoded them, else where the launch's source says.  A row of frames that the GPU has made before
 * has empty records (STK_PIC_MADE) and is copied.
 *
 * The arithmetic is the CPU's (jpeg_core.h, kern_c.c), so the pixels are the same, bit for bit.
 * Everything here is read by device code too: fixed widths, no pointers in records, offsets from
 * the record's begin, 16-byte aligned parts.  A record from a damaged or hostile file can make a
 * picture wrong and its status not 0, nothing else: device code checks every offset against what it
 * has. */
#ifndef STOKER_SLAB_H
#define STOKER_SLAB_H

#include <stdint.h>
#include <stoker/plugin.h>

#define STK_PIC_ALIGN 64    /* alignment of records in a slab */
#define STK_PIC_UNITS 128   /* units that a block of threads takes at once */
#define STK_PIC_BATCHES 8   /* most batches of a launch */
#define STK_PIC_SUBSEQ 1024 /* bits of a cell of the scan, when units must be found */
#define STK_PIC_WEIGHTS 64  /* weights of a blur's axis: the middle one and 63 on a side */
#define STK_PIC_FIGURES 768 /* words of a slot of figures: at most three times 256 counts */
#define STK_PIC_MAX_STEPS 64

typedef enum stk_pic_kind {
    STK_PIC_SEEK = 1, /* units from seek points */
    STK_PIC_WHOLE,    /* the scan from its begin: units must be found first */
    STK_PIC_U8,       /* sampled by the CPU: vis_h * vis_w pixels RGB, color and type are missing */
    STK_PIC_READY,    /* the output's row as it must be */
    STK_PIC_ON_GPU,   /* pixels that the GPU has: the launch says where */
    STK_PIC_SHARED,   /* samples that another record of the same picture decodes */
    /* planes of a video's frame (stk_pic_yuv, at units_at); in `data`, or the launch says where */
    STK_PIC_FRAME,
    STK_PIC_MADE /* the GPU has made it: no work for a launch */
} stk_pic_kind;

/* Where decoding may begin, and how far it goes. */
typedef struct stk_pic_unit {
    uint32_t at;    /* bit of the record's data */
    uint32_t mcu;   /* number of its first MCU in the picture, row by row */
    uint16_t bits;  /* bits that it must take; 0: not known */
    uint16_t count; /* MCUs; 0: nothing to do */
    int16_t dc[3];  /* DC values before it */
    uint16_t zero;
} stk_pic_unit;

typedef struct stk_pic_axis { /* as stk_axis of kern/taps.h */
    uint32_t in, res;
    int32_t off;
    uint32_t n;
    uint32_t flip;
    uint32_t filter;
} stk_pic_axis;

typedef struct stk_pic_huff { /* one table; symbols as stk_jpeg_huff has them */
    uint8_t bits[16];
    uint8_t vals[256];
    uint16_t n, zero[7];
} stk_pic_huff;

/* One launch of a program: pixels are read from an area of the tile's memory, each by itself or by
 * an action that sees others (head), go through actions on single pixels, and are written to an
 * area; those of the last step are the output's. */
typedef struct stk_pic_step {
    uint16_t head;     /* number of that action + 1; 0: none */
    uint16_t half;     /* which half of it: STK_PIC_HALF_* */
    uint16_t first, n; /* actions on single pixels */
    uint16_t slot;     /* slot of the figures that action `first` needs, + 1; 0: none */
    /* code of a later action whose figures are gathered from the written pixels; 0: none */
    uint16_t wants;
    uint16_t into;    /* slot for these figures */
    uint16_t from_to; /* areas: from | to << 8 */
    uint16_t in_w, in_h, w, h;
} stk_pic_step;

enum { STK_PIC_HALF_WHOLE, STK_PIC_HALF_ACROSS, STK_PIC_HALF_DOWN };

/* Sorts of steps: each is a kernel of its own, launched for a step where some picture has one. */
enum {
    STK_PIC_PLAIN,       /* single pixels */
    STK_PIC_HEADED,      /* single pixels, after an action that sees others */
    STK_PIC_NEAR,        /* single pixels, after a blur of few taps (pic_blur.h) */
    STK_PIC_WIDE_ACROSS, /* the first half of another blur */
    STK_PIC_LOSS,        /* the first half of what saving as JPEG does (pic_loss.h) */
    STK_PIC_MIX,         /* single pixels of versions that are mixed */
    STK_PIC_SORTS
};

/* rounds in which all programs end, if the sorts are launched in turn */
#define STK_PIC_MAX_ROUNDS (STK_PIC_MAX_STEPS * STK_PIC_SORTS)

/* An action of programs alone: one axis of a view of the tile.  u[0]: byte of the tables, where
 * `first | count << 16` of each output is, then its weights, u[1] each; u[2]: their shift; u[3]:
 * the first input that any of them sees; u[4]: a pixel that sees none; across, u[5]: the first row
 * that is made; u[6]: weights are of 32 bits, not 16. */
#define STK_PIC_ACT_VIEW 128

typedef struct stk_pic_coding {     /* the tables of a JPEG in its record */
    uint8_t quant[3], dc[3], ac[3]; /* by component: number of the table that it uses, 0..2 */
    uint8_t n_quant, n_dc, n_ac;    /* tables in the record; components may share them */
    uint32_t quants_at;             /* uint16_t[64] each, natural order */
    uint32_t dcs_at, acs_at;        /* stk_pic_huff each */
} stk_pic_coding;

/* Steps, then actions (stk_action), then tables that they name. */
typedef struct stk_pic_prog {
    uint32_t at; /* offset in the record */
    uint32_t table_bytes;
    uint16_t n_steps, n_acts; /* n_steps 0: there is no program */
    uint16_t n_row;           /* last of the actions, which change the output after color */
    uint16_t n_slots;         /* slots of figures */
    uint16_t areas;           /* areas of the tile's memory: pic_prog.h */
    uint32_t area; /* pixels of each: as many as the largest step has, rounded up to four */
} stk_pic_prog;

typedef struct stk_pic {
    uint32_t size; /* bytes of the record, a multiple of STK_PIC_ALIGN */
    uint16_t kind;
    uint8_t n_comps; /* 1 or 3 */
    uint8_t zero8;
    stk_pic_axis x, y; /* axes of the view; y.flip mirrors top to bottom */
    uint32_t clip_x, clip_y;
    uint32_t need[4]; /* x, y, w, h: pixels of the picture that are sampled; w 0: all is black */
    /* JPEG; ON_GPU: only its size */
    uint32_t width, height;
    uint32_t cols, rows; /* MCUs of the picture */
    /* MCUs that are seen, by any record that shares them: what planes cover */
    uint32_t x0, y0, x1, y1;
    uint8_t max_h, max_v;
    uint8_t h[3], v[3]; /* sampling factors */
    stk_pic_coding tables;
    uint32_t units_at, n_units; /* stk_pic_unit each; WHOLE: none; FRAME: stk_pic_yuv */
    /* bytes of the scan, stuffing as it is stored; 16 more may be read */
    uint32_t data_at, data_len;
    uint64_t arena_at; /* SEEK: offset of the data in the launch's arena; 0: it is in the record */
    uint32_t scan;     /* 1: the data is the scan from its beginning, and may be cached */
    uint32_t fill;     /* value of pixels outside of the picture */
    stk_pic_prog prog;
} stk_pic;

/* The layout of a picture in its output. */
typedef struct stk_pic_lay {
    stk_patch_spec patch; /* how it is cut into patches (kern/patch.h); side 0: it is not */
    uint32_t w, h;        /* size of the area of which it is the upper left part; 0: its own size */
} stk_pic_lay;

/* One picture of a launch: offsets into the slab and the scratch memory. */
typedef struct stk_pic_job {
    uint64_t rec;        /* its record in the slab */
    uint64_t planes;     /* in scratch: one plane per component (stk_pic_plane) */
    uint64_t planes_end; /* end of the planes; SHARED: both are those of the record that decodes */
    uint64_t rows;       /* in scratch: need[3] rows of x.n pixels, 4 bytes each */
    uint64_t taps;       /* in scratch: stk_pic_taps, both axes */
    uint64_t units;      /* in scratch, WHOLE: units that sync finds */
    uint64_t tile;       /* in scratch, with a program: figures, then areas */
    uint64_t end;        /* end of the tile */
    uint64_t keep;       /* in the arena: where the data is cached; 0: it is not */
    uint8_t *out;        /* where the picture goes, aligned to its elements */
    uint64_t out_bytes;  /* exactly the bytes that its pixels take there */
    uint32_t n_units;    /* units of the record; WHOLE: how many there may be */
    uint32_t kind;       /* kind of the record when scratch memory was planned */
    uint32_t source;     /* ON_GPU: number of its picture in the launch */
    uint32_t zero;
    stk_pic_lay lay;
} stk_pic_job;

typedef struct stk_pic_work { /* work of one block of threads: a job, and its first item */
    uint32_t job, first;
} stk_pic_work;

typedef enum stk_pic_dtype {
    STK_PIC_AS_U8,
    STK_PIC_AS_F16,
    STK_PIC_AS_BF16,
    STK_PIC_AS_F32
} stk_pic_dtype;

/* Planes of a video's frame, and its colors as kern/yuv.h has them. */
typedef struct stk_pic_yuv {
    uint64_t at[3];           /* of Y, U, V: bytes of the record's data; of a source: addresses */
    uint32_t stride, cstride; /* bytes */
    uint32_t x, y, w, h;      /* part of the frame that the plane of Y has */
    uint32_t cx, cy, cw, ch;  /* the same for U and V; cw 0: it is gray */
    int32_t c_y, rv, gu, gv, bu, y_zero, c_zero;
    uint32_t shift;
    uint8_t bytes; /* bytes of a value: 1 or 2; 0: these are no planes */
    uint8_t low;   /* unused bits below a value */
    uint8_t step;  /* values from one U to the next: 1, or 2 if U and V alternate */
    uint8_t half_x, half_y;
    uint8_t left, top; /* true if U and V are sited at even columns, at even rows */
    uint8_t zero[5];
} stk_pic_yuv;

/* A picture that is on the GPU: u8 pixels, or the planes of a frame. */
typedef struct stk_pic_source {
    const uint8_t *data;            /* pixel (0, 0), red */
    int64_t step_x, step_y, step_c; /* bytes to the next pixel, row, channel */
    uint32_t width, height;
    stk_pic_yuv yuv;
} stk_pic_source;

typedef struct stk_pic_launch { /* arguments of a launch; all pointers are to GPU memory */
    const uint8_t *slab;
    uint64_t slab_len;
    uint8_t *scratch;
    uint8_t *arena; /* memory of cached pictures (picture_cache.h) */
    uint64_t arena_len;
    const stk_pic_job *job;
    const stk_pic_work *sync, *decode, *across, *down; /* WHOLE; units; source rows; output rows */
    /* pixels of pictures with a program, round by round; `first` | which step */
    const stk_pic_work *tile;
    uint32_t n_jobs, n_sync, n_decode, n_across, n_down, n_tile;
    uint32_t n_rounds;                      /* launches of steps */
    uint32_t round_n[STK_PIC_MAX_ROUNDS];   /* by round: its entries of `tile` */
    uint8_t round_sort[STK_PIC_MAX_ROUNDS]; /* by round: the sort of its steps */
    /* by job: 0, or STK_PIC_BAD_*: its pixels are wrong; zeroed before the launch */
    uint32_t *status;
    /* the pictures, if all are ON_GPU, or FRAME with `frames`; NULL: none is */
    const stk_pic_source *source;
    uint32_t n_sources;
    uint32_t frames; /* 1: the pictures in `source` are frames */
    uint32_t dtype;  /* stk_pic_dtype */
    uint32_t packed; /* 0: planes, 1: interleaved */
    uint32_t laid;   /* 1: pictures are cut, or parts of larger ones (stk_pic_lay) */
    float mul[3], add[3];
    uint32_t blocks; /* at most so many blocks of threads at once; 0: as many as there are */
} stk_pic_launch;

enum {
    STK_PIC_BAD_CODE = 1, /* an invalid Huffman code, or a block with too many coefficients */
    STK_PIC_BAD_END = 2,  /* a unit does not end where it must: the seek points do not fit */
    STK_PIC_BAD_SYNC = 4, /* units could not be found */
    STK_PIC_BAD_RECORD = 8
};

#endif
