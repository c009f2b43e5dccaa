# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_pack_plan: plans, whole and broken."""

from pathlib import Path

OUT = Path(__file__).with_name("pack_plan")
PLAN = ('{"stoker": "pack plan", "version": 1, "shards": 4, "samples": 100,\n "fingerprint": "0123456789abcdef", '
        '"args": ["raw/", "out/", "--field", "jpg=image | encode(jpeg)", "\\udcff\\"x"]}\n')
SEEDS = {"whole": PLAN, "cut": PLAN[:90], "version": PLAN.replace("1,", "2,", 1), "args": PLAN.replace('"raw/"', "7"),
         "checked": PLAN.replace("]}", '],\n "check": "0123456789abcdef"}'), "nested": PLAN.replace('"raw/"', '["raw/"]'), "empty": "{}"}

if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for name, text in SEEDS.items():
        (OUT / name).write_bytes(text.encode("utf-8", "surrogatepass"))
