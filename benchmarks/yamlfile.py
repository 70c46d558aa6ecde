"""YAML into frozen pydantic models; every complaint names file and line."""

import difflib
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from benchmarks.errors import UserError

_NUMBERS = (int, float, int | None, float | None)


class Strict(BaseModel):
    """Base of every model that is read from YAML: frozen, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _yes_is_no_number(cls, value, info):
        """YAML reads `yes` as true, which would pass for 1."""
        if isinstance(value, bool) and cls.model_fields[info.field_name].annotation in _NUMBERS:
            raise ValueError("a number is expected")
        return value


M = TypeVar("M", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice instead of keeping the last one."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain word", key_node.start_mark)
            key = key_node.value
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key}' is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_yaml(path: Path, model: type[M], extra: dict[str, Any] | None = None) -> M:
    """Read one YAML file into `model`.

    Args:
        path: the file.
        model: a pydantic model.
        extra: fields that the caller supplies (such as the name); the file must not contain them.

    Raises:
        UserError: the file is missing, is not YAML or does not fit the model; the message starts with file:line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        content = {} if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UserError(f"{path}:{mark.line + 1 if mark else 1}: {error.problem}") from None
    # What YAML takes for a date or a number, or is told to, and is none; deep nesting.
    except (ValueError, LookupError, AttributeError, RecursionError) as error:
        raise UserError(f"{path}:1: a value cannot be read ({error or type(error).__name__})".split("\n")[0]) from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: is not YAML ({str(error).splitlines()[0]})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}:1: a mapping of keys to values is expected, not {type(content).__name__}")
    for key in extra or {}:
        if key in content:
            raise UserError(f"{path}:{_line(node, (key,))}: unknown key '{key}'")
    try:
        return model.model_validate({**content, **(extra or {})})
    except ValidationError as error:
        errors = error.errors()  # a misspelt key is the cause of the one that is missing
        first = next((item for item in errors if item["type"] == "extra_forbidden"), errors[0])
        first["loc"] = tuple(step for step in first["loc"] if not str(step).startswith("("))  # tags of a union
        raise UserError(f"{path}:{_line(node, first['loc'])}: {_explain(first, model, extra or {})}") from None


def _line(node: yaml.Node | None, location: tuple) -> int:
    """Line (from 1) of the deepest node of `location` that the file contains."""
    line = 1
    for step in location:
        if isinstance(node, yaml.MappingNode):
            match = [(k, v) for k, v in node.value if k.value == str(step)]
            if match:
                line, node = match[0][0].start_mark.line + 1, match[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
    return line


def _explain(error: dict, model: type[BaseModel], supplied: dict[str, Any]) -> str:
    """One pydantic error as one line, with a suggestion for a misspelt key."""
    where = ".".join(str(step) for step in error["loc"])
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        known = [name for name in _field_names(model) if name not in supplied and name != key]  # right elsewhere
        close = difflib.get_close_matches(key, known, n=1)
        return f"unknown key '{where}'" + (f"; did you mean '{close[0]}'?" if close else "")
    message = error["msg"].removeprefix("Value error, ")
    shown = repr(error["input"])
    said = error["type"] == "value_error" and ", not " in message  # our own checks say what they found
    if error["type"] == "missing" or said or len(shown) > 60:
        return f"{where}: {message}" if where else message
    return f"{where}: {message}, not {shown}" if where else f"{message}, not {shown}"


def _field_names(model: type[BaseModel]) -> list[str]:
    schema = model.model_json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    return sorted({name for part in parts for name in part.get("properties", {})})
