"""Charts as SVG: bars beside a line at 1, intervals, and curves. Colours are read on light and on dark pages, without a background.

Numbers go in, text comes out: nothing here knows what was measured.
"""
import dataclasses
import html
import math

COLORS = ["#4a90d9", "#e0803a", "#3fa66f", "#a070dc", "#c9a227", "#2ba8a8", "#d0639b", "#8a8f98"]
TEXT, FAINT, GRID, WHISKER, ALARM = "#7b848f", "#8d959f", "#8d959f", "#2c5f96", "#e5484d"
FONT = "ui-sans-serif, -apple-system, Segoe UI, Helvetica, Arial, DejaVu Sans, sans-serif"


@dataclasses.dataclass
class Bar:
    """A row of a bar chart: `columns` are texts beside it, `mark` is another value to show on it."""

    group: str
    name: str
    value: float
    spread: tuple
    columns: tuple
    mark: float | None = None


@dataclasses.dataclass
class Bars:
    title: str
    heads: tuple
    bars: list


@dataclasses.dataclass
class Interval:
    """A row of a chart of intervals: a dot at `value`, a line from `low` to `high`, the least value allowed, and whether it failed."""

    group: str
    name: str
    value: float
    low: float
    high: float
    bound: float
    alarm: bool = False


@dataclasses.dataclass
class Curves:
    """A chart of curves: a list of points for each name, and the points at which something is wrong."""

    title: str
    x: str
    y: str
    series: dict
    log_x: bool = True
    log_y: bool = False
    alarms: list = dataclasses.field(default_factory=list)


class Page:
    def __init__(self, width, height):
        self.size, self.parts = (width, height), []

    def add(self, tag, content=None, **attributes):
        named = " ".join(f'{name.replace("_", "-")}="{number(value)}"' for name, value in attributes.items() if value is not None)
        self.parts.append(f"<{tag} {named}/>" if content is None else f"<{tag} {named}>{html.escape(content)}</{tag}>")

    def text(self, x, y, content, size=12, anchor="start", color=TEXT, weight=None, transform=None):
        self.add("text", content, x=x, y=y, font_size=size, text_anchor=anchor, fill=color, font_weight=weight, transform=transform)

    def line(self, x1, y1, x2, y2, color=GRID, width=1, opacity=0.28, dash=None):
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=color, stroke_width=width, stroke_opacity=opacity, stroke_dasharray=dash)

    def __str__(self):
        width, height = self.size
        opening = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" ' \
                  f'viewBox="0 0 {width} {height}" font-family="{FONT}">'
        return "\n".join([opening, *self.parts, "</svg>\n"])


def number(value):
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else html.escape(str(value))


def short(value):
    """A number on an axis."""
    if value >= 1024 and value % 1024 == 0:
        return f"{value // 1024:.0f}k"
    return f"{value:g}"


