#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds and dictionaries of fuzz_wav, fuzz_flac, fuzz_flac_ogg, fuzz_mp3, fuzz_opus, fuzz_vorbis, fuzz_sound_points and fuzz_sound_track
beside this script.  Needs flac, lame, opusenc, oggenc and ffmpeg."""

import math
import pathlib
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent


def stereo32(n):
    """32 bits, two channels that differ little: their difference has 33 bits."""
    both = ((int(2**30 * math.sin(i * 0.05)), int(2**20 * math.sin(i * 0.31))) for i in range(n))
    return b"".join(struct.pack("<ii", x, x + d) for x, d in both)


def wav(samples, rate=8000, channels=1, kind=1, bits=16, form=b"RIFF", extra=b""):
    frame = channels * bits // 8
    fmt = struct.pack("<HHIIHH", kind, channels, rate, rate * frame, frame, bits) + extra
    chunks = b"fmt " + struct.pack("<I", len(fmt)) + fmt + b"LIST" + struct.pack("<I", 3) + b"abc\0"
    if form == b"RF64":
        chunks = b"ds64" + struct.pack("<IQQQI", 28, 0, len(samples), 0, 0) + chunks
    size = 0xFFFFFFFF if form == b"RF64" else len(samples)
    return form + struct.pack("<I", len(chunks) + 12 + len(samples)) + b"WAVE" + chunks + b"data" + struct.pack("<I", size) + samples


def tone(n, channels=1):
    return b"".join(struct.pack("<h", int(8000 * math.sin(i * (0.05 + 0.02 * c)) + 500 * math.sin(i * i))) for i in range(n) for c in range(channels))


def run(args, data):
    return subprocess.run(args, input=data, check=True, capture_output=True).stdout


def put(name, seeds):
    (HERE / name).mkdir(exist_ok=True)
    for seed, data in seeds.items():
        (HERE / name / seed).write_bytes(data)


def ogg_sum(page):
    """A page with its sum."""
    page, v = page[:22] + bytes(4) + page[26:], 0
    for byte in page:
        v ^= byte << 24
        for _ in range(8):
            v = (v << 1 ^ 0x04C11DB7 if v >> 31 else v << 1) & 0xFFFFFFFF
    return page[:22] + struct.pack("<I", v) + page[26:]


def ogg_pages(data):
    at = 0
    while at < len(data):
        end = at + 27 + data[at + 26] + sum(data[at + 27:at + 27 + data[at + 26]])
        yield data[at:end]
        at = end


def ogg_times(data, first, last):
    """A page for each packet (none of which is continued on another page); the first page of sound and the last have these times."""
    made = []
    for page in ogg_pages(data):
        at, size, lacing = 27 + page[26], 0, b""
        for n in page[27:27 + page[26]]:
            size, lacing = size + n, lacing + bytes([n])
            if n < 255:
                made.append((page[5] & 2, page[6:14], page[14:18], lacing, page[at:at + size]))
                at, size, lacing = at + size, 0, b""
    sound = next(i for i, m in enumerate(made) if m[1] != bytes(8))
    out = b""
    for i, (flags, time, serial, lacing, body) in enumerate(made):
        time = struct.pack("<q", first) if i == sound else struct.pack("<q", last) if i == len(made) - 1 else time
        flags |= 4 * (i == len(made) - 1)
        out += ogg_sum(b"OggS\0" + bytes([flags]) + time + serial + struct.pack("<II", i, 0) + bytes([len(lacing)]) + lacing + body)
    return out


def far(data):
    """Times between which there is no difference of 64 bits."""
    return {"before_time": ogg_times(data, -2**63, 100), "after_time": ogg_times(data, 1, 2**63 - 1), "all_time": ogg_times(data, 2**63 - 1, -2**63)}


def points(tag, setup=b"", marks=((0, 60), (500, 300), (1000, 700))):
    head = struct.pack("<cBHIQQQIIIIII", tag, 1, 1, 8000, 1500, 60, 1000, 0, 0, 0, len(setup), len(marks), 0)
    body = head + setup + b"".join(struct.pack("<QQ", *m) for m in marks)
    body += b"\0" * (-len(body) % 4)
    return bytes([len(body) // 4]) + body + bytes(range(256)) * 2


def varint(v):
    out = b""
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def packets(tag, coding, setup, sizes, gap=0, rate=8000, per=128):
    """Points of a sound track: 1,000 samples of packets of `per`."""
    packed = b"".join(varint(size << 2 | (gap and i > 0)) + (varint(gap << 1) if gap and i else b"") for i, size in enumerate(sizes))
    fixed = 80 + len(setup) + 24
    head = struct.pack("<cBBBIIIIIQQQIIIIqQ", tag, 2, coding, 0, rate, 1, per, per - 24, 1, 24, 1000, 2000, len(sizes), len(setup), fixed + len(packed), 0, 0, 0)
    body = head + setup + struct.pack("<QQII", 40, 0, fixed, 0) + packed
    body += b"\0" * (-len(body) % 4)
    return bytes([len(body) // 4]) + body + bytes(range(256)) * 3


def counted():
    """An MP3 that was written into a file: its first frame has counts of frames and bytes."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "x.wav").write_bytes(wav(tone(2500)))
        run(["lame", "--quiet", "-b", "8", "--resample", "8", "-m", "m", f"{folder}/x.wav", f"{folder}/x.mp3"], b"")
        return (pathlib.Path(folder) / "x.mp3").read_bytes()


