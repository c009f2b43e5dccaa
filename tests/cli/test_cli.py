# SPDX-License-Identifier: Apache-2.0
"""The command line word for word: help, results, errors, exit codes."""

import json
import re
from pathlib import Path

import pytest
from conftest import ROOT, jpeg, write_tar

FAST = ("--epochs", "1", "--batch-size", "4")


def fails(done, code, line):
    """One line on stderr, nothing on stdout, that exit code."""
    assert (done.code, done.out, done.err) == (code, "", f"stoker: {line}\n")


# ---- the front ------------------------------------------------------------------------------------

def test_alone_it_teaches(stoker):
    done = stoker()
    assert done.code == 0 and done.err == ""
    assert done.out == stoker("--help").out == stoker("help").out
    assert done.out == """\
stoker - training data from where it is to ready batches

Usage: stoker COMMAND ...

Commands:
  index     find every sample of the shards once and keep a table of them
  pack      write any data as tar shards that load fast
  check     read and decode everything, list what is bad
  ls        list samples: key, fields and their sizes
  cat       show a sample, a field, or what a chain makes of it
  ops       list formats, codecs and ops with their arguments
  bench     load as a training loop would, and say how fast and what is slow
  ledger    which samples was a run given, when, and which twice or never?
  doctor    why is my GPU idle? names what holds loading up, and the remedy
  plan      what will a run need of storage, network, PCIe and cores?
  describe  sizes, shapes, colors, labels and duplicates, as JSON to keep
  drift     is the data still what it was? exit status 1 if not
  top       what do the loaders of a running process do, now?
  cache     remote data that this host keeps on its disk

A first walk:
  stoker index 'train-{000000..000099}.tar'     find every sample once; opening is instant from then on
  stoker bench 'train-{000000..000099}.tar'     how fast can this machine load it, and what is slow?
  stoker ops random_resized_crop                what can a chain do, and with which arguments?

'stoker COMMAND --help' teaches a command; 'stoker --version' says what this build has.
'stoker --completion bash' (zsh, fish) prints completion for a shell, 'stoker --manual' a man page.
Exit codes: 0 fine, 1 found something bad, 2 wrong usage, 3 data or system failed.
"""


def test_version(stoker):
    done = stoker("--version")
    assert done.code == 0
    assert re.fullmatch(r"stoker \d+\.\d+\.\d+; jpeg: .*; kernels: .*; video: libavcodec .*; dav1d .*\n", done.out)


def test_missing_video_libraries_are_named_with_their_package(stoker):
    """In --version and doctor alike, which ask the loader's own code: here of a library that is not one."""
    done = stoker("--version", STOKER_LIBAVCODEC="/nonexistent/libavcodec.so.59")
    assert "; video: libavcodec none: /nonexistent/libavcodec.so.59 can't be opened" in done.raw
    assert "install FFmpeg (Debian: apt install libavcodec59, or ffmpeg)" in done.raw


@pytest.mark.parametrize("args, line", [
    (["idnex"], "there is no command 'idnex'; did you mean 'index'?"),
    (["zzzzzz"], "there is no command 'zzzzzz'; 'stoker --help' lists them"),
    (["--json"], "a command comes first, not '--json'; 'stoker --help' lists them"),
    (["index"], "index needs at least one path, folder or pattern; try 'stoker index --help'"),
    (["index", "x.tar", "--forse"], "index has no option --forse; did you mean --force?"),
    (["index", "x.tar", "--qqqqqqq"], "index has no option --qqqqqqq; 'stoker index --help' lists them"),
    (["index", "x.tar", "--format"], "--format needs a value; 'stoker index --help' shows which"),
    (["index", "x.tar", "--force=1"], "--force takes no value"),
    (["index", "x.tar", "--workers", "0"], '--workers is a number from 1 to 256, not "0"'),
    (["index", "x.tar", "-f"], "options begin with two dashes: '-f'; try 'stoker index --help'"),
    (["ops", "hflip", "resize"], "ops takes no 'resize'; try 'stoker ops --help'"),
    (["ops", "hflp"], "nothing is called 'hflp'; did you mean 'hflip'?"),
    (["bench", "x.tar", "--batchsize", "1"], "bench has no option --batchsize; did you mean --batch-size?"),
    (["bench", "x.tar", "--batch-size", "0"], 'batch_size is 1..1048576, not "0"'),
    (["bench", "x.tar", "--workers", "many"], 'num_workers is 0..256 or auto, not "many"'),
    (["bench", "x.tar", "--shuffle=maybe"], 'shuffle is one of: none exact block megatron, not "maybe"'),
    (["bench", "x.tar", "--epochs", "1", "--seconds", "1"], "take --epochs or --seconds, not both"),
])
def test_wrong_usage(stoker, args, line):
    fails(stoker(*args), 2, line)


