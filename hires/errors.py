"""The errors whose message is meant for the user. Imports nothing, so that a wrong key is told at once."""


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
