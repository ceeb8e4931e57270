"""Pages: one self-contained HTML page per kind of result. Static SVG, no script, nothing fetched; light and dark."""

from autotune.pages.bench import bench_page
from autotune.pages.calibration import calibration_page
from autotune.pages.capacity import capacity_page

__all__ = ["bench_page", "calibration_page", "capacity_page"]
