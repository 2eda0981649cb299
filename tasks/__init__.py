"""The seqio tasks and mixtures for the gin files, a module for each corpus; importing the package registers all."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
  importlib.import_module(f"{__name__}.{_module.name}")
