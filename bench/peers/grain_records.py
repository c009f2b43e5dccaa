# SPDX-License-Identifier: Apache-2.0
"""Grain: ArrayRecord files, globally shuffled; threads in one process, or worker processes.  Gives NumPy arrays."""

import sys

import common

TITLE, PACKAGES = "Grain", ("grain==0.2.18", "array-record==0.8.6")
MODULES = ("numpy", "grain", "pillow_sample")
SETTINGS = ({"threads": 2}, {"threads": 3}, {"workers": 2}, {"workers": 3})
NOTE = "ArrayRecord; NumPy arrays, torch not loaded; decoding by Pillow"


def prepare(data):
    from array_record.python.array_record_module import ArrayRecordWriter

    def write(path):
        out = ArrayRecordWriter(str(path), "group_size:1,uncompressed")
        for n in range(data.samples):
            out.write(data.label(n).to_bytes(4, "little") + data.jpeg(n))
        out.close()
    data.once("photos.arrayrecord", write)


def sample(record):
    from pillow_sample import as_numpy
    return as_numpy(bytes(record[4:])), int.from_bytes(record[:4], "little")


def batches(data, threads=None, workers=None):
    import grain
    source = grain.sources.ArrayRecordDataSource(str(data.folder / "photos.arrayrecord"))
    photos = grain.MapDataset.source(source).shuffle(seed=0).repeat().map(sample)
    if threads:
        ahead = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=4 * common.BATCH)
        photos = photos.to_iter_dataset(ahead).batch(common.BATCH, drop_remainder=True)
    else:
        # In a worker the data are available, for which its documentation advises no threads.
        ahead = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        photos = photos.to_iter_dataset(ahead).batch(common.BATCH, drop_remainder=True)
        photos = photos.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=4))
    yield from photos


if __name__ == "__main__":
    common.main(sys.modules[__name__])
