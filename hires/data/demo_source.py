"""The demo data set as a source: generated on first use, then read like any mask folder."""

from dataclasses import dataclass, field

from hires.data.demo import DemoSettings, ensure_demo
from hires.data.mask_folder import MaskFolder, MaskSource


@dataclass(frozen=True, kw_only=True)
class DemoFolder(MaskFolder):
    """A mask folder that makes its files when they are not there."""

    generator: DemoSettings = field(default_factory=DemoSettings)

    def source(self, split: str) -> MaskSource:
        ensure_demo(self.root_path(), self.generator)
        return super().source(split)
