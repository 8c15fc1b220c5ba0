"""Where several processes run the tests, those of one formula, and those that differ in path and type alone, are run by
one, which builds it once (`building`), and they share the cores; thorough tests come last, and may be left out; and
builds are as those of the command, or without second derivatives.
"""

from __future__ import annotations

import os
import time
import zlib

import building
import gallery
import pytest
import torch

from gradgen import plan
from gradgen.processes import collect_rarely
from gradgen.standing import Problem
from gradgen.verify.subject import Subject

_BEGUN = time.monotonic()
_LEFT_OUT = "left out: the others took long already"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--until", type=float, metavar="SECONDS", help="Leave out thorough tests that have not begun after so long."
    )


def pytest_configure() -> None:
    os.environ.setdefault("GRADGEN_NATIVE", "0")  # what else was compiled on this machine must make no difference
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        # Threads of OpenMP spin while they wait, and where each process has one for every core, that is most of what
        # the cores do. Processes that tests start inherit it.
        threads = max(1, torch.get_num_threads() // workers)
        torch.set_num_threads(threads)
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    collect_rarely()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    alike: dict[pytest.Item, str] = {}
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        formula, is_of_path = params.get("formula"), params.get("path") in ("cpu", "torch")
        alike[item] = item.nodeid
        if (isinstance(formula, str) or is_of_path) and not item.get_closest_marker("xdist_group"):
            alike[item] = formula if isinstance(formula, str) else _without_path_and_type(item)
            # xdist takes what is after an @ for the group only if no ] is there
            item.add_marker(pytest.mark.xdist_group(alike[item].replace("]", ")")))
    _mark_variants(alike)
    items.sort(key=lambda item: (is_thorough(item), item.get_closest_marker("minutes") is None))


def _without_path_and_type(item: pytest.Item) -> str:
    name, _, variant = item.nodeid.removesuffix("]").partition("[")
    left_out = {item.callspec.params["path"], str(item.callspec.params.get("dtype"))}
    return f"{name}[{'-'.join(part for part in variant.split('-') if part not in left_out)}]"


def _mark_variants(alike: dict[pytest.Item, str]) -> None:
    """Of a test marked `few` some variants are run every day, more with slow tests, the rest with thorough ones.

    Chosen by chance, the same each time. What is alike counts as one, for what they have in common takes longest.
    """
    variants: dict[str, set[str]] = {}
    for item, variant in alike.items():
        variants.setdefault(item.nodeid.split("[")[0], set()).add(variant)
    every = {test: sorted(some, key=lambda name: (zlib.crc32(name.encode()), name)) for test, some in variants.items()}
    for item, variant in alike.items():
        few = item.get_closest_marker("few")
        if few is not None:
            place = every[item.nodeid.split("[")[0]].index(variant)
            if place >= few.kwargs["every_day"]:
                item.add_marker("slow")
            if place >= few.kwargs["slow"]:
                item.add_marker("thorough")


def is_thorough(item: pytest.Item) -> bool:
    return item.get_closest_marker("thorough") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    until = item.config.getoption("until")
    if until is not None and is_thorough(item) and time.monotonic() - _BEGUN > until:
        pytest.skip(_LEFT_OUT)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum(_LEFT_OUT in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.write_line(f"LEFT OUT: {count} of the tests marked thorough, for the others took long")


_FIRST_ORDER: dict[str, str] = {}  # what was built so, by the text of the spec


@pytest.fixture
def first_order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Second derivatives are built without the search for better forms, which takes long, but if `second_order`; nor
    are they measured.
    """
    if not request.node.get_closest_marker("second_order"):
        monkeypatch.setattr(Subject, "quantities", building.FIRST_ORDER)
        monkeypatch.setattr(building, "_GENERATED", _FIRST_ORDER)
        monkeypatch.setattr(plan, "Problem", lambda nodes, second, *rest: Problem(nodes, [], *rest))


@pytest.fixture(params=["C", pytest.param("C++", marks=pytest.mark.xdist_group("native"))])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By which of the quick ways small calls of the gallery go."""
    rt = gallery.runtime()
    monkeypatch.setattr(rt, "_native", None)
    if request.param == "C++":
        rt._use_native(rt.compile_native())
    return request.param
