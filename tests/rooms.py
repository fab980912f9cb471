"""The picture of the rooms in `docs/architecture.md`, drawn from the contracts of `pyproject.toml`.

`python tests/rooms.py` writes it; `tests/test_rooms.py` holds that it shows the contracts as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "figures" / "rooms.svg"

#: Sizes in pixels: width of the picture, height of a room, distance between floors and between rooms.
_WIDTH, _HEIGHT, _FLOOR, _GAP = 860, 34, 44, 8
_TITLE = 26

_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1a1a1a}.title{font-weight:600}"
    "rect{fill:#eef3f8;stroke:#8aa4bd}.core rect{fill:#f6f0e2;stroke:#b59c62}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}rect{fill:#22303d;stroke:#5d7890}"
    ".core rect{fill:#3a3220;stroke:#8d7a4c}}"
)


def floors(contract: dict[str, Any]) -> list[list[str]]:
    """The rooms of each floor, the highest first, without the package's name."""
    found = []
    for layer in contract["layers"]:
        rooms = [room.strip() for room in layer.split("|")]
        found.append([room.removeprefix("prequential.").removeprefix("core.") for room in rooms])
    return found


def contracts() -> list[dict[str, Any]]:
    """The contracts that say which room stands on which floor: of the house, of the core."""
    import tomllib  # from Python 3.11 on

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return [contract for contract in found if contract["type"] == "layers"]


def drawn() -> str:
    """The picture as SVG."""
    parts, top = [], 4
    for contract, title, kind in zip(contracts(), ("The house", "Its core"), ("house", "core")):
        parts.append(f'<g class="{kind}"><text class="title" x="4" y="{top + 16}">{title}</text>')
        top += _TITLE
        for rooms in floors(contract):
            width = (_WIDTH - _GAP * (len(rooms) + 1)) / len(rooms)
            for place, room in enumerate(rooms):
                x = _GAP + place * (width + _GAP)
                parts.append(
                    f'<rect x="{x:.0f}" y="{top}" width="{width:.0f}" height="{_HEIGHT}" rx="4"/>'
                    f'<text x="{x + width / 2:.0f}" y="{top + 22}" text-anchor="middle">{room}</text>'
                )
            top += _FLOOR
        parts.append("</g>")
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img" '
        f'aria-label="Rooms by floor: each imports those below it alone"><style>{_STYLE}</style>\n'
        f"{inside}\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