@pytest.mark.parametrize("command", ["index", "pack", "check", "ls", "cat", "ops", "bench", "ledger", "doctor", "plan", "describe", "drift", "top", "cache"])
def test_help_of_commands(stoker, command):
    done = stoker(command, "--help")
    assert done.code == 0 and done.err == ""
    assert done.out == stoker("help", command).out == stoker(command, "-h").out
    assert done.out.startswith(f"Usage: stoker {command} ")
    assert done.out.split("Examples:\n")[1].count(f"  stoker {command}") >= 2
    assert "--json " in done.out
    assert max(map(len, done.out.splitlines())) <= 100


def test_help_of_index(stoker):
    assert stoker("index", "--help").out.split("Options:\n")[1] == """\
  --columns NAMES         also keep these values of every sample: fields, or members of JSON
                          fields, by commas (default: none)
  --points                also keep seek points of JPEGs, videos and sound: a part is read and
                          decoded without the rest
  --jpeg                  the same, its name before 0.3
  --part I/N              index every N-th shard only, from I on (0 to N - 1), beside others
                          that index the rest
  --merge                 make one index of what the parts found
  --force                 build again although there is a good index
  --workers N             threads (default: the cores there are)
  --cache-dir DIR         where indexes of read-only data go (default: $STOKER_CACHE, else the
                          user's cache)
  --format NAME           how the shards are laid out; 'stoker ops' lists formats (default:
                          found by looking)
  --op FILE               ops of your own for chains, from this shared object; may be repeated
  --store-cache DIR       keep remote data in this folder (default: $STOKER_STORE_CACHE)
  --store-cache-limit SIZE
                          how much it may hold: 500GB (default: most of what is free)
  --json                  print one JSON object for programs
  --help                  print this
"""


# ---- the table of options -------------------------------------------------------------------------

def test_every_option_is_a_flag(stoker):
    """tests/docs/test_options_table.py holds the table against the struct and Python."""
    rows = re.findall(r"^STK_OPTION\((\w+)", (ROOT / "src/loader/options.def").read_text(), re.M)
    help_text = stoker("bench", "--help").out
    assert len(rows) > 30
    for row in rows:
        flag = "workers" if row == "num_workers" else row.replace("_", "-")
        assert f"  --{flag}" in help_text


# ---- ops ------------------------------------------------------------------------------------------

def test_ops_lists_everything(stoker):
    done = stoker("ops")
    assert done.code == 0
    for title in ("Sources", "Formats", "Kinds of data", "Codecs", "Decoders", "Ops"):
        assert re.search(rf"^{title} \(", done.out, re.M)
    registry = (ROOT / "src/registry.def").read_text()
    for name in re.findall(r"^STK_(?:OP|CODEC|FORMAT|SOURCE|STORE|DECODER|DATA)\((\w+)\)", registry, re.M):
        assert re.search(rf"^  {name}(\(|$)", done.out, re.M), name


def test_ops_of_one_name(stoker):
    assert stoker("ops", "hflip").out == """\
Ops (the rest of a chain)
  hflip(p=0.5)
      mirror left to right, at random
      p          number            how often (default: 0.5)
"""