def steps(top, count=5):
    """Round numbers from 0 to at least `top`."""
    raw = max(top, 1e-9) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def bars(panels, legend, notes):
    """Panels side by side, over a legend (of the bars, of the line at 1, of the marks) and lines of notes."""
    width, left, row, head, between = 490, 78, 21, 46, 24
    starts = lambda panel, i: i == 0 or panel.bars[i].group != panel.bars[i - 1].group
    heights = [sum(row + (between if starts(panel, i) else 0) for i in range(len(panel.bars))) for panel in panels]
    bottom = head + max(heights, default=0)
    page = Page(width * len(panels), bottom + 58 + 17 * len(notes))
    for index, panel in enumerate(panels):
        x0, x1 = index * width + left, (index + 1) * width - 130
        columns = [x1 + 50, x1 + 106]
        marks = [bar.mark for bar in panel.bars if bar.mark is not None]
        ticks = steps(max([1.0, *(bar.spread[1] for bar in panel.bars), *marks]))
        place = lambda value: x0 + (x1 - x0) * value / ticks[-1]
        page.text(index * width + 12, 22, panel.title, 13.5, weight=600)
        for x, name in zip(columns, panel.heads):
            page.text(x, head + 12, name, 11, "end", FAINT)
        for tick in ticks:
            page.line(place(tick), head if tick else bottom, place(tick), bottom + 4)
            page.text(place(tick), bottom + 20, f"{tick:g}\u00d7", 11, "middle", FAINT)
        y, group = float(head), None
        for bar in panel.bars:
            if bar.group != group:
                group = bar.group
                y += between
                page.text(index * width + 12, y - 6, group, 12, weight=600)
            middle = y + row / 2
            page.text(x0 - 8, middle + 4, bar.name, 11.5, "end")
            page.add("rect", x=x0, y=y + 3, width=place(bar.value) - x0, height=row - 6, rx=2, fill=COLORS[0])
            page.line(place(bar.spread[0]), middle, place(bar.spread[1]), middle, WHISKER, 2, 1)
            if bar.mark is not None:
                diamond(page, place(bar.mark), middle)
            for x, text, weight in zip(columns, bar.columns, [600, None]):
                page.text(x, middle + 4, text, 11.5, "end", weight=weight)
            y += row
        page.line(place(1), head, place(1), bottom + 4, TEXT, 1.5, 0.9, "4 3")
    x, y = 12, bottom + 44
    for index, name in enumerate(legend):
        if index == 0:
            page.add("rect", x=x, y=y - 9, width=14, height=10, rx=2, fill=COLORS[0])
        elif index == 1:
            page.line(x + 7, y - 11, x + 7, y + 3, TEXT, 1.5, 0.9, "4 3")
        else:
            diamond(page, x + 7, y - 4)
        page.text(x + 20, y, name, 11.5)
        x += 44 + 6.4 * len(name)
    for index, note in enumerate(notes):
        page.text(12, y + 20 + 17 * index, note, 11.5, color=FAINT)
    return str(page)


def titled(title, svg):
    """A chart under a title."""
    page = Page(*size(svg)[:1], 34)
    page.text(12, 26, title, 16, weight=600)
    return stacked([str(page), svg])


def stacked(svgs):
    """Charts one above the other."""
    sizes = [size(svg) for svg in svgs]
    page, y = Page(max(width for width, _ in sizes), sum(height for _, height in sizes)), 0
    for svg, (_, height) in zip(svgs, sizes):
        inside = svg[svg.index(">") + 1 : svg.rindex("</svg>")].strip()
        page.parts.append(f'<g transform="translate(0 {number(y)})">\n{inside}\n</g>')
        y += height
    return str(page)


def size(svg):
    """The width and the height of a chart."""
    numbers = [svg.split(f'{name}="', 1)[1].split('"', 1)[0] for name in ("width", "height")]
    return tuple(float(text) for text in numbers)


def diamond(page, x, y):
    page.add("path", d=f"M{x:.1f} {y - 6:.1f}l5 6l-5 6l-5 -6z", fill=COLORS[1])


def intervals(title, rows, notes):
    """One row for each interval, over lines of notes. Alarms are red."""
    width, left, row, head, between = 760, 220, 18, 46, 24
    groups = sum(i == 0 or item.group != rows[i - 1].group for i, item in enumerate(rows))
    bottom = head + row * len(rows) + between * groups
    page = Page(width, bottom + 40 + 17 * len(notes))
    lowest = min([1.0, *(min(item.low, item.bound) for item in rows)])
    highest = max([1.0, *(item.high for item in rows)])
    step = steps(max(highest - lowest, 0.02))[1]
    first, last = math.floor(lowest / step), max(math.ceil(highest / step), math.floor(lowest / step) + 1)
    place = lambda value: left + (width - left - 90) * (value / step - first) / (last - first)
    page.text(12, 22, title, 13.5, weight=600)
    for tick in range(first, last + 1):
        page.line(place(tick * step), head, place(tick * step), bottom + 4)
        page.text(place(tick * step), bottom + 20, f"{tick * step:.4g}\u00d7", 11, "middle", FAINT)
    page.line(place(1), head, place(1), bottom + 4, TEXT, 1.5, 0.9, "4 3")
    y, group = float(head), None
    for item in rows:
        if item.group != group:
            group = item.group
            y += between
            page.text(12, y - 6, group, 12, weight=600)
        middle, color = y + row / 2, ALARM if item.alarm else COLORS[0]
        page.text(left - 8, middle + 4, item.name, 11.5, "end")
        page.line(place(item.bound), y, place(item.bound), y + row, COLORS[1], 2, 1)
        page.line(place(item.low), middle, place(item.high), middle, color, 2, 1)
        page.add("circle", cx=place(item.value), cy=middle, r=3.5, fill=color)
        page.text(width - 20, middle + 4, f"{item.value:.3f}", 11.5, "end")
        y += row
    for index, note in enumerate(notes):
        page.text(12, bottom + 44 + 17 * index, note, 11.5, color=FAINT)
    return str(page)