TRACKS = {"aac.m4a": "-c:a aac", "faststart.m4a": "-c:a aac -movflags +faststart", "alac.m4a": "-c:a alac", "flac.mp4": "-c:a flac -strict -2",
          "opus.mp4": "-c:a libopus -ar 48000 -strict -2", "ac3.mov": "-c:a ac3 -b:a 32k -ar 32000", "opus.webm": "-c:a libopus -ar 48000", "alac.mka": "-c:a alac",
          "mp3.mka": "-c:a libmp3lame -b:a 8k", "aac.aac": "-c:a aac",
          "fragments.mp4": "-c:a aac -movflags +frag_keyframe+empty_moov -frag_duration 100000"}
ATOMS = ("ftyp moov mvhd trak tkhd edts elst mdia mdhd hdlr soun minf stbl stsd mp4a alac fLaC Opus ac-3 ec-3 wave esds dfLa dOps stts stsc stsz stz2 stco "
         "co64 mvex trex moof traf tfhd tfdt trun OpusHead A_AAC A_OPUS A_FLAC A_ALAC A_MPEG/L3").split()
DICTIONARIES = {
    "wav": ["RIFF", "RF64", "BW64", "WAVE", "fmt ", "data", "ds64", "LIST", r"\xfe\xff", r"\xff\xff\xff\xff", r"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"],
    "flac": ["fLaC", r"\xff\xf8", r"\xff\xf9", r"\x80\x00\x00\x22", r"\x84\x00\x00\x00", "ID3"],
    "flac_ogg": ["OggS", r"\x7fFLAC\x01\x00", "fLaC", r"\xff\xf8", r"\xff\xf9", r"\x84\x00\x00\x00"],
    "mp3": ["ID3", "TAG", "APETAGEX", "Xing", "Info", "VBRI", "LAME", r"\xff\xfb", r"\xff\xf3", r"\xff\xe3"],
    "opus": ["OggS", "OpusHead", "OpusTags", r"\x00\x02", r"\x00\x04"], "vorbis": ["OggS", r"\x01vorbis", r"\x03vorbis", r"\x05vorbis", "BCV"],
    "sound_points": ["W", "F", "M", "O", "V", "a", "k", "m", r"\x01", r"\xff\xff\xff\xff"],
    "sound_track": [*ATOMS, r"\x1a\x45\xdf\xa3", r"\x18\x53\x80\x67", r"\x16\x54\xae\x6b", r"\x1f\x43\xb6\x75", r"\x56\xaa", r"\x75\xa2", r"\xff\xf1", r"\xff\xf9"],
}


def track(name, options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, name)
        run(["ffmpeg", "-v", "error", "-f", "s16le", "-ar", "8000", "-i", "-", "-bitexact", *options.split(), str(path)], tone(1600))
        return path.read_bytes()


