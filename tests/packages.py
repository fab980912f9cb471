"""Draw the picture of packages in `docs/architecture.md` from the contracts of `pyproject.toml`.

`python tests/packages.py` writes it; `tests/test_packages.py` tests that it shows the contracts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "figures" / "packages.svg"

#: Sizes in pixels: width of the picture, height of a box, distance between layers and between boxes.
_WIDTH, _HEIGHT, _LAYER, _GAP = 860, 34, 44, 8
_TITLE = 26

_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1a1a1a}.title{font-weight:600}"
    "rect{fill:#eef3f8;stroke:#8aa4bd}.engine rect{fill:#f6f0e2;stroke:#b59c62}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}rect{fill:#22303d;stroke:#5d7890}"
    ".engine rect{fill:#3a3220;stroke:#8d7a4c}}"
)


def layers(contract: dict[str, Any]) -> list[list[str]]:
    """The packages of each layer as paths, the highest layer first."""
    found = []
    for layer in contract["layers"]:
        names = [name.strip().removeprefix("prequential.") for name in layer.split("|")]
        found.append([name.removeprefix("engine.").replace(".", "/") for name in names])
    return found


def contracts() -> list[dict[str, Any]]:
    """The contracts about layers: that of all packages, then that of the engine."""
    import tomllib  # from Python 3.11 on

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return [contract for contract in found if contract["type"] == "layers"]


def drawn() -> str:
    """The picture as SVG."""
    parts, top = [], 4
    titles = {"all": "pipeline/prequential/", "engine": "pipeline/prequential/engine/"}
    for contract, (kind, title) in zip(contracts(), titles.items()):
        parts.append(f'<g class="{kind}"><text class="title" x="4" y="{top + 16}">{title}</text>')
        top += _TITLE
        for names in layers(contract):
            width = (_WIDTH - _GAP * (len(names) + 1)) / len(names)
            for place, name in enumerate(names):
                x = _GAP + place * (width + _GAP)
                parts.append(
                    f'<rect x="{x:.0f}" y="{top}" width="{width:.0f}" height="{_HEIGHT}" rx="4"/>'
                    f'<text x="{x + width / 2:.0f}" y="{top + 22}" text-anchor="middle">{name}</text>'
                )
            top += _LAYER
        parts.append("</g>")
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img" '
        f'aria-label="Packages by layer: each imports only packages below it"><style>{_STYLE}</style>\n'
        f"{inside}\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
