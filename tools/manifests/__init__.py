"""Files in which a config stands, edited by splice: only the characters of a value change."""

from tools.manifests.yaml_file import KeyPath, YamlFile

__all__ = ["KeyPath", "YamlFile"]
