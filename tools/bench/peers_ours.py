"""Steps of a plan that `hires autobatch` found, in a process of its own that is held to the plan's budget.

Arguments: the plan.yaml, the number of steps, and the overrides by which it was found. Each step is of two
micro-batches, with which all is there that a longer accumulation has. Prints one JSON object.
"""

import json
import sys
import time
from pathlib import Path

from hydra import compose, initialize_config_dir

from hires.examples import examples_of
from hires.measured_memory import trial_on_examples
from hires.memory.limit import Limit
from hires.ops.out_of_memory import is_out_of_memory
from hires.ops.process_memory import Growth
from hires.plans import read_plan, with_plan
from hires.recipe import read_recipe


def main() -> None:
    path, steps, *overrides = sys.argv[1:]
    with initialize_config_dir(str(Path("configs").absolute()), version_base="1.3"):
        cfg = compose("autobatch", overrides)
    plan = read_plan(Path(path))
    cfg = with_plan(cfg, plan)
    cfg.batch_size = 2 * plan.micro_batch_size
    examples, _ = examples_of(read_recipe(cfg))
    trial = trial_on_examples(cfg, examples, steps=1)
    done, error, begin = 0, None, time.process_time()
    with Limit(plan.budget, "cpu"), Growth() as growth:
        try:
            training = trial.begin()
            for _ in range(int(steps)):
                training.update(trial.batches[0])
                done += 1
        except (RuntimeError, MemoryError) as raised:
            if not is_out_of_memory(raised):
                raise
            error = f"{type(raised).__name__}: {raised}"[:300]
    seconds = time.process_time() - begin
    print(json.dumps({"steps": done, "reserved": growth.bytes, "seconds": seconds, "error": error}))


if __name__ == "__main__":
    main()