def test_ops_json(stoker):
    found = json.loads(stoker("ops", "--json").raw)
    assert list(found) == ["sources", "formats", "data", "codecs", "decoders", "ops"]
    crop = next(op for op in found["ops"] if op["name"] == "random_resized_crop")
    assert [a["name"] for a in crop["args"]] == ["size", "scale", "ratio", "interpolation", "antialias", "exact"]
    assert crop["args"][0]["required"] and crop["args"][0]["default"] is None
    assert crop["args"][1]["default"] == "(0.08, 1)"
    only = json.loads(stoker("ops", "hflip", "--json").raw)
    assert [op["name"] for op in only["ops"]] == ["hflip"] and only["codecs"] == []


# ---- index ----------------------------------------------------------------------------------------

def test_index(stoker, photos):
    pattern = "photos/train-{000000..000001}.tar"
    line = r"2 shards, 12 samples, 2 fields; index [\d.]+ KB, [\d.]+ bytes a sample, " \
           r"in DIR/photos/\.stoker/HASH\.idx"
    assert re.fullmatch(line + r" \(N s\)\n", stoker("index", pattern).out)
    assert re.fullmatch("already there: " + line + r" \(N s\)\n", stoker("index", pattern).out)
    assert re.fullmatch(line + r" \(N s\)\n", stoker("index", pattern, "--force").out)


def test_index_json(stoker, photos):
    got = json.loads(stoker("index", photos, "--json").raw)
    assert list(got) == ["built", "shards", "reused_shards", "samples", "fields", "columns", "data_bytes",
                         "index_bytes", "index_bytes_per_sample", "jpegs", "jpegs_without_seek_points", "jpeg_bytes",
                         "seek_bytes", "seek_percent", "path", "seconds"]
    assert (got["built"], got["shards"], got["samples"], got["fields"]) == (True, 2, 12, 2)
    assert got["data_bytes"] == sum(p.stat().st_size for p in photos.glob("*.tar"))
    assert got["index_bytes"] == Path(got["path"]).stat().st_size
    again = json.loads(stoker("index", photos, "--json").raw)
    assert not again["built"] and again["path"] == got["path"]


def test_index_reuses_shards(stoker, photos):
    stoker("index", "photos")
    write_tar(photos / "train-000002.tar", [("x.jpg", jpeg(99)), ("x.cls", b"7")])
    done = stoker("index", "photos")
    assert done.out.startswith("3 shards, 13 samples, 2 fields;")
    assert "; 2 shards reused (N s)\n" in done.out


def test_index_columns(stoker, photos):
    stoker("index", "photos")
    done = stoker("index", "photos", "--columns", "cls, other")
    fails(done, 2, "no sample has a value for the column other; the fields are: jpg, cls")
    done = stoker("index", "photos", "--columns", "cls")
    assert done.code == 0 and done.out.endswith("; 1 column (N s)\n")
    again = json.loads(stoker("index", "photos", "--columns", "cls", "--json").raw)
    assert not again["built"] and again["columns"] == 1
    Path(again["path"]).with_suffix(".lock").mkdir()
    fails(stoker("index", "photos", "--columns", "other"), 3,
          "index DIR/photos/.stoker/HASH.idx cannot be written, so no columns were added; opened with columns= "
          "they are read into memory")
    fails(stoker("index", "photos", "--columns", ","), 2, "--columns is a list of 1 to 64 names: cls,json.width")
    fails(stoker("index", "photos", "--columns", "a..b"), 2, '"a..b" is not a column: write a field (cls) or a member '
          "of a JSON field (json.width)")


# ---- bench ----------------------------------------------------------------------------------------

KEYS = ["version", "dataset_samples", "dataset_shards", "fields", "batch_size", "workers", "slots", "open_s",
        "samples", "batches", "seconds", "samples_per_s", "mb_per_s", "first_batch_s", "cpu_s",
        "cpu_s_per_1000_samples", "consumer_wait_s", "median_batch_s", "epoch_gap_s", "skipped", "cold_reads",
        "cold_by", "memory", "stages", "epochs", "diagnosis"]


