"""What torch's profiler tells of the CPU allocator."""

import torch

from hires.memory.events import allocator_peak


def test_the_most_at_one_moment_and_nothing_on_stderr(capfd):
    def run():
        first = torch.ones(1000)
        del first
        torch.ones(500)

    assert allocator_peak(run) == 4000
    assert allocator_peak(lambda: None) is None
    assert capfd.readouterr() == ("", "")
