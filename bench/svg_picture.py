"""A picture in SVG, part by part, and what the pictures of measurements have in common: colours, axes, bars, numbers. Used by
chart.py, programs.py, sweep_report.py, survey.py and report.py; needs nothing but Python's standard library."""
import math
from xml.sax.saxutils import escape

# Who is measured: key in the JSON of `tessera bench`, name in a legend, colour. The palette is Okabe and Ito's, which colour-blind
# readers can tell apart.
CONTESTANTS = [
    ("tessera", "Tessera", "#0072b2"),
    ("cublasxt", "cublasXt", "#e69f00"),
    ("cpu", "CPU BLAS", "#999999"),
]
BOUND = ("bound", "bound (links and devices at their best)", "#222222")

AXIS, GRID, INK, TITLE = "#333333", "#e0e0e0", "#333333", "#111111"
DASHES = ' stroke-dasharray="4 2"'
FONT = "font-family=\"Helvetica, Arial, sans-serif\""


def tick_step(top):
    """The smallest of 1, 2, 5 times a power of ten that cuts [0, top] into at most six parts."""
    power = 10 ** math.floor(math.log10(top / 6))
    return next(power * factor for factor in (1, 2, 5, 10) if top / (power * factor) <= 6)


def number(value):
    """Three significant digits without an exponent."""
    if value == 0:
        return "0"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def unit_of(top):
    """Unit for rates in TFLOP/s of which `top` is the highest, and the factor that leads to it."""
    return ("TFLOP/s", 1) if top >= 1 else ("GFLOP/s", 1000)


class Picture:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self.parts = []

    def text(self, x, y, words, size=12, anchor="middle", colour=INK, extra=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" {FONT}{extra}>'
                          f"{escape(words)}</text>")

    def title(self, x, words):
        self.text(x, 28, words, 16, "start", TITLE, ' font-weight="bold"')

    def upright_text(self, x, y, words):
        self.text(x, y, words, extra=f' transform="rotate(-90 {x} {y:.1f})"')

    def line(self, x1, y1, x2, y2, colour, thickness=1, extra=""):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                          f'stroke-width="{thickness}"{extra}/>')

    def box(self, x, y, width, height, colour, tip=None):
        """A filled rectangle. @param tip shown where the reader points at it"""
        tail = "/>" if tip is None else f"><title>{escape(tip)}</title></rect>"
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"{tail}')

    def polyline(self, points, colour, thickness=1.6, extra=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{thickness}"{extra}/>')

    def mark(self, shape, x, y, colour, tip=None):
        """A point of a line: shape 0, 1, 2, ... is a disc, square, triangle, diamond, and so on again."""
        corners = [None, [(-3, -3), (3, -3), (3, 3), (-3, 3)], [(0, -4), (3.8, 3), (-3.8, 3)], [(0, -4.4), (4.4, 0), (0, 4.4), (-4.4, 0)]]
        outline = corners[shape % len(corners)]
        if outline is None:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.3" fill="{colour}"')
        else:
            path = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in outline)
            self.parts.append(f'<polygon points="{path}" fill="{colour}"')
        name = "circle" if outline is None else "polygon"
        self.parts[-1] += "/>" if tip is None else f"><title>{escape(tip)}</title></{name}>"

    def legend(self, x, contestants, gap=38):
        """Boxes with names. @return where the next entry begins"""
        for _, words, colour in contestants:
            self.box(x, 44, 12, 12, colour)
            self.text(x + 18, 54, words, 12, "start")
            x += gap + 7 * len(words)
        return x

    def dashed_legend(self, x, words, colour, thickness=1.5):
        self.line(x, 50, x + 18, 50, colour, thickness, DASHES)
        self.text(x + 24, 54, words, 12, "start")

    def svg(self):
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                          f'viewBox="0 0 {self.width} {self.height}">',
                          f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>', *self.parts, "</svg>", ""])


BARS_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 64, 24, 84, 56
BAR, BAR_GAP, GROUP_GAP = 30, 3, 34


