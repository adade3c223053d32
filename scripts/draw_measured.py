"""Draws docs/measured.json as bars, and writes its table.

    python3 scripts/draw_measured.py docs/measured.json bars.svg table.md
"""

import json
import sys

ROW, LEFT, BAR, TOP = 26, 220, 340, 40


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def bars(measured):
    """The time of each row beside its peer's, which is one bar's length."""
    rows = measured["rows"]
    width, height = LEFT + BAR * 1.4 + 144, TOP + ROW * len(rows) + 34
    peer = LEFT + BAR
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}">',
        "<style>text{font:13px sans-serif;fill:#444}.small{font-size:11px;fill:#777}.name{fill:#222}"
        ".faster{fill:#2a7f62}.slower{fill:#b8612a}.line{stroke:#999;stroke-dasharray:3 3}</style>",
        f'<rect width="{width:.0f}" height="{height}" fill="#fff"/>',
        text(peer, TOP - 14, "the peer's time", "small", "middle"),
        f'<line class="line" x1="{peer}" y1="{TOP - 8}" x2="{peer}" y2="{TOP + ROW * len(rows)}"/>',
    ]
    for at, row in enumerate(rows):
        ratio, y = row["ours"] / row["theirs"], TOP + ROW * at
        kind = "faster" if ratio <= 1 else "slower"
        out.append(text(LEFT - 10, y + 15, row["what"], "name", "end"))
        out.append(f'<rect class="{kind}" x="{LEFT}" y="{y + 3}" width="{BAR * ratio:.1f}" height="{ROW - 9}" rx="2"/>')
        # Beside the bar, or behind the line that it comes close to.
        end = peer if 0.65 < ratio < 1 else LEFT + BAR * ratio
        out.append(text(f"{end + 8:.1f}", y + 15, f"{ratio:.2f} of {row['peer']}", "small"))
    out.append(text(LEFT, height - 12, f"On {measured['machine']}; the {measured['device']} device.", "small"))
    return "\n".join(out + ["</svg>", ""])


def table(measured):
    lines = ["| | peer | ours | theirs | ratio |", "|---|---|---|---|---|"]
    for row in measured["rows"]:
        ratio = row["ours"] / row["theirs"]
        lines.append(f"| {row['what']} | {row['peer']} | {row['ours']:g} | {row['theirs']:g} | {ratio:.2f} |")
    return "\n".join(lines + [""])


def main():
    source, drawing, words = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        measured = json.load(file)
    for path, result in ((drawing, bars(measured)), (words, table(measured))):
        with open(path, "w", encoding="utf-8") as file:
            file.write(result)


main()
