/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_voc - any bytes as an annotation of Pascal VOC, and those after the first NUL as the list:
 * samples whose every field can be found again, or a clean error. */
#include "annotated_folder.h"
#include "format/annotated.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const folders[] = { "ImageSets", "ImageSets/Main", "JPEGImages",
                                           "Annotations" };
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t xml = nul ? (size_t)(nul - data) : size;
    char name[128];

    if (fuzz_folder()) {
        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
            fuzz_mkdir(folders[i]);
        fuzz_write("JPEGImages/a.jpg", "x", 1);
    }
    fuzz_write("Annotations/a.xml", data, xml);
    if (nul)
        fuzz_write("ImageSets/Main/l.txt", nul + 1, size - xml - 1);
    else
        fuzz_write("ImageSets/Main/l.txt", "a -1\n", 5);
    snprintf(name, sizeof name, "voc://%s/ImageSets/Main/l.txt", fuzz_root);
    fuzz_index(&stk_format_voc, name);
    return 0;
}
