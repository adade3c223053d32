"""Draws what the example `fleet` and `mesh.py` print, for docs/SCALING.md.

    python3 benches/fleet/draw.py FOLDER docs/images

FOLDER has curve.csv, gpu.csv, line.csv, callers.csv, slow.csv and mesh.csv.
"""

import csv
import math
import pathlib
import sys

WAYS = [("ours", "dala-route"), ("round robin", "turns"), ("random", "chance")]
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #5d6a80 }
.title { font-size: 17px; font-weight: 600; fill: #1e293b } .name { font-size: 13px; font-weight: 600; fill: #334155 }
.end { text-anchor: end } .middle { text-anchor: middle }
.ground { fill: #f5f7fa; stroke: #dce2eb } .area { fill: #e9edf3 } .grid { stroke: #cfd7e2 }
.mark { stroke: #5d6a80; stroke-dasharray: 4 3 }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round } .dashed { stroke-dasharray: 5 4 }
.ours { stroke: #2f8a68 } .turns { stroke: #3d7dd8 } .chance { stroke: #d98a35 }
.fill-ours { fill: #2f8a68 } .fill-turns { fill: #3d7dd8 } .fill-chance { fill: #d98a35 }
@media (prefers-color-scheme: dark) {
text { fill: #94a3b8 } .title { fill: #e5eaf2 } .name { fill: #cbd5e1 }
.ground { fill: #111827; stroke: #273449 } .area { fill: #1b2536 } .grid { stroke: #2c3950 } .mark { stroke: #94a3b8 }
.ours { stroke: #5fc49c } .turns { stroke: #6ba3f0 } .chance { stroke: #e0a061 }
.fill-ours { fill: #5fc49c } .fill-turns { fill: #6ba3f0 } .fill-chance { fill: #e0a061 }
}
</style>"""
KINDS = {"ours": "ours", "round robin": "turns", "random": "chance"}
WIDTH, HEIGHT, LEFT, TOP = 372, 190, 84, 92
STEP_X, STEP_Y = 468, 280


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def short(number):
    """12500 as 12.5k."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= unit:
            return f"{number / unit:g}{letter}"
    return f"{number:g}"


def text(x, y, words, kind=""):
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{words}</text>'


class Panel:
    """A part of a picture: an area with a scale on both sides."""

    def __init__(self, place, name, below, x_ticks, y_ticks, log=False):
        self.left = LEFT + place % 2 * STEP_X
        self.top = TOP + 24 + place // 2 * STEP_Y
        self.x_ticks, self.y_ticks, self.log = x_ticks, y_ticks, log
        right, bottom = self.left + WIDTH, self.top + HEIGHT
        self.out = [
            text(self.left, self.top - 12, name, "name"),
            f'<rect class="area" x="{self.left}" y="{self.top}" width="{WIDTH}" height="{HEIGHT}" rx="4"/>',
        ]
        for tick in y_ticks:
            y = self.y(tick)
            self.out.append(f'<line class="grid" x1="{self.left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self.out.append(text(self.left - 8, y + 4, short(tick), "end"))
        for tick in x_ticks:
            self.out.append(text(self.x(tick), bottom + 17, short(tick), "middle"))
        self.out.append(text(self.left + WIDTH / 2, bottom + 35, below, "middle"))

    def x(self, value):
        low, high = self.x_ticks[0], self.x_ticks[-1]
        part = math.log(value / low) / math.log(high / low) if self.log else (value - low) / (high - low)
        return self.left + 10 + part * (WIDTH - 20)

    def y(self, value):
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.top + HEIGHT - 6 - (min(value, high * 1.02) - low) / (high - low) * (HEIGHT - 12)

    def curve(self, kind, points):
        places = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.out.append(f'<polyline class="{kind}" points="{places}"/>')

    def dots(self, kind, points):
        for x, y in points:
            self.out.append(f'<circle class="fill-{kind}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3.5"/>')

    def mark(self, x, words):
        """A moment or a value of interest, with a word to the left of it."""
        at = self.x(x)
        self.out.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{self.top}" y2="{self.top + HEIGHT}"/>')
        self.out.append(text(at - 6, self.top + 16, words, "end"))


def picture(path, title, about, panels, legend=WAYS):
    lines = (len(panels) + 1) // 2
    width, height = LEFT + STEP_X + WIDTH + 24, TOP + STEP_Y * lines + 4
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">', STYLE]
    out.append(f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="12"/>')
    out += [text(28, 36, title, "title"), text(28, 56, about)]
    at = 28
    for way, name in legend:
        out.append(f'<rect class="fill-{KINDS[way]}" x="{at}" y="70" width="16" height="4" rx="2"/>')
        out.append(text(at + 22, 76, name))
        at += 40 + 7 * len(name)
    for panel in panels:
        out += panel.out
    path.write_text("\n".join(out + ["</svg>", ""]), encoding="utf-8")


def by_way(found, x, y, **wanted):
    """The points of each way, of rows that have these values."""
    for way, _ in reversed(WAYS):
        own = [row for row in found if row["how"] == way and all(row[key] == value for key, value in wanted.items())]
        yield way, sorted((float(row[x]), float(row[y])) for row in own)


def loads(folder, images):
    panels = []
    devices = [
        ("curve.csv", "two cores each", [0, 100, 200, 300], [0, 50_000, 100_000, 150_000]),
        ("gpu.csv", "like a GPU each", [0, 20, 40, 60], [0, 500_000, 1_000_000, 1_500_000, 2_000_000, 2_500_000]),
    ]
    for at, (file, name, times, answers) in enumerate(devices):
        found = rows(folder / file)
        ticks = [0, 20, 40, 60, 80, 100, 120]
        below = "load, % of what all nodes can do"
        panel = Panel(2 * at, f"1,000 nodes, {name}: ms, p99 solid, p50 dashed", below, ticks, times)
        for way, points in by_way(found, "load %", "p99 ms"):
            panel.curve(KINDS[way], points)
        panel.curve("ours dashed", dict(by_way(found, "load %", "p50 ms"))["ours"])
        panels.append(panel)
        panel = Panel(2 * at + 1, "answers in time, in a second", below, ticks, answers)
        for way, points in by_way(found, "load %", "in time/s"):
            panel.curve(KINDS[way], points)
        if file == "gpu.csv":
            panel.mark(47, "a million")
        panels.append(panel)
    picture(images / "fleet_load.svg", "Latency and answers against load", "simulated: real routers and batchers, virtual clock", panels)


def events(folder, images):
    found = rows(folder / "line.csv")
    # The first second is for warming up, and nothing is asked after the last one.
    shown = [
        ("connections break", "100 of 1,000 nodes are gone at 3 s: p99, ms", "p99 ms", [1, 2, 3, 4, 5, 6], [0, 50, 100, 150], 3, "gone"),
        ("silently", "100 of 1,000 say nothing any more: p99, ms", "p99 ms", [1, 2, 3, 4, 5, 6], [0, 100, 200, 300], 3, "silent"),
        ("found out", "125 at a time restart, nobody is told: p99, ms", "p99 ms", [1, 4, 7, 10, 13, 16, 19], [0, 50, 100, 150], None, ""),
        ("three seconds without network", "no network for 3 s: answers in time, in a second", "in time/s", [1, 4, 7, 10, 13, 16], [0, 50_000, 100_000, 150_000], 6, "back"),
    ]
    panels = []
    for place, (what, name, column, x_ticks, y_ticks, at, words) in enumerate(shown):
        refused = []
        for way, _ in WAYS:
            own = [row for row in found if row["what"] == what and row["how"] == way]
            if own:
                refused.append(f"{dict(WAYS)[way]} {sum(float(row['refused/s']) / 10 for row in own):,.0f}")
        panel = Panel(place, name, "seconds; refused: " + ", ".join(refused), x_ticks, y_ticks)
        if at:
            panel.mark(at, words)
        for way, points in by_way(found, "second", column, what=what):
            if not points:
                continue
            panel.curve(KINDS[way], [point for point in points if x_ticks[0] <= point[0] <= x_ticks[-1] - 0.1])
        panels.append(panel)
    picture(images / "fleet_events.svg", "What happens when something happens", "1,000 simulated nodes of two cores, 70 % load, 60 % in the last; by when callers were answered", panels)


def askers(folder, images):
    panel = Panel(0, "1,000 nodes at 80 %: p99, ms", "nodes that ask, each with a router", [1, 4, 16, 64, 256], [0, 50, 100, 150], log=True)
    for way, points in by_way(rows(folder / "callers.csv"), "callers", "p99 ms"):
        panel.curve(KINDS[way], points)
        panel.dots(KINDS[way], points)
    slow = Panel(1, "one node is five times slower, 80 %: p99.9, ms", "nodes", [8, 100, 1000], [0, 100, 200, 300], log=True)
    for way, points in by_way(rows(folder / "slow.csv"), "nodes", "p99.9 ms", **{"load %": "80"}):
        slow.curve(KINDS[way], points)
        slow.dots(KINDS[way], points)
    picture(images / "fleet_callers.svg", "Who asks, and who is slow", "simulated nodes of two cores", [panel, slow])


def mesh(folder, images):
    found = [{key: float(value) for key, value in row.items()} for row in rows(folder / "mesh.csv")]
    shown = [
        ("connect_cpu_s", "processor seconds until all are connected, all nodes"),
        ("rss_mb", "memory of a node, MB"),
        ("cpu_ms_min", "processor of an idle node, ms a minute"),
        ("pg_median_ms", "until all saw one join of a :pg group, ms"),
    ]
    panels = []
    for place, (column, name) in enumerate(shown):
        points = [(row["nodes"], row[column]) for row in found]
        panel = Panel(place, name, "nodes, all connected to all", [0, 20, 40, 60, 80, 100, 120], ticks(max(y for _, y in points)))
        panel.curve("ours", points)
        panel.dots("ours", points)
        panels.append(panel)
    picture(images / "fleet_mesh.svg", "A full mesh of Erlang nodes", "measured: small nodes on one machine of two shared cores, loopback, OTP 25", panels, [])


def ticks(most):
    """From zero to a round number above."""
    step = 10 ** math.floor(math.log10(most))
    step = next(step * part for part in (0.25, 0.5, 1, 2) if most / (step * part) <= 5)
    return [step * number for number in range(math.ceil(most / step) + 1)]


def main():
    folder, images = map(pathlib.Path, sys.argv[1:])
    for draw, needs in ((loads, "gpu.csv"), (events, "line.csv"), (askers, "slow.csv"), (mesh, "mesh.csv")):
        if (folder / needs).exists():
            draw(folder, images)
        else:
            print(f"skipped: there is no {needs}")


if __name__ == "__main__":
    main()
