"""What an exported model is compared on: images and sizes."""

import numpy as np
import torch

from hires import export_file
from hires.engine.exporting import Shape
from hires.export_images import images_of
from hires.interfaces import DataError, Normalization


class Pictures:
    """A picture whose pixels count up, and a broken one."""

    picture = np.arange(100 * 50 * 3, dtype=np.uint16).reshape(100, 50, 3)

    def __len__(self):
        return 2

    def size(self, index):
        return 100, 50

    def read(self, index, window=None):
        if index:
            raise DataError("broken")
        return self.picture[window.y : window.y + window.height, window.x : window.x + window.width], {}


def test_checks_look_at_the_middle_of_pictures_and_at_random_pixels_else():
    normalization = Normalization("minmax", "uint16", (100.0,) * 3, (900.0,) * 3)
    made = images_of(Pictures(), normalization)(2, (64, 64))
    assert (made.shape, made.dtype) == ((2, 3, 64, 64), torch.uint16)
    np.testing.assert_array_equal(made[0, :, :, :50].numpy().transpose(1, 2, 0), Pictures.picture[18:82])
    assert 100 <= made[1].int().min() < 150 < 850 < made[1].int().max() <= 900


def test_sizes_that_are_checked():
    free = Shape(1, 512, 96, ("height", "width"), stride=32, coarsest=128)
    assert export_file.check_sizes(free, free.least) == [(512, 160), (256, 160), (544, 160)]
    assert export_file.check_sizes(free, 32) == [(512, 96), (256, 32), (544, 32)]
    assert export_file.check_sizes(free._replace(dynamic=("batch",)), 32) == [(512, 96)] * 3
