"""What xmcap uses of `gin.resource_reader`."""

from typing import Any

def system_path_reader(path: str) -> Any: ...