def test_bench_json(stoker, photos):
    done = stoker("bench", "photos", "--epochs", "3", "--batch-size", "4", "--workers", "2", "--shuffle", "--json")
    assert done.err == ""
    got = json.loads(done.raw)
    assert list(got) == KEYS
    assert got["fields"] == {
        "image": "from(jpg) | image | random_resized_crop(224) | hflip | normalize(imagenet) | to(f32)",
        "label": "from(cls) | int"}
    assert (got["samples"], got["batches"], got["batch_size"], got["workers"]) == (36, 9, 4, 2)
    assert [(e["samples"], e["batches"], e["whole"]) for e in got["epochs"]] == 3 * [(12, 3, True)]
    assert list(got["stages"]) == ["fetch", "decode", "resample", "value", "batch", "idle"]
    assert got["stages"]["decode"]["seconds"] > 0
    assert sum(s["share"] for s in got["stages"].values()) == pytest.approx(1)
    assert got["memory"]["planned_peak_bytes"] <= got["memory"]["limit_bytes"]
    assert 0 < got["first_batch_s"] <= got["seconds"]
    assert got["samples_per_s"] == pytest.approx(got["samples"] / got["seconds"], rel=1e-6)


def test_bench_page(stoker, photos):
    done = stoker("bench", "photos", "--epochs", "2", "--batch-size", "4", "--workers", "1")
    assert done.code == 0 and done.err == ""
    shape = re.sub(r"\d[\d.,]*", "N", re.sub(r" +", " ", done.out))
    head, rates, stages, epochs, sentence = shape.split("\n\n")
    assert sentence.count("\n") == 1 and ": " in sentence
    assert head.splitlines()[0] == "N samples in N shards, opened in N ms; batches of N N worker, N made ahead"
    assert [line.split(" N")[0].strip() for line in rates.splitlines()] == [
        "samples/s", "MB/s", "time to first batch", "CPU time", "peak memory", "consumer waited",
        "gap between epochs"]
    assert [line.split()[0] for line in stages.splitlines()] == [
        "stage", "fetch", "decode", "resample", "value", "batch", "idle"]
    assert [line.split()[0] for line in epochs.splitlines()] == ["epoch", "N", "N"]


def test_bench_page_of_many_epochs(stoker, tmp_path):
    write_tar(tmp_path / "t.tar", [("a.txt", b"one")])
    lines = stoker("bench", "t.tar", "--epochs", "40", "--batch-size", "4").out.split("\n\n")[3].splitlines()
    assert [line.split()[0] for line in lines] == ["epoch", *map(str, range(16)), "...", "39"]
    assert lines[-2] == "  ... 23 more; all of them: --json"
    lines = stoker("bench", "t.tar", "--epochs", "17", "--batch-size", "4").out.split("\n\n")[3].splitlines()
    assert [line.split()[0] for line in lines] == ["epoch", *map(str, range(17))]


def test_bench_takes_every_field_as_bytes(stoker, tmp_path):
    write_tar(tmp_path / "t.tar", [("a.txt", b"one"), ("a.meta.json", b"{}"), ("b.txt", b"two"), ("b.meta.json", b"{}")])
    got = json.loads(stoker("bench", "t.tar", *FAST, "--json").raw)
    assert got["fields"] == {"txt": 'from("txt") | bytes', "meta.json": 'from("meta.json") | bytes'}


def test_bench_of_tokens_and_arrays(stoker, tmp_path):
    (tmp_path / "t.bin").write_bytes(bytes(2 * 5000))
    got = json.loads(stoker("bench", "t.bin", *FAST, "--json").raw)
    assert got["fields"] == {"input": "tokens(block=1024)", "label": "tokens(block=1024, shift=1)"}
    assert got["samples"] == 4
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2), }\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + bytes(48))
    got = json.loads(stoker("bench", "a.npy", *FAST, "--json").raw)
    assert (got["fields"], got["samples"]) == ({"array": 'from("array")'}, 6)


def test_tokens_and_arrays_have_no_index(stoker, tmp_path):
    (tmp_path / "t.bin").write_bytes(bytes(100))
    done = stoker("index", "t.bin")
    assert done.code == 3 and "token files and arrays need no index: open them as they are" in done.err
    done = stoker("check", "t.bin")
    assert done.code != 0 and "token files and arrays need no index" in done.out + done.err


