"""Reads the files of a data set, each image with its label, in several processes and bounded memory."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import cv2

from hires.data.checks.bands import reading_bytes
from hires.data.checks.box_facts import BoxFacts, BoxReader
from hires.data.checks.image_facts import ImageFacts, read_facts
from hires.data.checks.mask_facts import MaskFacts, MaskReader
from hires.data.formats.image_file import limit_pixels
from hires.data.images import image_info
from hires.data.pairs import Pair
from hires.interfaces import DataError, Interrupted
from hires.ops.parent import as_parent, work_for_parent

_AT_ONCE = 2**30  # bytes of decoded images that are being read at the same moment
_ANY_SIZES = ((64, 64), (96, 96))  # pixels; what is wrong with a label under both does not depend on them
_DIED = "reading it ends the process: out of memory, or a fault of its decoder"


@dataclass(frozen=True)
class Record:
    """An image and its label; what could not be read is None, and `problem` and `label_problem` say why."""

    image: ImageFacts | None = None
    problem: str = ""
    mask: MaskFacts | None = None
    boxes: BoxFacts | None = None
    label_problem: str = ""

    @property
    def is_broken(self) -> bool:
        """Whether training cannot use it; a mask has to be as large as its image for that."""
        differs = self.mask is not None and self.image is not None and self.mask.size != self.image.info.size
        return bool(self.problem or self.label_problem) or differs


class Examiner:
    """Reads one image of a data set with its label, if there is a reader for it."""

    def __init__(self, root: Path, reader: MaskReader | BoxReader | None, max_pixels: int = 2**32):
        self.root, self.reader, self.max_pixels = root, reader, max_pixels

    def begin(self) -> None:
        """Prepares the process that it works in."""
        limit_pixels(self.max_pixels)

    def __call__(self, pair: Pair) -> Record:
        image, problem, mask, boxes, label_problem = None, "", None, None, ""
        try:
            image = read_facts(self.root / pair.image)
        except (DataError, MemoryError) as error:
            problem = self._said(error, pair.image)
        try:
            if isinstance(self.reader, MaskReader) and pair.truth:
                mask = self.reader(pair.truth)
            elif isinstance(self.reader, BoxReader) and image:
                boxes = self.reader(pair, image.info.size)
            elif isinstance(self.reader, BoxReader):
                label_problem = self._label_problem(self.reader, pair)
        except (DataError, MemoryError) as error:
            label_problem = self._said(error, pair.truth)
        return Record(image, problem, mask, boxes, label_problem)

    def _label_problem(self, reader: BoxReader, pair: Pair) -> str:
        """What is wrong with the label of an image that is broken, whatever the image's size and content."""
        found = set()
        for size in _ANY_SIZES:
            try:
                reader(pair, size)
            except DataError as error:
                found.add(
                    "" if str(error).startswith(f"{self.root / pair.image}:") else self._said(error, pair.truth)
                )
            else:
                found.add("")
        return found.pop() if len(found) == 1 else ""

    def cost(self, pair: Pair) -> int:
        """Bytes that reading it occupies, about; from its header."""
        try:
            info = image_info(self.root / pair.image)
        except DataError:
            return 0
        return reading_bytes(info) + self._mask_cost(pair)

    def _mask_cost(self, pair: Pair) -> int:
        if not isinstance(self.reader, MaskReader) or not pair.truth:
            return 0
        try:
            return reading_bytes(image_info(self.root / pair.truth))
        except DataError:
            return 0

    def _said(self, error: Exception, name: str) -> str:
        if isinstance(error, MemoryError):
            return "does not fit into memory"
        return str(error).replace(f"{self.root}/", "").removeprefix(f"{name}:").strip()


def examine(
    examiner: Examiner, pairs: Sequence[Pair], workers: int, progress: Callable[[int], None]
) -> list[Record]:
    """The records of all pairs, in order; `progress` is told how many are done. 0 workers: in this process.

    A file that ends the process that reads it gets a record that says so.
    """
    records: dict[int, Record] = {}
    waiting = list(range(len(pairs)))
    if workers == 0:
        examiner.begin()
        for index in waiting:
            records[index] = examiner(pairs[index])
            progress(len(records))
        return [records[index] for index in range(len(pairs))]
    while waiting:
        suspects = _run(examiner, pairs, waiting, workers, records, progress)
        for index in suspects:  # one of them has ended the pool
            if _run(examiner, pairs, [index], 1, records, progress):
                records[index] = Record(problem=_DIED)
                progress(len(records))
        waiting = [index for index in waiting if index not in records]
    return [records[index] for index in range(len(pairs))]


def _run(
    examiner: Examiner,
    pairs: Sequence[Pair],
    waiting: Sequence[int],
    workers: int,
    records: dict[int, Record],
    progress: Callable[[int], None],
) -> list[int]:
    """Reads until all are done, or a process has died: then those that it may have been busy with."""
    left, running, used = list(reversed(waiting)), dict[Future[Record], tuple[int, int]](), 0
    with _pool(examiner, min(workers, len(waiting))) as pool:
        while True:
            while left and len(running) < 2 * workers:
                cost = examiner.cost(pairs[left[-1]])
                if running and used + cost > _AT_ONCE:
                    break
                index = left.pop()
                try:
                    running[pool.submit(_work, pairs[index])] = index, cost
                except BrokenProcessPool:
                    return [index, *(other for other, _ in running.values())]
                used += cost
            if not running:
                return []
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            try:
                for future in done:
                    records[running[future][0]] = future.result()
                    used -= running.pop(future)[1]
                    progress(len(records))
            except BrokenProcessPool:
                return [index for index, _ in running.values()]


@contextmanager
def _pool(examiner: Examiner, workers: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context(), _begin, (examiner, as_parent()))
    try:
        yield pool
    except (KeyboardInterrupt, Interrupted):  # at once: what a worker reads may be large
        for worker in list(pool._processes.values()):  # Python 3.14: terminate_workers()
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_examiner: Examiner | None = None  # of a worker process


def _begin(examiner: Examiner, parent: int | None) -> None:
    global _examiner
    _examiner = examiner
    examiner.begin()
    cv2.setNumThreads(1)
    work_for_parent(parent)


def _work(pair: Pair) -> Record:
    assert _examiner is not None
    return _examiner(pair)
