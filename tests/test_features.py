"""Each file of the product belongs to a feature that has a page, and somebody who needs it."""

from __future__ import annotations

from tests.features import FEATURES, PAGE, PRODUCT, ROOT, TOPICS, feature_of, files


def test_each_file_belongs_to_a_feature() -> None:
    assert [path.relative_to(ROOT).as_posix() for path in files() if feature_of(path) is None] == []


def test_each_feature_has_a_page_and_files() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for feature in FEATURES:
        assert (ROOT / "docs" / feature.page).is_file(), feature.page
        assert f"[{feature.name}]({feature.page})|{feature.needed_by}|" in page, "run tests/features.py"
        for path in feature.paths:
            assert (PRODUCT / path).exists() or (TOPICS / path).exists(), path


def test_no_path_belongs_to_two_features() -> None:
    paths = [path for feature in FEATURES for path in feature.paths]
    assert len(paths) == len(set(paths))
