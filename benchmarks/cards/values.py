"""What both kinds of cards speak of: distances, types of numbers, values of parameters."""

from typing import Literal

Distance = Literal["l2", "ip", "cosine"]
Dtype = Literal["float32", "uint8", "int8"]
Value = bool | int | float | str
