"""The name of a device: `/job:localhost/replica:0/task:0/device:CPU:3`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dtensor.dialect.errors import MeshError

DEVICE_TYPES = ("CPU", "GPU", "TPU")

_WORDS = ("job", "replica", "task", "device")
_NAME = re.compile(
    r"(?:/job:(?P<job>[A-Za-z][\w.\-]*))?(?:/replica:(?P<replica>\d{1,18}))?(?:/task:(?P<task>\d{1,18}))?"
    r"(?:/?device:)?(?P<type>[A-Za-z]+):(?P<index>\d{1,18})"
)


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """Which device of which client, in the terms of TensorFlow's device strings.

    Attributes:
        job: name of the job the client belongs to; None where the text does not say.
        replica: 0, where the text says it.
        task: number of the client; None where the text does not say.
        device_type: "CPU", "GPU" or "TPU".
        device_index: number of the device among its client's devices of this type.

    Example:
        >>> dtensor.local_devices("CPU")[3]
        DeviceSpec(job='localhost', replica=0, task=0, device_type='CPU', device_index=3)
    """

    job: str | None
    replica: int | None
    task: int | None
    device_type: str
    device_index: int

    @classmethod
    def from_string(cls, text: str) -> DeviceSpec:
        """The device that `text` names: a whole name, or the end of one such as `CPU:3`.

        Raises:
            MeshError: the text is not the name of a device.

        Example:
            >>> dtensor.DeviceSpec.from_string("CPU:3").device_index
            3
        """
        match = _NAME.fullmatch(text.strip())
        if match is None or match["type"].lower() in _WORDS:
            raise MeshError(
                f"malformed device name {text!r}; the form is "
                "/job:localhost/replica:0/task:0/device:CPU:0, or CPU:0 alone"
            )
        replica, task = match["replica"], match["task"]
        return cls(
            match["job"],
            None if replica is None else int(replica),
            None if task is None else int(task),
            match["type"].upper(),
            int(match["index"]),
        )

    def to_string(self) -> str:
        """The name, with the parts that are known.

        Example:
            >>> dtensor.local_devices("CPU")[3].to_string()
            '/job:localhost/replica:0/task:0/device:CPU:3'
        """
        job = "" if self.job is None else f"/job:{self.job}"
        replica = "" if self.replica is None else f"/replica:{self.replica}"
        task = "" if self.task is None else f"/task:{self.task}"
        return f"{job}{replica}{task}/device:{self.device_type}:{self.device_index}"

    def __str__(self) -> str:
        return self.to_string()
