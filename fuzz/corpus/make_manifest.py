#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_manifest into manifest/ beside this script."""

import pathlib

OUT = pathlib.Path(__file__).parent / "manifest"

SEEDS = {
    "plain.csv": "path,label\na.jpg,1\nb.jpg,2\n",
    "range.csv": "path,offset,length,label\na.tar,512,100,1\na.tar,,7,2\na.tar,9,,3\n",
    "quotes.csv": 'path,"te""xt"\r\n"a,b","x\r\ny"\r\n\r\n"c",""\r\n',
    "bom.csv": "\ufeffpath\na\n",
    "no_end.csv": "path,a\nx,1",
    "lone_quote.csv": 'path,a\nx,b"c\n',
    "open_quote.csv": 'path,a\nx,"b\n',
    "behind.csv": 'path,a\n"x"y,b\n',
    "short.csv": "path,a\nx\n",
    "twice.csv": "path,path\na,b\n",
    "pandas.csv": ",path,label\n0,a,1\n1,b,2\n",
    "no_path.csv": "file,label\na,1\n",
    "cr.csv": "path\na\rb\r\n",
    "plain.jsonl": '{"path": "a.jpg", "label": 1}\n{"label": "x", "path": "b.jpg"}\n',
    "range.jsonl": '{"path": "a", "offset": 5, "length": "6"}\n{"path": "a", "offset": 7}\n',
    "deep.jsonl": '{"path": "\\u00e9\\ud83d\\ude00", "box": {"x": [1, {"y": null}]}, "n": null}\n\n',
    "array.jsonl": '{"path": "a"}\n[1, 2]\n',
    "cut.jsonl": '{"path": "a", "b": [1',
    "twice.jsonl": '{"path": "a", "b": 1, "\\u0062": 2}\n',
    "null.jsonl": '{"path": "a\\u0000"}\n',
    "cr_only.csv": 'path,b\r"a\rb",1\rc,"x"',
    "quotes.tsv": 'a\tb\n5" disk\t"x" y\n"a\t"b"c\n,"x"\t"7 ""q"""\n',
    "names.csv": ",a,a,\n1,2,3,4\n",
    "code.jsonl": '{"path": "a.py", "length": 3.5}\n{"path": null, "length": "x"}\n{"path": 7}\n',
    "nan.jsonl": '{"x": NaN, "y": [Infinity, -Infinity]}\n',
    "skip.jsonl": '{"x": 1}\n{"x"\n\n{"x": 2}',
    "utf16.csv": "\ufeffa\n1\n".encode("utf-16-le").decode("latin-1"),
    "empty": "",
}


def main():
    OUT.mkdir(exist_ok=True)
    for name, text in SEEDS.items():
        (OUT / name).write_bytes(text.encode())


if __name__ == "__main__":
    main()
