"""Where several processes run the tests, those of one formula are run by one, which builds it once (`building`)."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        formula = getattr(item, "callspec", None) and item.callspec.params.get("formula")
        if isinstance(formula, str) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(formula))
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)
