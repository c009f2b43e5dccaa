# SPDX-License-Identifier: Apache-2.0
"""Pictures at their own size, per CPU second of one core: Stoker, timm's NaFlex loader and the processors of transformers, interleaved in one run, best of the
rounds; then how full packed batches are and what planning an epoch costs.  Peers read the same JPEGs from the page cache, decode with Pillow, and use one thread.
timm and torchvision are those that make setup puts beside the environment."""

import argparse
import glob
import io
import json
import os
import resource
import sys
import tarfile
import tempfile
import time

import numpy as np

PATCHES = "from(jpg) | image | random_resized_crop_to_patches(naflex, max_patches={}) | hflip | normalize(imagenet) | patches(16) | to(f32)"
QWEN = "from(jpg) | image | resize_to_patches(qwen2_vl, max_pixels=1003520) | normalize(clip) | patches(qwen2_vl) | to({})"
SIGLIP = "from(jpg) | image | resize_to_patches(siglip2) | normalize(half) | patches(siglip2) | to(f32)"
TOKEN = 151655


def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def write_shard(path, files, samples):
    """One picture and one label per sample; the same pictures several times over."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(samples):
            for field, data in (("jpg", files[i % len(files)]), ("cls", b"%d" % (i % 1000))):
                info = tarfile.TarInfo(f"{i:06d}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def write_chats(path, files, samples):
    """0 to 3 pictures and 20 to 2,000 tokens per sample."""
    rng = np.random.default_rng(28)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(samples):
            n = int(rng.integers(0, 4))
            ids = rng.integers(0, 1000, int(np.exp(rng.uniform(np.log(20), np.log(2000))))).tolist() + [TOKEN] * n
            for field, data in [(f"{k}.jpg", files[(i + k) % len(files)]) for k in range(n)] + [("json", json.dumps(ids).encode())]:
                info = tarfile.TarInfo(f"{i:06d}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def stoker_epochs(shard, chain, batch_size, collate):
    import stoker

    def epoch():                                # without a thread, so that nothing is made ahead on another's time
        with stoker.Loader(shard, {"x": chain, "label": "from(cls) | int"}, batch_size=batch_size, collate=collate, num_workers=0, shuffle=True) as loader:
            return sum(len(batch["label"]) for batch in loader)

    return epoch


class Files:
    """A map-style data set, as timm takes one."""

    def __init__(self, files):
        self.files, self.transform = files, None

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        from PIL import Image
        image = Image.open(io.BytesIO(self.files[i])).convert("RGB")
        return (image if self.transform is None else self.transform(image)), i % 1000


def timm_epochs(files, length):
    from timm.data.naflex_loader import create_naflex_loader
    loader = create_naflex_loader(Files(files), patch_size=16, train_seq_lens=(length,), batch_size=max(8, 16384 // length // 8 * 8), is_training=True, train_crop_mode="rrc",
                                  interpolation="bicubic", hflip=.5, color_jitter=0., num_workers=0, use_prefetcher=False, pin_memory=False, persistent_workers=False)

    def epoch():
        return sum(len(target) for _, target in loader)

    return epoch


def processor_epochs(files, processor, batch, **options):
    from PIL import Image

    def epoch():
        for at in range(0, len(files), batch):
            processor([Image.open(io.BytesIO(f)).convert("RGB") for f in files[at:at + batch]], return_tensors="pt", **options)
        return len(files)

    return epoch


def qwen_processors():
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
    size = {"shortest_edge": 3136, "longest_edge": 1003520}
    return {"transformers Qwen2-VL (torchvision)": Qwen2VLImageProcessor(size=size), "transformers Qwen2-VL (Pillow)": Qwen2VLImageProcessorPil(size=size)}


def siglip_processors():
    from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil
    from transformers.models.siglip2.image_processing_siglip2 import Siglip2ImageProcessor
    return {"transformers SigLIP2 (torchvision)": Siglip2ImageProcessor(), "transformers SigLIP2 (Pillow)": Siglip2ImageProcessorPil()}


def groups(shard, files, quick):
    """(title, goal of Stoker's, {name: function of an epoch})."""
    few = files[:24 if quick else 96]
    for length, goal in ((576, 750), (1024, 450)):
        yield (f"NaFlex, {length} patches, train, f32", goal, {
            "stoker": stoker_epochs(shard, PATCHES.format(length), max(8, 16384 // length // 8 * 8), ("pad", 0, length)), "timm NaFlex": timm_epochs(few, length)})
    ours = {f"stoker {dtype}": stoker_epochs(shard, QWEN.format(dtype), 16, {"x": "pack"}) for dtype in ("f32", "bf16")}
    yield "Qwen2-VL, max_pixels 1,003,520", (600, 800), ours | {name: processor_epochs(few, p, 8) for name, p in qwen_processors().items()}
    yield "SigLIP2, 256 patches, f32", None, {"stoker": stoker_epochs(shard, SIGLIP, 32, ("pad", 0, 256))} | {
        name: processor_epochs(few, p, 8) for name, p in siglip_processors().items()}


def measure(title, goal, runs, rounds):
    best = dict.fromkeys(runs, 0.)
    for _ in range(rounds):
        for name, epoch in runs.items():
            before = cpu()
            n = epoch()
            best[name] = max(best[name], n / (cpu() - before))
    peer = max(v for name, v in best.items() if not name.startswith("stoker"))
    print(f"{title}" + (f" (goal: {goal})" if goal else ""))
    for name, v in best.items():
        print(f"  {name:38} {v:8.0f} pictures/s" + (f"   {v / peer:5.2f}x the best peer" if name.startswith("stoker") else ""), flush=True)


def fill(title, path, fields, goal):
    """Of an epoch: what its batches have of their budget, the last one too."""
    import stoker
    used = batches = 0
    budget, collate = 16384, "pack"
    for batch in stoker.Loader(path, fields, max_tokens=budget, collate=collate, num_workers=1, shuffle=True):
        used += sum(int(batch.offsets[name][-1]) for name in fields)
        batches += 1
    print(f"  {title:60} {100 * used / (batches * budget):6.2f} % of {budget:,} in {batches} batches (goal: {goal})", flush=True)


def fills(shard, chats, copies):
    """An epoch long enough that its last batch, which is as full as chance has it, counts for little."""
    shards = [f"{shard[:-4]}-{i}.tar" for i in range(copies)]
    for path in shards:
        os.link(shard, path)
    print(f"Packed batches of an epoch of {copies} times the pictures")
    for length, goal in ((576, "98 %"), (1024, "97 %")):
        for op, how in (("resize_to_patches", "no draws"), ("random_resized_crop_to_patches", "random crops")):
            chain = f"from(jpg) | image | {op}(16, max_patches={length}) | patches(16) | to(u8)"
            fill(f"{length} patches, {how}", shards, {"x": chain}, goal)
    fields = {"ids": "from(json) | ints | image_tokens(x)", "x": "from(jpg) | pictures | resize_to_patches(qwen2_vl, max_pixels=200704) | patches(qwen2_vl) | to(u8)"}
    fill("text with 0 to 3 pictures, Qwen2-VL", chats, fields, "97 %")


SHARD = 10_000


def write_sizes(folder, count):
    """Shards of pictures of many sizes that take few bytes: one file under many names."""
    from PIL import Image
    rng = np.random.default_rng(29)
    files = []
    for _ in range(500):
        out = io.BytesIO()
        Image.new("1", tuple(int(v) for v in np.exp(rng.uniform(np.log(200), np.log(1600), 2)))).save(out, "PNG")
        files.append(out.getvalue())
    os.makedirs(folder)
    shards = [os.path.join(folder, f"{i:05d}.tar") for i in range(max(1, count // SHARD))]
    with tarfile.open(shards[0], "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(min(count, SHARD)):
            info = tarfile.TarInfo(f"{i:06d}.jpg")
            info.size = len(files[i * 7919 % len(files)])
            tar.addfile(info, io.BytesIO(files[i * 7919 % len(files)]))
    for path in shards[1:]:
        os.link(shards[0], path)
    return shards


def memory():
    with open("/proc/self/status") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:"))) * 1024


def plan(title, data, chain, goal, **options):
    """Opening a loader and counting its first epoch, less what the same costs without a budget; then the next epoch, where each has its own draws."""
    import stoker
    figures = []
    for how in ({"batch_size": 28}, options):
        before, had = cpu(), memory()
        loader = stoker.Loader(data, {"x": chain}, collate="pack" if how is options else "list", num_workers=1, shuffle=True, **how)
        len(loader)                             # counts the batches of the first epoch
        figures.append((cpu() - before, memory() - had))
        if how is options:
            before = cpu()
            loader.set_epoch(1)
            later = len(loader)
            figures.append((cpu() - before, 0))
        loader.close()
    (plain, plain_memory), (first, used), (second, _) = figures
    n = len(data)
    print(f"  {title:44} {first - plain:6.2f} s ({1e6 * (first - plain) / n:.2f} us a picture), {(used - plain_memory) / 1e6:5.0f} MB, {later:,} batches; "
          f"the next epoch {second:6.2f} s ({1e6 * second / n:.2f} us) (goal: {goal})", flush=True)


def plans(work, count):
    import stoker
    shards = write_sizes(os.path.join(work, "sizes"), count)
    before = cpu()
    rest = "patches(16) | to(u8)"
    for some in (shards[:1], shards):           # writes HASH.media: the sizes of one file are those of all of its names
        data = stoker.open(some)
        stoker.Loader(data, {"x": f"from(jpg) | image | resize_to_patches(naflex) | {rest}"}, max_tokens=16384, collate="pack").close()
    print(f"Planning an epoch of {count:,} pictures, max_tokens=16,384; opened and their sizes stored in {cpu() - before:.1f} s of CPU time before that", flush=True)
    plan("576 patches, no draws", data, f"from(jpg) | image | resize_to_patches(naflex) | {rest}", "1 s, 100 MB of 10 million", max_tokens=16384)
    plan("Qwen2-VL's sizes, no draws", data, "from(jpg) | image | resize_to_patches(qwen2_vl, max_pixels=1003520) | patches(qwen2_vl) | to(u8)", "1 s, 100 MB of 10 million", max_tokens=16384)
    plan("576 patches, random crops", data, f"from(jpg) | image | random_resized_crop_to_patches(naflex) | hflip | {rest}", "1 us a picture", max_tokens=16384)
    plan("Qwen2-VL's sizes, random crops", data,
         "from(jpg) | image | random_resized_crop_to_patches(qwen2_vl, max_pixels=1003520) | hflip | patches(qwen2_vl) | to(u8)", "1 us a picture", max_tokens=16384)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", help="a folder of JPEGs; else photos are made")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--planning", type=int, help="plan an epoch of so many pictures, and nothing else")
    args = options.parse_args()
    if args.planning:
        with tempfile.TemporaryDirectory() as work:
            plans(work, args.planning)
        return
    for extra in ("transforms", "oracles"):
        sys.path.append(os.path.join(sys.prefix, extra))
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/recipes"))
    import torch
    from tv_oracle import soften
    soften(torch)                               # torchvision's compiled ops need a CUDA build; transforms do not
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        folder = args.data
        if not folder:
            sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tools/demo"))
            import photos
            folder = os.path.join(work, "photos")
            photos.make_photos(folder, count=60)
        files = [open(p, "rb").read() for p in sorted(glob.glob(os.path.join(folder, "*"))) if p.lower().endswith((".jpg", ".jpeg"))]
        shard, chats = os.path.join(work, "a.tar"), os.path.join(work, "chats.tar")
        write_shard(shard, files, 240 if args.quick else 600)
        write_chats(chats, files, 200 if args.quick else 1500)
        print(f"{len(files)} JPEGs of {sum(map(len, files)) / len(files) / 1000:.0f} KB on average; pictures per CPU second of one core, best of {args.rounds} rounds; "
              f"{time.strftime('%Y-%m-%d')}")
        for title, goal, runs in groups(shard, files, args.quick):
            measure(title, goal, runs, 1 if args.quick else args.rounds)
        fills(shard, chats, 1 if args.quick else 8)
        plans(work, 20_000 if args.quick else 10_000_000)


if __name__ == "__main__":
    main()
