#!/usr/bin/env python3
"""Draws the README's picture of a chat: runs the program in a terminal of its own, types, and writes what the screen shows.

    pip install pyte
    cargo build --release && scripts/picture-chat.py docs/chat.svg

Everything in the picture was on the screen: the text, its figures and when each line came. Lines appear at the times they
appeared; programs that do not animate show the last state.
"""
import fcntl, html, os, pty, select, struct, sys, termios, time
import pyte

COLUMNS, ROWS, MOST_SECONDS = 100, 30, 120
PROGRAM = ["target/release/silicide", "run", "smollm2", "--temp", "0", "-n", "60", "--device", "cpu"]
TYPED = ["Why is the sky blue?", "What is the capital of France?", "/stats", "/quit"]


def record():
    """Types into the program; gives the final screen and, for each row, when it got its final text."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        os.execvp(PROGRAM[0], PROGRAM)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    begun, changed, shown = time.monotonic(), [0.0] * ROWS, [""] * ROWS
    waiting = list(TYPED)
    quiet_since = time.monotonic()
    while time.monotonic() - begun < MOST_SECONDS:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                break
            if not data:
                break
            stream.feed(data)
            quiet_since = time.monotonic()
            for row, text in enumerate(screen.display):
                if text != shown[row]:
                    shown[row], changed[row] = text, time.monotonic() - begun
        elif waiting and time.monotonic() - quiet_since > 1.5:
            for character in waiting.pop(0) + "\r":
                os.write(terminal, character.encode())
                time.sleep(0.03)
            quiet_since = time.monotonic()
    os.waitpid(child, 0)
    return screen, changed


def draw(screen, changed, path):
    """Writes the screen as SVG, each row appearing at its time."""
    last = max(row for row in range(ROWS) if screen.display[row].strip()) + 1
    width, height, line = COLUMNS * 8.4 + 40, last * 19 + 64, 19
    colours = {"green": "#7ec699", "cyan": "#6cb6d9", "blue": "#7aa2f7", "yellow": "#e5c07b", "red": "#e06c75",
               "brown": "#e5c07b", "magenta": "#c678dd", "brightblack": "#7f848e", "black": "#7f848e"}
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" font-size="14" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace">',
        f'<rect width="{width:.0f}" height="{height}" rx="10" fill="#1e2127"/>',
    ]
    out += [f'<circle cx="{20 + 20 * i}" cy="20" r="6" fill="{c}"/>' for i, c in enumerate(["#e06c75", "#e5c07b", "#7ec699"])]
    for row in range(last):
        cells = [screen.buffer[row][column] for column in range(COLUMNS)]
        while cells and cells[-1].data == " ":
            cells.pop()
        pieces, at = [], 0
        while at < len(cells):
            look = (cells[at].fg, cells[at].bold)
            end = at
            while end < len(cells) and (cells[end].fg, cells[end].bold) == look:
                end += 1
            text = html.escape("".join(cell.data for cell in cells[at:end]))
            weight = ' font-weight="bold"' if look[1] else ""
            pieces.append(f'<tspan fill="{colours.get(look[0], "#d7dae0")}"{weight}>{text}</tspan>')
            at = end
        if pieces:
            # Hidden until its time; where nothing is animated, always there.
            still = f'<set attributeName="opacity" to="0" begin="0s" end="{changed[row]:.2f}s"/>'
            out.append(f'<text x="20" y="{56 + row * line}" xml:space="preserve">{"".join(pieces)}{still}</text>')
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    draw(*record(), sys.argv[1] if len(sys.argv) > 1 else "docs/chat.svg")
