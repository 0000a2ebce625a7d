"""The errors whose message is meant for the user. Imports nothing slow, so that a wrong key is told at once."""

import signal


class HiresError(Exception):
    """What a user can put right: one message that names the thing, what is wrong and what to do."""


class ConfigError(HiresError):
    """A wrong key or value in the configuration (exit code 2)."""


class DataError(HiresError):
    """A file that cannot be used as it is (exit code 1)."""


class TrainingError(HiresError):
    """The training itself went wrong (exit code 1)."""


class CommonError(TrainingError):
    """A TrainingError that all processes of a training raise alike, so that one of them says it for all."""


class LostProcess(TrainingError):
    """Another process of the training is not there any more."""


class Interrupted(BaseException):
    """A signal ends the command (exit code 128 + its number). Not an Exception, after which some things go on."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number

    @property
    def code(self) -> int:
        return 128 + self.number

    def __str__(self) -> str:
        return signal.Signals(self.number).name
