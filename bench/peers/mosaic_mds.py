# SPDX-License-Identifier: Apache-2.0
"""mosaicml-streaming: MDS shards with the JPEG bytes, StreamingDataset under PyTorch's DataLoader."""

import sys

import common

TITLE, PACKAGES = "mosaicml-streaming", ("mosaicml-streaming==0.13.0",)
MODULES = ("torch", "pillow_sample")
SETTINGS = ({"workers": 2}, {"workers": 3}, {"workers": 4})
NOTE = "MDS shards of 64 MB, py1e shuffle; decoding by Pillow"


def package():
    common.need_torchvision()
    import streaming
    return streaming


before_clock = package


def prepare(data):
    def write(folder):
        columns = {"image": "bytes", "label": "int"}
        with package().MDSWriter(out=str(folder), columns=columns, size_limit=64 << 20) as out:
            for n in range(data.samples):
                out.write({"image": data.jpeg(n), "label": data.label(n)})
    data.once("mds", write)


def make_dataset(data):
    from pillow_sample import as_torch

    class Photos(package().StreamingDataset):
        def __getitem__(self, at):
            fields = super().__getitem__(at)
            return as_torch(fields["image"]), int(fields["label"])
    return Photos(local=str(data.folder / "mds"), shuffle=True, shuffle_algo="py1e", batch_size=common.BATCH)


def batches(data, workers):
    from torch.utils.data import DataLoader
    package().base.util.clean_stale_shared_memory()       # of a run that was ended
    loader = DataLoader(make_dataset(data), batch_size=common.BATCH, num_workers=workers, drop_last=True,
                        persistent_workers=True, prefetch_factor=4)
    while True:
        yield from loader


if __name__ == "__main__":
    common.main(sys.modules[__name__])
