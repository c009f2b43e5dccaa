/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_yolo - any bytes as a text file of YOLO's, and those after the first NUL as data.yaml:
 * samples whose every field can be found again, or a clean error. */
#include "annotated_folder.h"
#include "source/pair_folders.h"

#define PICTURE "P6 3 2 255 abcdefghijklmnopqr"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t text = nul ? (size_t)(nul - data) : size;
    char name[256];
    stk_names names = { 0 };
    stk_error err = { 0 };

    if (fuzz_folder()) {
        fuzz_mkdir("images");
        fuzz_mkdir("labels");
        fuzz_write("images/a.ppm", PICTURE, sizeof PICTURE - 1);
    }
    fuzz_write("labels/a.txt", data, text);
    snprintf(name, sizeof name, "yolo://%s/images", fuzz_root);
    if (nul) {
        fuzz_write("data.yaml", nul + 1, size - text - 1);
        snprintf(name, sizeof name, "%s/data.yaml", fuzz_root);
        fuzz_clean(stk_yolo_add(name, &names, &err), &err);
        for (size_t i = 0; i < names.n; i++) /* in its folder or below */
            FUZZ_CHECK(
                !strncmp(names.name[i] + strlen(STK_YOLO_SCHEME), fuzz_root, strlen(fuzz_root)) &&
                !strstr(names.name[i], ".."));
        stk_names_fini(&names);
        snprintf(name, sizeof name, "yolo://%s/images&names=%s/data.yaml", fuzz_root, fuzz_root);
    }
    fuzz_index(&stk_format_yolo, name);
    return 0;
}
