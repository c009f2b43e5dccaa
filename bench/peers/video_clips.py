# SPDX-License-Identifier: Apache-2.0
"""One side of bench/video.py, in the Python that has its library: jobs come as lines of JSON, and so do the figures.

A job is {"who", "file" or "files", "starts", "frames", "rate", "chain"}; the answer is {"cpu", "frames", "checks"}: processor
seconds of this whole process, and sums of some pixels, so that a contender that shows other frames is noticed.

A contender gives its clips, and None where the clock starts: what came before is not timed, and is held as what follows is.  Else memory
that a loop has from its first batches on would be made, and cleared by the kernel, while the clock runs."""
import json
import os
import resource
import sys
import tempfile

FRAMES = {}
WARM = 3  # epochs that are not timed: as many as batches that are in use at a time, where an epoch is one batch


def contender(name):
    def keep(function):
        FRAMES[name] = function
        return function
    return keep


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rows_of(loader):
    for batch in loader:
        yield batch["video"].numpy()[0]


@contender("stoker")
def stoker(job):
    import stoker as library
    times = [(start + 0.25) / job["rate"] for start in job["starts"]]
    files = job.get("files") or [job["file"]] * len(times)
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(files[0]), suffix=".csv") as table:
        table.write("path,time\n" + "".join(f"{os.path.basename(path)},{time:.6f}\n" for path, time in zip(files, times, strict=True)))
        table.flush()
        chain = job.get("chain") or "center_crop(({}, {})) | to(u8, hwc)".format(*job["size"])
        fields = {"video": f"from(path) | open | video(frames={job['frames']}, at=time) | {chain}", "time": "from(time) | float"}
        with library.Loader(table.name, fields, batch_size=1, num_workers=job.get("workers", 1)) as loader:
            for _ in range(0 if job.get("fresh") else WARM):
                yield from rows_of(loader)
            yield None
            for i, clip in enumerate(rows_of(loader)):
                if i == job.get("skip"):
                    yield None
                yield clip


@contender("stoker windows")
def stoker_windows(job):
    import stoker as library
    chain = job.get("chain") or "center_crop(({}, {})) | to(u8, hwc)".format(*job["size"])
    windows = library.Windows(frames=job["frames"], step=job["frames"])
    with library.Loader(library.open(job["files"], windows=windows), {"video": f"video | {chain}"}, shuffle=job.get("shuffle", "block"), batch_size=1,
                        num_workers=job.get("workers", 1)) as loader:
        for _ in range(WARM):
            yield from rows_of(loader)
        yield None
        yield from rows_of(loader)


@contender("torchcodec, per clip")
def torchcodec_per_clip(job):
    from torchcodec.decoders import VideoDecoder
    for start in job["starts"]:
        decoder = VideoDecoder(job["file"], dimension_order="NHWC", num_ffmpeg_threads=1)
        yield decoder.get_frames_in_range(start, start + job["frames"]).data.numpy()


@contender("torchcodec, approximate")
def torchcodec_approximate(job):
    from torchcodec.decoders import VideoDecoder
    for start in job["starts"]:
        decoder = VideoDecoder(job["file"], dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="approximate")
        yield decoder.get_frames_in_range(start, start + job["frames"]).data.numpy()


@contender("torchcodec, kept open")
def torchcodec_open(job):
    from torchcodec.decoders import VideoDecoder
    decoder = VideoDecoder(job["file"], dimension_order="NHWC", num_ffmpeg_threads=1)
    yield None
    for start in job["starts"]:
        yield decoder.get_frames_in_range(start, start + job["frames"]).data.numpy()


@contender("PyAV, per clip")
def pyav_per_clip(job):
    import av
    import numpy
    for start in job["starts"]:
        with av.open(job["file"]) as container:
            stream = container.streams.video[0]
            stream.thread_count = 1
            first = (stream.start_time or 0) + round(start / job["rate"] / stream.time_base)
            container.seek(first, stream=stream)
            frames = []
            for frame in container.decode(stream):
                if frame.pts >= first:
                    frames.append(frame.to_ndarray(format="rgb24"))
                if len(frames) == job["frames"]:
                    break
            yield numpy.stack(frames)


@contender("decord2, per clip")
def decord_per_clip(job):
    import decord
    for start in job["starts"]:
        reader = decord.VideoReader(job["file"], num_threads=1)
        yield reader.get_batch(range(start, start + job["frames"])).asnumpy()


@contender("decord2, kept open")
def decord_open(job):
    import decord
    reader = decord.VideoReader(job["file"], num_threads=1)
    yield None
    for start in job["starts"]:
        yield reader.get_batch(range(start, start + job["frames"])).asnumpy()


def run(job):
    frames, checks, begin = 0, [], cpu()
    for clip in FRAMES[job["who"]](job):
        if clip is None:
            frames, begin = 0, cpu()
            continue
        frames += len(clip)
        if len(checks) < 4:
            checks.append(round(float(clip[-1].mean()), 1))
    return {"cpu": cpu() - begin, "frames": frames, "checks": checks}


def main():
    try:
        import torch
        torch.set_num_threads(1)
    except ImportError:
        pass
    for line in sys.stdin:
        try:
            answer = run(json.loads(line))
        except Exception as error:  # the other side's: it says so, and the table has a hole
            answer = {"error": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
