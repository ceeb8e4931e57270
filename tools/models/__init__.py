"""Models as Hugging Face directories: from packages, GGUF files, the hub or disk, pulled once and kept in a cache."""

from tools.models.catalogue import CATALOGUE, PackagedModel, Part
from tools.models.pull import cache_dir, pull

__all__ = ["CATALOGUE", "PackagedModel", "Part", "cache_dir", "pull"]
