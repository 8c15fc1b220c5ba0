"""Where several processes run the tests, those of one formula are run by one, which builds it once (`building`)."""

from __future__ import annotations

import building
import pytest

from gradgen import plan
from gradgen.standing import Problem


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        formula = getattr(item, "callspec", None) and item.callspec.params.get("formula")
        if isinstance(formula, str) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(formula))
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)


_FIRST_ORDER: dict[str, str] = {}  # what was built so, by the text of the spec


@pytest.fixture
def first_order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Second derivatives are built without the search for better forms, which takes long, but if `second_order`."""
    if not request.node.get_closest_marker("second_order"):
        monkeypatch.setattr(building, "_GENERATED", _FIRST_ORDER)
        monkeypatch.setattr(plan, "Problem", lambda nodes, second, *rest: Problem(nodes, [], *rest))
