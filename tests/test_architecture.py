"""The picture of the architecture shows exactly the existing packages."""

import re
from pathlib import Path

import monro

PICTURE = Path(__file__).parent.parent / "docs" / "static" / "architecture.svg"


def test_the_picture_shows_all_packages():
    names = re.findall(r'class="name">(.*?)</text>', PICTURE.read_text())
    shown = [name for box in names for name in box.split(" · ")]
    existing = {
        path.stem
        for path in Path(monro.__file__).parent.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert len(shown) == len(set(shown))
    assert set(shown) == existing - {"__init__", "__main__"}
