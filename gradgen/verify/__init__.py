"""Verifying ops: what a build gives, measured against the exact results of the formulas as they were written.

Needs torch, unlike all else in gradgen; nothing else imports this package.
"""

from __future__ import annotations

from gradgen.errors import GradgenError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise GradgenError(
        "verify needs torch, which is not installed", hint='Install it with: pip install "gradgen-torch[torch]"'
    ) from error

from gradgen.verify.run import verify
from gradgen.verify.settings import Settings

__all__ = ["Settings", "verify"]