def test_bench_options_reach_the_loader(stoker, photos):
    got = json.loads(stoker("bench", "photos", "--epochs=1", "--batch-size=5", "--drop-last", "--prefetch=2",
                            "--memory-limit=256MB", "--field", "y=from(cls) | int", "--json").raw)
    assert (got["samples"], got["batches"], got["slots"]) == (10, 2, 2)
    assert got["memory"]["limit_bytes"] == 256_000_000
    assert got["fields"] == {"y": "from(cls) | int"}


def test_bench_stops_after_seconds(stoker, photos):
    got = json.loads(stoker("bench", "photos", "--seconds", "0.3", "--step-ms", "20", "--batch-size", "4", "--json").raw)
    assert 0.3 <= got["seconds"] < 60
    assert got["consumer_wait_s"] < got["seconds"]


# ---- bad input ------------------------------------------------------------------------------------

@pytest.mark.parametrize("command", ["index", "bench"])
def test_missing_file(stoker, command):
    done = stoker(command, "nowhere.tar")
    assert (done.code, done.out) == (3, "")
    assert re.fullmatch(r"stoker: .*nowhere\.tar.*\n", done.err)


def test_pattern_without_match(stoker, tmp_path):
    done = stoker("index", "no-*.tar")
    assert done.code == 3
    assert re.fullmatch(r"stoker: .*no-\*\.tar.*\n", done.err)


@pytest.mark.parametrize("chain, word", [
    ("from(jpg) | image | resise(8)", "resize"),
    ("from(jpg) | image | resize(8", "column"),
    ("from(jpg) | image | hflip(q=1)", "hflip"),
    ("from(nope) | bytes", "nope"),
    ("from(jpg) | image", "collate"),
])
def test_bad_chain(stoker, photos, chain, word):
    done = stoker("bench", "photos", *FAST, "--field", f"x={chain}")
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.startswith("stoker: ") and done.err.count("\n") == 1 and word in done.err


def test_field_without_name(stoker, photos):
    fails(stoker("bench", "photos", "--field", "image"), 2,
          "--field is NAME=CHAIN, as in --field 'label=from(cls) | int', not \"image\"")


def corrupt(photos):
    path = photos / "train-000000.tar"
    data = bytearray(path.read_bytes())
    data[148:156] = b"0000001\0"         # the first header's checksum
    path.write_bytes(data)


@pytest.mark.parametrize("command", ["index", "bench"])
def test_corrupt_tar(stoker, photos, command):
    corrupt(photos)
    done = stoker(command, "photos")
    assert (done.code, done.out) == (3, "")
    assert re.fullmatch(r"stoker: .*\[shard .*train-000000\.tar, offset 0\]\n", done.err)


def test_truncated_tar(stoker, photos):
    path = photos / "train-000001.tar"
    path.write_bytes(path.read_bytes()[:5000])
    done = stoker("index", "photos")
    assert done.code == 3
    assert re.fullmatch(r"stoker: .*\[shard .*train-000001\.tar, offset \d+.*\]\n", done.err)


def test_zero_samples(stoker, tmp_path):
    write_tar(tmp_path / "empty.tar", [])
    fails(stoker("bench", "empty.tar"), 3,
          "the data set has no samples: its 1 shard hold no member that is a field")


def test_bad_picture(stoker, tmp_path):
    write_tar(tmp_path / "t.tar", [("a.jpg", jpeg(1)), ("b.jpg", b"\xff\xd8garbage"), ("c.jpg", jpeg(2))])
    done = stoker("bench", "t.tar", *FAST)
    assert (done.code, done.out) == (3, "")
    assert re.fullmatch(r"stoker: .*\[shard .*t\.tar, offset \d+, key b\]\n", done.err)
    got = json.loads(stoker("bench", "t.tar", *FAST, "--on-error", "skip", "--json").raw)
    assert got["skipped"] >= 1 and got["samples"] == 3


def test_output_that_cannot_be_written(stoker, tmp_path):
    import subprocess
    with open("/dev/full", "w") as full:
        done = subprocess.run([stoker.program, "ops"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (3, "stoker: the output could not be written\n")
