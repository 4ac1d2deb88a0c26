"""The settings of a command: from its flags, the environment and files."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import fields
from pathlib import Path

from threadkeep.config import Config, Setting, build_config, resolve


def read_settings(args: Namespace, *, with_project: bool = True) -> list[Setting]:
    """Return every setting; what the command line says wins.

    `with_project=False` leaves out the file of the working folder: what is set up for good must not depend on the folder.

    Raises:
        BadInput: A configuration file or variable cannot be understood.
    """
    flags = {field.name: getattr(args, field.name, None) for field in fields(Config)}
    if (modes := flags["auto_compact_for"]) is not None:
        flags["auto_compact_for"] = dict(modes)
    return resolve(flags=flags, environ=os.environ, project=Path.cwd() if with_project else None)


def read_config(args: Namespace, *, with_project: bool = True) -> Config:
    """Return the settings as one value; see `read_settings`."""
    return build_config(read_settings(args, with_project=with_project))
