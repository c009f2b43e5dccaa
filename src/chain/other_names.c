/* SPDX-License-Identifier: Apache-2.0 */
/* other_names.c - what torchvision, Albumentations and Pillow call a step, and what it is called
 * here.
 *
 * A chain that names one of these gets the right word in its error.  The words near it by spelling
 * are often wrong: `random_horizontal_flip` looks most like `random_resized_crop`. */
#include <string.h>

#include "base/registry.h"
#include "chain/chain.h"

typedef struct other {
    const char *name, *ours;
} other;

static const other others[] = {
    { "adjust_brightness", "brightness" },
    { "adjust_contrast", "contrast" },
    { "adjust_hue", "hue" },
    { "adjust_saturation", "saturation" },
    { "adjust_sharpness", "sharpness" },
    { "clahe", "equalize" },
    { "coarse_dropout", "random_erasing" },
    { "convert_image_dtype", "to" },
    { "cutout", "random_erasing" },
    { "decode", "image" },
    { "decode_image", "image" },
    { "flip", "hflip" },
    { "flip_left_right", "hflip" },
    { "flip_lr", "hflip" },
    { "flip_top_bottom", "vflip" },
    { "gauss_noise", "gaussian_noise" },
    { "gaussian_noise_augmentation", "gaussian_noise" },
    { "horizontal_flip", "hflip" },
    { "hue_saturation_value", "hsv" },
    { "image_compression", "jpeg_artifacts" },
    { "imread", "image" },
    { "jpeg", "image" },
    { "jpeg_compression", "jpeg_artifacts" },
    { "lambda", "call" },
    { "long_max_size", "resize" },
    { "longest_max_size", "letterbox" },
    { "mirror", "hflip" },
    { "pil_to_tensor", "to" },
    { "random_adjust_sharpness", "sharpness" },
    { "random_affine", "affine" },
    { "random_autocontrast", "autocontrast" },
    { "random_brightness", "brightness" },
    { "random_brightness_contrast", "color_jitter" },
    { "random_channel_permutation", "channel_shuffle" },
    { "random_choice", "one_of" },
    { "random_contrast", "contrast" },
    { "random_equalize", "equalize" },
    { "random_flip", "hflip" },
    { "random_gaussian_blur", "gaussian_blur" },
    { "random_gray", "grayscale" },
    { "random_grayscale", "grayscale" },
    { "random_horizontal_flip", "hflip" },
    { "random_hue", "hue" },
    { "random_invert", "invert" },
    { "random_io_ucrop", "iou_crop" },
    { "random_iou_crop", "iou_crop" },
    { "random_perspective", "perspective" },
    { "random_photometric_distort", "color_jitter" },
    { "random_posterize", "posterize" },
    { "random_rotate", "rotate" },
    { "random_rotation", "rotate" },
    { "random_saturation", "saturation" },
    { "random_solarize", "solarize" },
    { "random_vertical_flip", "vflip" },
    { "random_zoom_out", "zoom_out" },
    { "resized_crop", "random_resized_crop" },
    { "rotation", "rotate" },
    { "rrc", "random_resized_crop" },
    { "shift_scale_rotate", "affine" },
    { "smallest_max_size", "resize" },
    { "to_dtype", "to" },
    { "to_float", "to" },
    { "to_gray", "grayscale" },
    { "to_image", "to" },
    { "to_tensor", "to" },
    { "to_tensor_v2", "to" },
    { "trivial_augment_wide", "trivial_augment" },
    { "vertical_flip", "vflip" },
};

/* RandomHorizontalFlip as random_horizontal_flip; 0: it is too long. */
static int snake(char *out, size_t size, const char *name)
{
    size_t n = 0;

    for (const char *p = name; *p; p++) {
        int upper = *p >= 'A' && *p <= 'Z', after_lower = p > name && p[-1] >= 'a' && p[-1] <= 'z';

        if (n + 3 > size)
            return 0;
        if (upper && after_lower)
            out[n++] = '_';
        out[n++] = (char)(upper ? *p + 32 : *p);
    }
    out[n] = 0;
    return 1;
}

/* The name as the registry keeps it: the caller's may be on the stack. */
static const char *registered(const stk_registry *r, const char *name)
{
    const stk_codec *codec = stk_registry_find(r, STK_PLUGIN_CODEC, name);
    const stk_op *op = stk_registry_find(r, STK_PLUGIN_OP, name);

    return codec ? codec->name : op ? op->name : NULL;
}

const char *stk_chain_other_name(const stk_registry *r, const char *name)
{
    const char *ours = NULL;
    char plain[80];

    if (!snake(plain, sizeof plain, name))
        return NULL;
    if (strcmp(plain, name) != 0)
        ours = plain;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(others[i].name, plain))
            ours = others[i].ours;
    return ours ? registered(r, ours) : NULL;
}

const char *stk_chain_batch_name(const char *name)
{
    static const other batch[] = {
        { "cut_mix", "cutmix(image, label)" },
        { "cutmix", "cutmix(image, label)" },
        { "label_smoothing", "label_smoothing(label, 0.1)" },
        { "mix_up", "mixup(image, label)" },
        { "mixup", "mixup(image, label)" },
        { "mixup_cutmix", "mixup_cutmix(image, label)" },
    };
    char plain[80];

    if (!snake(plain, sizeof plain, name))
        return NULL;
    for (size_t i = 0; i < sizeof batch / sizeof *batch; i++)
        if (!strcmp(batch[i].name, plain))
            return batch[i].ours;
    return NULL;
}
