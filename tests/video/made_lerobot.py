# SPDX-License-Identifier: Apache-2.0
"""A LeRobot data set of version 3, as its own program writes it: three cameras, several episodes in a file."""
import json
import shutil

import numpy as np
from made_video import B, X264, run

FPS = 30
KEYS = ["observation.images.top", "observation.images.left", "observation.images.wrist"]
LENGTHS = [[23, 40], [17, 31, 9]]               # episodes of each file
SIZE = 160, 96
CODECS = dict(zip(KEYS, [f"{X264} {B.format(2, 2, 0)}", "-c:v libsvtav1 -preset 12 -g 2 -crf 30 -svtav1-params lp=1", f"{X264} {B.format(12, 12, 0)}"],
                  strict=True))
FEATURES = {
    "observation.state": {"dtype": "float32", "shape": [4], "names": None}, "action": {"dtype": "float32", "shape": [3], "names": None},
    "next.done": {"dtype": "bool", "shape": [1], "names": None},
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    **{k: {"dtype": "int64", "shape": [1], "names": None} for k in ("frame_index", "episode_index", "index", "task_index")},
    **{k: {"dtype": "video", "shape": [SIZE[1], SIZE[0], 3], "names": ["height", "width", "channels"],
           "info": {"video.fps": FPS, "video.is_depth_map": False, "has_audio": False}} for k in KEYS}}


def _videos(root, number, frames):
    for i, key in enumerate(KEYS):
        path = root / "videos" / key / "chunk-000" / f"file-{number:03d}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        source = f"testsrc2=size={SIZE[0]}x{SIZE[1]}:rate={FPS},noise=alls=12:allf=t:all_seed={7 + i + 10 * number},format=yuv420p"
        run("-f", "lavfi", "-i", source, "-frames:v", frames, "-pix_fmt", "yuv420p", "-threads", 1, *CODECS[key].split(), path)


def make(root):
    """The folder, and its rows: {column: array}, cameras as (file, frame)."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    rng = np.random.default_rng(3)
    shutil.rmtree(root, ignore_errors=True)
    (root / "meta/episodes/chunk-000").mkdir(parents=True)
    (root / "data/chunk-000").mkdir(parents=True)
    rows, episodes, at = {k: [] for k in FEATURES if k not in KEYS}, [], 0
    for number, lengths in enumerate(LENGTHS):
        shown = 0
        for length in lengths:
            e = len(episodes)
            rows["observation.state"].append(rng.normal(size=(length, 4)).astype(np.float32))
            rows["action"].append(rng.normal(size=(length, 3)).astype(np.float32))
            rows["next.done"].append(np.arange(length) == length - 1)
            rows["timestamp"].append((np.arange(length) / FPS).astype(np.float32))
            rows["frame_index"].append(np.arange(length))
            rows["episode_index"].append(np.full(length, e))
            rows["index"].append(np.arange(at, at + length))
            rows["task_index"].append(np.full(length, e % 2))
            episodes.append({"episode_index": e, "tasks": [["lift", "push"][e % 2]], "length": length, "data/chunk_index": 0, "data/file_index": number,
                             "dataset_from_index": at, "dataset_to_index": at + length, "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0,
                             **{f"videos/{k}/{n}": v for k in KEYS for n, v in (("chunk_index", 0), ("file_index", number), ("from_timestamp", shown / FPS),
                                                                                ("to_timestamp", (shown + length) / FPS))}})
            shown += length
            at += length
        _videos(root, number, shown)
        part = {k: np.concatenate(v[-len(lengths):]) for k, v in rows.items()}
        table = pa.table({k: pa.array(list(v)) if v.ndim > 1 else pa.array(v) for k, v in part.items()})
        pq.write_table(table, root / "data/chunk-000" / f"file-{number:03d}.parquet", row_group_size=16)
    pq.write_table(pa.Table.from_pylist(episodes), root / "meta/episodes/chunk-000/file-000.parquet")
    pq.write_table(pa.table({"task_index": [0, 1], "__index_level_0__": ["lift", "push"]}).replace_schema_metadata(
        {"pandas": json.dumps({"index_columns": ["__index_level_0__"], "column_indexes": [], "creator": {}, "pandas_version": "2.0.0", "columns": [
            {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64", "metadata": None},
            {"name": None, "field_name": "__index_level_0__", "pandas_type": "unicode", "numpy_type": "object", "metadata": None}]})}),
        root / "meta/tasks.parquet")
    (root / "meta/info.json").write_text(json.dumps({
        "codebase_version": "v3.0", "robot_type": "none", "total_episodes": len(episodes), "total_frames": at, "total_tasks": 2, "chunks_size": 1000,
        "data_files_size_in_mb": 100, "video_files_size_in_mb": 200, "fps": FPS, "splits": {"train": f"0:{len(episodes)}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4", "features": FEATURES}))
    (root / "meta/stats.json").write_text("{}")
    return {k: np.concatenate(v) for k, v in rows.items()}, episodes
