"""Files in which a config stands, edited by splice: only the characters of a value change."""

from tools.manifests.manifest import Manifest, read_manifest
from tools.manifests.site import CommandSite
from tools.manifests.yaml_file import KeyPath, YamlFile

__all__ = ["CommandSite", "KeyPath", "Manifest", "YamlFile", "read_manifest"]
