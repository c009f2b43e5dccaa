#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the clips beside this script, and the CRCs of their frames' planes, as the CPU decodes them: ffmpeg, build/tests/video/video_dump."""
import json
import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[3]
CLIPS = {"h264.mp4": ("144x96", 24, "yuv420p", "-c:v libx264 -preset veryfast -crf 40 -x264-params bframes=2:keyint=12:min-keyint=12:scenecut=0"),
         "hevc.mp4": ("176x144", 16, "yuv420p", "-c:v libx265 -preset ultrafast -crf 40 -x265-params log-level=none:info=0:keyint=8:bframes=3:open-gop=1"),
         "hevc10.mkv": ("176x144", 12, "yuv420p10le", "-c:v libx265 -preset ultrafast -crf 40 -x265-params log-level=none:info=0:keyint=6:bframes=2:open-gop=0"),
         "vp9.webm": ("144x128", 20, "yuv420p", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 10 -auto-alt-ref 1 -lag-in-frames 8 -b:v 60k")}


def main():
    for name, (size, frames, fmt, options) in CLIPS.items():
        path = HERE / name
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate=30,format={fmt}", "-frames:v", str(frames), "-pix_fmt", fmt,
                        "-threads", "1", "-bitexact", *options.split(), str(path)], check=True, stdin=subprocess.DEVNULL)
        assert path.stat().st_size <= 15000, (name, path.stat().st_size)
        out = subprocess.run([ROOT / "build/tests/video/video_dump", path], input=f"whole {' '.join(map(str, range(frames)))}\n", capture_output=True, text=True, check=True)
        crcs = json.loads(out.stdout.splitlines()[-1])
        path.with_suffix(path.suffix + ".crc").write_text("".join(f"{crc:08x}\n" for _, _, crc in crcs))


if __name__ == "__main__":
    main()