def curves(panels, notes, columns=2):
    """Panels in a grid, over lines of notes."""
    width, height = 490, 330
    lines = math.ceil(len(panels) / columns)
    page = Page(width * min(columns, len(panels)), height * lines + 12 + 17 * len(notes))
    for index, panel in enumerate(panels):
        draw_curves(page, panel, (index % columns * width, index // columns * height), (width, height))
    for index, note in enumerate(notes):
        page.text(14, height * lines + 8 + 17 * index, note, 11.5, color=FAINT)
    return str(page)


class Axis:
    """Values to places; logarithmic axes put 0 one step before the smallest other value, and end at powers of two if `whole`."""

    def __init__(self, values, span, log, whole=False):
        self.log, self.span = log, span
        if not log:
            self.ticks = steps(max(values))
            self.low, self.high = 0, self.ticks[-1]
            return
        logs = [math.log2(value) for value in values if value > 0] or [0]
        self.low, self.high = (math.floor(min(logs)), math.ceil(max(logs))) if whole else (min(logs), max(logs))
        powers = [2**power for power in range(math.ceil(self.low), math.floor(self.high) + 1)]
        self.ticks, self.zero = powers[:: max(1, math.ceil(len(powers) / 11))], self.low - 1
        if min(values) <= 0:
            self.low, self.ticks = self.zero, [0, *self.ticks]

    def place(self, value):
        at = (math.log2(value) if value > 0 else self.zero) if self.log else value
        part = (at - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.span[0] + (self.span[1] - self.span[0]) * part


def draw_curves(page, panel, origin, size):
    left, right = origin[0] + 62.0, origin[0] + size[0] - 20.0
    top, bottom = origin[1] + 62.0, origin[1] + size[1] - 50.0
    points = [point for series in panel.series.values() for point in series]
    across = Axis([x for x, _ in points], (left, right), panel.log_x)
    up = Axis([y for _, y in points], (bottom, top), panel.log_y, whole=True)
    page.text(origin[0] + 14, origin[1] + 24, panel.title, 13.5, weight=600)
    at = left
    for index, name in enumerate(panel.series):
        page.line(at, top - 16, at + 16, top - 16, COLORS[index % len(COLORS)], 2.5, 1)
        page.text(at + 21, top - 12, name, 11.5)
        at += 34 + 6.6 * len(name)
    for tick in across.ticks:
        page.line(across.place(tick), top, across.place(tick), bottom)
        page.text(across.place(tick), bottom + 16, short(tick), 11, "middle", FAINT)
    for tick in up.ticks:
        page.line(left, up.place(tick), right, up.place(tick))
        page.text(left - 7, up.place(tick) + 4, short(tick), 11, "end", FAINT)
    page.text((left + right) / 2, bottom + 34, panel.x, 11.5, "middle")
    middle = (top + bottom) / 2
    page.text(origin[0] + 18, middle, panel.y, 11.5, "middle", transform=f"rotate(-90 {origin[0] + 18} {middle:.1f})")
    for index, series in enumerate(panel.series.values()):
        color = COLORS[index % len(COLORS)]
        path = " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in series)
        page.add("polyline", points=path, fill="none", stroke=color, stroke_width=2, stroke_linejoin="round")
        for x, y in series:
            page.add("circle", cx=across.place(x), cy=up.place(y), r=2.2, fill=color)
    for x, y in panel.alarms:
        page.add("circle", cx=across.place(x), cy=up.place(y), r=6.5, fill="none", stroke=ALARM, stroke_width=2)
