# SPDX-License-Identifier: Apache-2.0
"""From rows to what is read: the best of each contender, what to compare, the Markdown table, the chart.

A contender's entry: {"title", "note", "setting", "rows": [...]}, or {"title", "absent": reason}.  Plain data
in, text out; nothing here measures.
"""

from xml.sax.saxutils import escape

# column title, key in a row, whether more is better, format
COLUMNS = (("samples/s", "samples_per_s", True, "{:,.0f}"),
           ("CPU s per 1,000", "cpu_s_per_1000", False, "{:.2f}"),
           ("peak memory, MB", "peak_memory_mb", False, "{:,.0f}"),
           ("first batch, s", "first_batch_s", False, "{:.2f}"))
OURS = "stoker_tar"             # what peers are set against: Stoker as it is
REFERENCE = "dataloader"        # whose output the others should resemble: Pillow's
MEAN_OFF, STD_OFF, EDGES_OFF, LEAST_FIT = 0.12, 0.10, 0.12, 0.5


def best(rows):
    """The best of every column over the rounds: a noisy neighbour only ever makes a figure worse."""
    return {key: (max if more else min)(row[key] for row in rows) for _, key, more, _ in COLUMNS}


def spread(rows, key="samples_per_s"):
    values = [row[key] for row in rows]
    return (max(values) - min(values)) / max(values)


def beats(value, ours, more):
    return ours is not None and (value > ours if more else value < ours)


def setting_text(setting):
    return ", ".join(f"{value} {key}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"
                     for key, value in setting.items()) or "as it is"


def is_ours(name):
    return name.startswith("stoker")


def ranked(entries):
    """Names: those that ran, fastest first, then the absent."""
    def key(name):
        rows = entries[name].get("rows")
        return (0, -best(rows)["samples_per_s"]) if rows else (1, 0)
    return sorted(entries, key=key)


def cells(name, figures, ours):
    for _, key, more, form in COLUMNS:
        text = form.format(figures[key])
        wins = not is_ours(name) and beats(figures[key], ours and ours[key], more)
        yield f"**{text}**" if wins else text


def table(entries):
    rows = entries.get(OURS, {}).get("rows")
    ours = best(rows) if rows else None
    lines = ["| loader | " + " | ".join(title for title, *_ in COLUMNS) + " | best setting |",
             "|---|" + "---:|" * len(COLUMNS) + "---|"]
    for name in ranked(entries):
        entry = entries[name]
        if entry.get("rows"):
            text = " | ".join(cells(name, best(entry["rows"]), ours))
            lines.append(f"| {entry['title']} | {text} | {setting_text(entry['setting'])} |")
        else:
            lines.append(f"| {entry['title']} |" + " – |" * len(COLUMNS) + f" {entry['absent']} |")
    return "\n".join(lines) + "\n"


def notes(entries):
    lines = []
    for name in ranked(entries):
        entry = entries[name]
        if entry.get("rows"):
            words = [entry["note"], *entry.get("remarks", ())]
            lines.append(f"- {entry['title']}: {'; '.join(filter(None, words))}")
    return "\n".join(lines) + "\n"


# ---- is it the same work? ---------------------------------------------------------------------------

def differs(look, shape):
    """Why this output is not what all should make, or None."""
    good = {f"torch float32 {shape}", f"numpy float32 {shape}"}
    odd = [kind for kind in look["kinds"] if kind not in good]
    if odd:
        return f"gives {odd[0]} instead of float32 {shape}"
    if look["label_fit"] < LEAST_FIT:
        return f"labels do not fit the pictures (correlation {look['label_fit']:.2f})"
    return None


def compare(look, reference):
    """(why it is other work or None, remarks on smaller differences) against the reference's output."""
    worst = max(abs(a - b) for a, b in zip(look["mean"], reference["mean"]))
    if worst > MEAN_OFF:
        return f"its values are off by {worst:.2f} in the mean", []
    worst = max(abs(a / b - 1) for a, b in zip(look["std"], reference["std"]))
    if worst > STD_OFF:
        return f"its values spread otherwise (by {worst:.0%})", []
    edges = look["edges"] / max(reference["edges"], 1e-6) - 1
    if abs(edges) > EDGES_OFF:
        return None, [f"samples {'more sharply' if edges > 0 else 'more softly'} than Pillow "
                      f"(differences of neighbouring pixels {edges:+.0%})"]
    return None, []


# ---- the chart --------------------------------------------------------------------------------------

def chart(entries, caption):
    rows = [(entries[n]["title"], best(entries[n]["rows"])["samples_per_s"], is_ours(n))
            for n in ranked(entries) if entries[n].get("rows")]
    most = max((value for _, value, _ in rows), default=1)
    height = 46 + 30 * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{height}" '
           'font-family="sans-serif" font-size="13">', f'<rect width="680" height="{height}" fill="#ffffff"/>']
    for i, (label, value, ours) in enumerate(rows):
        y, width = 12 + i * 30, 320 * value / most
        out += [f'<rect x="230" y="{y}" width="{width:.0f}" height="20" fill="{"#c2571a" if ours else "#9aa3ad"}"/>',
                f'<text x="222" y="{y + 15}" text-anchor="end" fill="#222">{escape(label)}</text>',
                f'<text x="{238 + width:.0f}" y="{y + 15}" fill="#222">{value:,.0f}/s</text>']
    out += [f'<text x="12" y="{height - 12}" font-size="11" fill="#666">{escape(caption)}</text>', "</svg>", ""]
    return "\n".join(out)
