"""What a verification is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """What a verification is asked to do.

    Attributes:
        paths: spec files, and folders of them.
        templates: the folder of the templates; None for those that come with gradgen.
        bar: the largest error that passes, in mixed ULPs.
        points: how many points of each kind to look at; None for what is quick.
        exhaustive: whether to go through every input of the narrow types, too.
        stride: of the float32 inputs of an exhaustive run, one of how many is looked at.
        only: the ways to compute that are measured, "cpu", "cuda" or "torch"; empty for all that can be had.
        given: hyper-parameters that are not to have their defaults, each as NAME=VALUE.
        record: the file to write the measured table to.
    """

    paths: tuple[Path, ...]
    templates: Path | None = None
    bar: float = 4.0
    points: int | None = None
    exhaustive: bool = False
    stride: int = 1
    only: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    record: Path | None = None
