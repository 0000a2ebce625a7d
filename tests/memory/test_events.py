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


def test_what_an_earlier_run_kept_is_not_counted():
    kept = []
    assert allocator_peak(lambda: kept.append(torch.ones(2000))) == 8000
    kept.clear()
    assert allocator_peak(lambda: torch.ones(500)) == 2000

    def grown():
        kept.append(torch.ones(700))

    grown()
    assert allocator_peak(kept.clear) in (None, 0)
    assert allocator_peak(grown) == 2800