def main():
    for name, words in DICTIONARIES.items():
        (HERE / f"{name}.dict").write_text("".join(f'"{w}"\n' for w in words))
    put("sound_track", {name: track(name, options) for name, options in TRACKS.items()})
    guid = struct.pack("<HHI", 22, 24, 3) + bytes.fromhex("0100000000001000800000aa00389b71")
    put("wav", {"pcm16": wav(tone(100)), "stereo": wav(tone(80, 2), channels=2), "u8": wav(bytes(range(200)), bits=8),
                "float": wav(struct.pack("<50f", *(math.sin(i) for i in range(50))), kind=3, bits=32),
                "alaw": wav(bytes(range(200)), kind=6, bits=8), "mulaw": wav(bytes(range(200)), kind=7, bits=8),
                "extensible": wav(bytes(range(240)), kind=0xFFFE, bits=24, extra=guid), "rf64": wav(tone(60), form=b"RF64"),
                "double_nan": wav(struct.pack("<9d", *([0.5] * 8 + [math.nan])), kind=3, bits=64), "cut": wav(tone(100))[:150]})
    flac = ["flac", "-s", "-c", "--no-padding", "--no-seektable", "-"]
    put("flac", {"mono": run([*flac, "-b", "192"], wav(tone(900))), "stereo": run([*flac, "-b", "256", "-8"], wav(tone(700, 2), channels=2)),
                 "fixed": run([*flac, "-0", "-b", "128"], wav(tone(400))), "constant": run([*flac, "-b", "64"], wav(b"\1\0" * 300)),
                 "verbatim": run([*flac, "-b", "64"], wav(bytes((i * i * 7919 >> 5) & 255 for i in range(400))))})
    ogg = run([*flac[:-1], "--ogg", "-b", "192", "--serial-number=1", "-"], wav(tone(900)))
    put("flac_ogg", {"mono": ogg, "stereo": run([*flac[:-1], "--ogg", "-b", "256", "--serial-number=1", "-"], wav(tone(700, 2), channels=2)), **far(ogg)})
    raw = ["flac", "-s", "-c", "--no-padding", "--no-seektable", "--force-raw-format", "--endian=little", "--sign=signed", "--channels=2", "--bps=32",
           "--sample-rate=8000", "-b", "128"]
    put("flac", {"wide": run([*raw, "-0", "-m", "-"], stereo32(400)), "wide_best": run([*raw, "-8", "-"], stereo32(400))})
    mp3 = run(["lame", "--quiet", "-b", "8", "--resample", "8", "-m", "m", "-", "-"], wav(tone(2500)))
    put("mp3", {"counted": counted(), "mono": mp3, "junk": mp3[:400] + b"garbage" * 5 + mp3[400:], "tagged": b"ID3\4\0\0\0\0\0\5hello" + mp3 + b"TAG" + b"\0" * 125})
    opus = run(["opusenc", "--quiet", "--bitrate", "8", "--discard-comments", "-", "-"], wav(tone(1500)))
    put("opus", {"mono": opus, **far(opus)})
    vorbis = run(["oggenc", "-Q", "-q", "0", "-r", "-B", "16", "-C", "1", "-R", "8000", "-o", "-", "-"], tone(1200))
    put("vorbis", {"mono": vorbis, **far(vorbis)})
    put("sound_points", {"wav": points(b"W", b"\1\2\0\0\0\0\0\0", ()), "flac": points(b"F", run([*flac], wav(tone(100)))[8:42]),
                         "mp3": points(b"M", struct.pack("<IIQ", 576, 0, 0)), "opus": points(b"O", b"\0" * 16 + b"OpusHead\1\1" + b"\0" * 9),
                         "vorbis": points(b"V", b"\0" * 16), "adts": packets(b"a", 1, b"", [30] * 8), "mp4": packets(b"m", 1, b"\x15\x88\0\0", [31, 29] * 4),
                         "matroska": packets(b"k", 2, b"", [40] * 8, 7),
                         "opus_track": packets(b"k", 7, b"OpusHead\1\1" + bytes(9), [40] * 8, 300, 48000, 960)})


if __name__ == "__main__":
    main()
