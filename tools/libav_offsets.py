#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rows of src/video/libav_table.c: where fields are in the structs of one libavcodec major.

    tools/libav_offsets.py [INCLUDE_FOLDER]        prints the row of these headers (absent: the system's)

libavcodec is opened at run time, so its headers are not there when stoker is compiled, and its structs differ by major
version.  The compiler is asked, once per major.  A row goes into the table by hand; `tools/libav_offsets.py --check` fails
where the system's headers give another row than the table has.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

FIELDS = [
    ("AVCodecContext", "log_level_offset"), ("AVCodecContext", "extradata"), ("AVCodecContext", "extradata_size"),
    ("AVPacket", "pts"), ("AVPacket", "data"), ("AVPacket", "size"),
    ("AVFrame", "data"), ("AVFrame", "linesize"), ("AVFrame", "width"), ("AVFrame", "height"), ("AVFrame", "format"),
    ("AVFrame", "pts"), ("AVFrame", "flags"), ("AVFrame", "color_range"), ("AVFrame", "colorspace"),
    ("AVFrame", "chroma_location"), ("AVFrame", "decode_error_flags"),
]
TABLE = pathlib.Path(__file__).resolve().parents[1] / "src" / "video" / "libav_table.c"


def row(include=None):
    lines = "".join(f'    printf(", %zu", offsetof({s}, {f}));\n' for s, f in FIELDS)
    source = ("#include <stddef.h>\n#include <stdio.h>\n#include <libavcodec/avcodec.h>\n#include <libavutil/frame.h>\n"
              'int main(void)\n{\n    printf("{ %d, %d", LIBAVCODEC_VERSION_MAJOR, LIBAVUTIL_VERSION_MAJOR);\n'
              f'{lines}    puts(" }},");\n    return 0;\n}}\n').replace("}},", "},")
    with tempfile.TemporaryDirectory() as folder:
        c = pathlib.Path(folder, "offsets.c")
        c.write_text(source)
        flags = ["-I", include] if include else []
        subprocess.run(["cc", *flags, "-w", c, "-o", c.with_suffix("")], check=True)
        return subprocess.run([c.with_suffix("")], check=True, capture_output=True, text=True).stdout.strip()


def main(args):
    if args[:1] != ["--check"]:
        print(row(*args))
        return 0
    made = row(*args[1:])
    body = re.sub(r"/\*.*?\*/", "", TABLE.read_text().split("[] = {")[1].split("};")[0])
    numbers, n = re.findall(r"\d+", body), len(FIELDS) + 2
    rows = [numbers[i:i + n] for i in range(0, len(numbers), n)]
    if re.findall(r"\d+", made) in rows:
        return 0
    print(f"libav_offsets: {TABLE.name} has no row {made}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