def bars(title, unit, series, groups, roof, x_name):
    """Groups of bars over one axis from zero, with a dashed line over some of them.

    @param unit    of all values
    @param series  (key, words, colour) of each
    @param groups  (name, words below it, a second line of these, values by key) of each; a value "bound" is the dashed line
    @param roof    words of that line in the legend; None: there is none
    @return the text of the picture
    """
    top = max(value for *_, values in groups for value in values.values())
    step = tick_step(top)
    ticks = math.ceil(top / step)
    group_width = len(series) * (BAR + BAR_GAP) - BAR_GAP
    width = max(560, LEFT + RIGHT + len(groups) * (group_width + GROUP_GAP))
    pitch = (width - LEFT - RIGHT) / len(groups)
    plot = BARS_HEIGHT - TOP - BOTTOM
    picture = Picture(width, BARS_HEIGHT)

    def y_of(value):
        return TOP + plot * (1 - value / (ticks * step))

    picture.title(LEFT, title)
    x = picture.legend(LEFT, series, 34)
    if roof is not None:
        picture.dashed_legend(x, roof, BOUND[2], 2)

    for tick in range(ticks + 1):
        y = y_of(tick * step)
        picture.line(LEFT, y, width - RIGHT, y, AXIS if tick == 0 else GRID)
        picture.text(LEFT - 8, y + 4, f"{tick * step:g}", 12, "end")
    picture.upright_text(18, TOP + plot / 2, unit)

    for index, (name, words, more_words, values) in enumerate(groups):
        middle = LEFT + pitch * (index + 0.5)
        start = middle - group_width / 2
        for place, (key, _, colour) in enumerate(series):
            if key not in values:
                continue
            x, y = start + place * (BAR + BAR_GAP), y_of(values[key])
            picture.box(x, y, BAR, y_of(0) - y, colour, f"{name}: {key} {number(values[key])} {unit}")
            picture.text(x + BAR / 2, y - 4, number(values[key]), 10)
        if "bound" in values:
            y = y_of(values["bound"])
            picture.line(start - 6, y, start + group_width + 6, y, BOUND[2], 2, DASHES)
        picture.text(middle, BARS_HEIGHT - BOTTOM + 18, words)
        if more_words:
            picture.text(middle, BARS_HEIGHT - BOTTOM + 33, more_words, 11)
    picture.text(LEFT + (width - LEFT - RIGHT) / 2, BARS_HEIGHT - 12, x_name)
    return picture.svg()


class Panel:
    """A pair of axes in a picture, from the origin: lines of rates over something.

    @param x_top, y_top  the largest values that have to fit; the y axis ends at the next tick
    """

    def __init__(self, picture, left, top, width, height, x_top, y_top):
        self.picture = picture
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x_top = x_top
        self.step = tick_step(y_top)
        self.y_top = math.ceil(y_top / self.step - 1e-9) * self.step

    def x(self, value):
        return self.left + self.width * value / self.x_top

    def y(self, value):
        return self.top + self.height * (1 - value / self.y_top)

    def axes(self, title, x_ticks, x_name):
        """@param x_ticks (position, text) of each"""
        self.picture.text(self.left, self.top - 10, title, 13, "start", TITLE, ' font-weight="bold"')
        for tick in range(round(self.y_top / self.step) + 1):
            y = self.y(tick * self.step)
            self.picture.line(self.left, y, self.left + self.width, y, AXIS if tick == 0 else GRID)
            self.picture.text(self.left - 6, y + 4, f"{tick * self.step:g}", 11, "end")
        bottom = self.top + self.height
        for position, words in x_ticks:
            self.picture.line(self.x(position), bottom, self.x(position), bottom + 4, AXIS)
            self.picture.text(self.x(position), bottom + 17, words, 11)
        self.picture.text(self.left + self.width / 2, bottom + 34, x_name, 11)

    def series(self, points, colour, mark=None, tip="", extra=""):
        """A line through (x, y) points. @param mark shape of its points; None: none @param tip begins what is shown at each"""
        points = sorted(points)
        if len(points) > 1:
            self.picture.polyline([(self.x(x), self.y(y)) for x, y in points], colour, extra=extra)
        for x, y in points if mark is not None else []:
            self.picture.mark(mark, self.x(x), self.y(y), colour, f"{tip} {x:g}: {number(y)}")


def rates_over_sizes(title, legend, panels, x_name, unit=None):
    """Panels of rates over sizes, two in a row, with the sizes' logarithms along the axis.

    @param legend  (words, colour) of each series
    @param panels  (words, lines) of each; a line is (points, words, colour, shape of its marks; None: dashes without marks), a point
                   (size, TFLOP/s)
    @param unit    what is over the sizes, if not rates
    @return the text of the picture
    """
    width, height, left, in_a_row = 360, 210, 64, 3
    above = 110 + 20 * -(-len(legend) // in_a_row)
    rows = -(-len(panels) // 2)
    picture = Picture(left + 2 * (width + 56), above + rows * (height + 84))
    picture.title(left, title)
    for index, (words, colour) in enumerate(legend):
        x, y = left + index % in_a_row * 270, 56 + index // in_a_row * 20
        picture.line(x, y, x + 18, y, colour, 3)
        picture.text(x + 24, y + 4, words, 12, "start")
    for index, (words, lines) in enumerate(panels):
        every = [point for points, *_ in lines for point in points]
        top = max(rate for _, rate in every)
        unit_there, factor = unit_of(top) if unit is None else (unit, 1)
        first = math.floor(math.log2(min(size for size, _ in every)))
        last = math.ceil(math.log2(max(size for size, _ in every)))
        panel = Panel(picture, left + index % 2 * (width + 56), above + index // 2 * (height + 84), width, height, max(last - first, 1),
                      top * factor)
        panel.axes(f"{words}, {unit_there}", [(e - first, str(2**e)) for e in range(first, last + 1)], x_name)
        for points, words_of, colour, shape in lines:
            placed = [(math.log2(size) - first, rate * factor) for size, rate in points]
            panel.series(placed, colour, shape, f"{words.split(',')[0]} {words_of}", extra=DASHES if shape is None else "")
    return picture.svg()
