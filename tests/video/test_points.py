# SPDX-License-Identifier: Apache-2.0
"""Points of long videos: few bytes per frame, little of them read for a clip."""
import pytest
from made_video import dump, make, needs_ffmpeg, run

pytestmark = needs_ffmpeg


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    return tmp_path_factory.mktemp("points")


@pytest.mark.parametrize("name", ["gop12.mp4", "open.mkv", "vfr.mp4", "fragments.mp4"])
def test_at_most_eight_bytes_a_frame(videos, name):
    """Of a video as long as a hundred of them: the head and the setup are once."""
    one = make(videos, name)
    path = videos / f"long-{name}"
    run("-stream_loop", 49, "-i", one, "-c", "copy", path)
    head, frames, made_ = dump(path, [("parts", [1234]), ("parts", [30, 31, 32])])
    assert len(frames) > 1200 and head["bytes"] - head["setup"] - 88 <= 8 * head["frames"]
    assert not any(isinstance(m, str) for m in made_)
