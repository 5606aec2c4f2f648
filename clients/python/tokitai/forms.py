"""What operations take and give: operands, formats, parameters, by the names that people give them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from typing import Any, List, Mapping, NamedTuple, Sequence, Tuple, Union

from tokitai_client import READS, WRITES, Client, Defined, Definition, Operation, Tensor, find_program


from .calling import Shape
from .settings import names_of


class OperationError(ValueError):
    """A name or a text that stands for no operation."""


class Source(NamedTuple):
    """An operation as a user names it: name is what the program is given, or text a definition."""

    name: str
    text: str = ""


def source_of(op: Union[str, Definition, Operation]) -> Source:
    """Returns what op stands for: the name of a definition, operation or group, the text of a definition, the path of a file
    that has one, or what define returned."""
    if isinstance(op, Operation):
        text = op._text if isinstance(op._text, str) else op._text.decode()
        return Source(op.name, text)
    if isinstance(op, Definition):
        return Source(op.name)
    if not isinstance(op, str):
        raise OperationError(f"op is a {type(op).__name__}, want a name such as softmax.forward, the text of a definition, or what define returned")
    if op.lstrip().startswith("tokitai-def"):
        return Source(_name_in(op), op)
    if op.endswith(".def") or os.sep in op:
        try:
            with open(op, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise OperationError(f"{op} cannot be read: {error.strerror or error}") from error
        return Source(_name_in(text), text)
    return Source(op)


def kept(source: Source) -> str:
    """Writes a definition to a file that stays, so that a check of it can be repeated later, and returns its path."""
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "tokitai", "definitions")
    digest = hashlib.sha256(source.text.encode()).hexdigest()[:16]
    try:
        os.makedirs(folder, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=folder)
    except OSError:  # no home, or one that cannot be written
        folder = tempfile.mkdtemp(prefix="tokitai-definitions-")
        handle, part = tempfile.mkstemp(dir=folder)
    path = os.path.join(folder, f"{re.sub(r'[^A-Za-z0-9_.-]', '_', source.name) or 'operation'}-{digest}.def")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(source.text)
    os.replace(part, path)
    return path


def _name_in(text: str) -> str:
    """Returns the name on a definition's second line, or nothing: the program says what is wrong with a text."""
    for line in text.lstrip().splitlines()[1:]:
        words = line.split("#")[0].split()
        if words:
            return words[1] if len(words) > 1 else ""
    return ""


def texts_of(source: Source) -> List[str]:
    """Returns the definitions that an operation or group has, as texts."""
    if source.text:
        return [source.text]
    asked = subprocess.run([find_program(), "explain", source.name, "--json"], capture_output=True, text=True)
    if asked.returncode:
        owner = _owner_in(asked.stderr)
        if owner:  # a definition of an operation, such as gemm.forward.accumulate
            told = subprocess.run([find_program(), "explain", owner, "--json"], capture_output=True, text=True, check=True)
            return [d["text"] for d in json.loads(told.stdout)["definitions"] if d["name"] == source.name]
        raise OperationError(asked.stderr.splitlines()[0].replace("tokitai explain: ", "", 1) if asked.stderr else f"{source.name} is unknown")
    answer = json.loads(asked.stdout)
    texts = []
    for operation in answer.get("operations", [answer]):
        for definition in operation.get("definitions", []):
            name = definition["name"]
            if name == source.name or operation is not answer or not any(d["name"] == source.name for d in operation["definitions"]):
                texts.append(definition["text"])
    return texts


def _owner_in(message: str) -> str:
    marker = " is a definition of the operation "
    return message.split(marker)[1].split(":")[0] if marker in message else ""


def forms_of(client: Client, source: Source) -> List[Defined]:
    """Returns the forms of all definitions that an operation has. A mistake in a text raises DefinitionError."""
    return [client._define(text) for text in texts_of(source)]


def only_form(client: Client, source: Source) -> Defined:
    forms = forms_of(client, source)
    if len(forms) != 1:
        raise OperationError(f"{source.name} is a group, want one of {', '.join(f.name for f in forms)}")
    return forms[0]


def inputs_of(form: Defined) -> List[str]:
    return [o.name for o in form.operands if o.role & READS]


def outputs_of(form: Defined) -> List[str]:
    return [o.name for o in form.operands if o.role & WRITES]


def shape_of(form: Defined) -> Shape:
    params = tuple(p.name for p in form.params)
    return Shape(form.name, tuple(inputs_of(form)), tuple(outputs_of(form)), params, names_of(form.name, params))


class FormOperation(Operation):
    """An Operation made from a form that is known already."""

    def __init__(self, client: Client, form: Defined):
        self._find_client = lambda: client
        self._known_to = client
        self._text = ""
        self.form = form


def bound(form: Defined, arguments: Sequence[Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns operands and parameters by name; arguments without one are the inputs in the definition's order."""
    inputs = inputs_of(form)
    if len(arguments) > len(inputs):
        raise TypeError(f"{form.name}: got {len(arguments)} arguments without a name, want at most {len(inputs)}: {', '.join(inputs)}")
    given = dict(zip(inputs, arguments))
    twice = [name for name in given if name in named]
    if twice:
        raise TypeError(f"{form.name}: {twice[0]} is given twice")
    return {**given, **named}
