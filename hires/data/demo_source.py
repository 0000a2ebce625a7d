"""The demo data set as a source: generated on first use, then read like any other."""

from dataclasses import dataclass, field

from hires.data.box_source import BoxSource
from hires.data.coco import CocoFolder
from hires.data.demo import DemoSettings, ensure_demo
from hires.data.mask_folder import MaskFolder
from hires.data.mask_source import MaskSource


@dataclass(frozen=True, kw_only=True)
class DemoFolder(MaskFolder):
    """A mask folder that makes its files when they are not there."""

    generator: DemoSettings = field(default_factory=DemoSettings)

    def source(self, split: str) -> MaskSource:
        ensure_demo(self.root_path(), self.generator)
        return super().source(split)


@dataclass(frozen=True, kw_only=True)
class DemoBoxes(CocoFolder):
    """A COCO data set that makes its files when they are not there."""

    generator: DemoSettings = field(default_factory=DemoSettings)

    def source(self, split: str) -> BoxSource:
        ensure_demo(self.root_path(), self.generator)
        return super().source(split)
