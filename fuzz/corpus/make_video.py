#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_mp4, fuzz_matroska, fuzz_video_points, fuzz_frame_format, fuzz_packet and fuzz_h264, and their dictionaries, beside this script.

Needs the ffmpeg program; points come from build/tests/video/video_dump's library, so they are made by hand here.
"""
import pathlib
import struct
import subprocess
import tempfile

import make_sound

OUT = pathlib.Path(__file__).parent
H264 = "-c:v libx264 -preset ultrafast -crf 51 -x264-params bframes=2:keyint=5:open-gop=1:threads=1"
MP4 = {
    "plain": f"{H264}", "faststart": f"{H264} -movflags +faststart", "fragments": f"{H264} -movflags +frag_keyframe+empty_moov+default_base_moof",
    "frame_fragments": f"{H264} -movflags +frag_every_frame", "mpeg4": "-c:v mpeg4 -q:v 31", "mjpeg.mov": "-c:v mjpeg -q:v 31",
    "vp9": "-c:v libvpx-vp9 -deadline realtime -cpu-used 8", "late": f"-itsoffset 0.5 {H264}",
}
MATROSKA = {"plain": f"{H264}", "live": f"{H264} -live 1", "vp8.webm": "-c:v libvpx -deadline realtime -auto-alt-ref 1 -lag-in-frames 4",
            "clusters": f"{H264} -cluster_time_limit 60", "mpeg4": "-c:v mpeg4 -q:v 31"}


def make(options, suffix, frames=8):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a" + suffix)
        words = options.split()
        before = words[:2] if words[0] == "-itsoffset" else []
        subprocess.run(["ffmpeg", "-v", "error", *before, "-f", "lavfi", "-i", "testsrc2=size=32x32:rate=30", "-frames:v", str(frames), "-pix_fmt", "yuv420p",
                        "-threads", "1", "-bitexact", *words[len(before):], str(path)], check=True, stdin=subprocess.DEVNULL)
        return path.read_bytes()


def write(folder, seeds):
    folder = OUT / folder
    folder.mkdir(exist_ok=True)
    for name, data in seeds.items():
        assert len(data) <= 15000, (name, len(data))
        (folder / name).write_bytes(data)


def points(n, key, step=512):
    """Points of n frames of 100 bytes, one unit; docs: src/video/video_points.h."""
    def varint(v):
        out = b""
        while v > 127:
            out += bytes([v & 127 | 128])
            v >>= 7
        return out + bytes([v])
    frames = b"".join(varint(100 << 4 | (i % key == 0)) + varint(0) for i in range(n))
    entry = struct.pack("<IIIIQq", 0, 0, 88 + 32, 0, 48, 0)
    head = struct.pack("<BBBBIIBBBBIIIIqqQIIIIIIII", ord("V"), 1, 4, 1, 64, 48, 2, 0, 0, 1, 1, 15360, n, n, 0, n * step, 48 + 100 * n, 0, 1, 1, step,
                       -(-n // key), key, 88 + 32 + len(frames), 0)
    assert len(head) == 88
    return head + entry + frames


def streams():
    """Setups and first packets, out of boxes avcC and hvcC of one-frame files: [codec, length of the setup, setup, packet]."""
    def parts(data, box):
        at = data.index(box)
        setup = data[at + 4:at - 4 + struct.unpack(">I", data[at - 4:at])[0]]
        at = data.index(b"mdat")
        return setup, data[at + 4:at - 4 + struct.unpack(">I", data[at - 4:at])[0]]
    out = {}
    for i, (name, options, box) in enumerate([
            ("h264", H264, b"avcC"), ("high", "-c:v libx264 -preset ultrafast -crf 51 -profile:v high10 -x264-params cqm=jvt", b"avcC"),
            ("hevc", "-c:v libx265 -preset ultrafast -crf 51 -x265-params log-level=none:info=0:pools=1", b"hvcC")]):
        setup, packet = parts(make(options, ".mp4", 1), box)
        out[name] = bytes([i // 2]) + struct.pack("<H", len(setup)) + setup + packet[:2000]
    webm = make("-c:v libvpx-vp9 -deadline realtime -cpu-used 8", ".webm", 1)
    at = webm.index(b"\x49\x83\x42") - 1
    out["vp9"] = bytes([2, 0, 0]) + webm[at:at + 1500]
    return out


def packets():
    """The same by the numbers of stk_video_codec, and packets of codecs that frame_format does not know."""
    number = {0: 1, 1: 2, 2: 4}
    out = {name: bytes([number[data[0]]]) + data[1:1500] for name, data in streams().items()}
    out["mpeg4"] = bytes([6, 0, 0, 0, 0, 1, 0xb6, 0x90, 1, 2, 3])
    out["av1"] = bytes([5, 0, 0, 0x12, 0, 0x0a, 0x0b]) + bytes(12)
    out["spare"] = bytes([1, 7, 0, 1, 100, 0, 10, 255, 225, 0, 0, 0, 0, 3, 1, 0x9e, 0x22])
    out["recovery"] = bytes([1, 7, 0, 1, 100, 0, 10, 255, 225, 0, 0, 0, 0, 4, 6, 6, 1, 0x80, 0, 0, 0, 3, 0x41, 0x88, 0x80])
    return out


def with_sound(video):
    """Points of a video with those of eight packets of sound."""
    sound = make_sound.packets(b"m", 1, b"\x15\x88\0\0", [31, 29] * 4)
    sound = sound[1:1 + 4 * sound[0]]
    return video[:84] + struct.pack("<I", len(sound)) + video[88:] + sound


def runs():
    """[length of the setup, setup, then length and bytes of each packet] of H.264 files with references of several kinds."""
    def run_of(params, extra=""):
        data = make(f"-c:v libx264 -preset ultrafast -crf 51 -x264-params keyint=250:threads=1:scenecut=0:{params} {extra}", ".mp4", 14)
        at = data.index(b"avcC")
        out = [data[at + 4:at - 4 + struct.unpack(">I", data[at - 4:at])[0]]]
        at = data.index(b"stsz") + 16
        sizes = struct.unpack_from(f">{struct.unpack_from('>I', data, at - 4)[0]}I", data, at)
        at = data.index(b"mdat") + 4
        for size in sizes:
            out.append(data[at:at + size])
            at += size
        return b"".join(struct.pack("<H", len(part)) + part for part in out)
    return {"one": run_of("ref=1:bframes=3:b-pyramid=normal:cabac=1"), "many": run_of("ref=4:bframes=3:b-pyramid=normal:weightp=2"),
            "strict": run_of("ref=2:bframes=3:b-pyramid=strict:slices=2"), "fields": run_of("interlaced=1")}


def main():
    write("frame_format", streams())
    write("packet", packets())
    write("h264", runs())
    mp4 = {name.split(".")[0]: make(o, ".mov" if name.endswith(".mov") else ".mp4") for name, o in MP4.items()}
    mp4["cut"] = mp4["faststart"][:700]
    mp4["billion"] = mp4["plain"].replace(b"stsz\0\0\0\0\0\0\0\0\0\0\0\x08", b"stsz\0\0\0\0\0\0\0\1\x3b\x9a\xca\0")
    write("mp4", mp4)
    mkv = {name.split(".")[0]: make(o, ".webm" if name.endswith(".webm") else ".mkv") for name, o in MATROSKA.items()}
    mkv["cut"] = mkv["plain"][:900]
    write("matroska", mkv)
    write("video_points", {"one": b"\xff\xff" + points(1, 1), "many": b"\x58\0" + points(200, 12), "sliced": b"\1\0" + points(64, 64),
                           "sound": b"\x58\0" + with_sound(points(12, 4)), "lies": b"\xff\xff" + points(3, 1)[:80] + b"\xff\xff\xff\x7f" + points(3, 1)[84:]})
    (OUT / "mp4.dict").write_text("".join(f'"{w}"\n' for w in "ftyp moov mvhd trak tkhd edts elst mdia mdhd hdlr vide minf stbl stsd avc1 hvc1 av01 vp09 mp4v "
                                          "avcC hvcC av1C vpcC esds colr nclx stts ctts stsc stsz stz2 stco co64 stss mvex trex moof traf tfhd tfdt trun".split()))
    ids = "1A45DFA3 18538067 1549A966 2AD7B1 1654AE6B AE D7 83 86 63A2 23E383 6D80 E0 B0 BA 55B0 55B1 55B9 1F43B675 E7 A3 A0 A1 FB 1C53BB6B".split()
    (OUT / "matroska.dict").write_text("".join('"' + "".join(f"\\x{i[k:k + 2]}" for k in range(0, len(i), 2)) + '"\n' for i in ids))


if __name__ == "__main__":
    main()
