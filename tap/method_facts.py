"""What each method is, as data: declared in its own file of `tap/reducers`, read there without running it.

The file of a method holds two literals::

    METHOD = Method(readout="common", calibrated=True)
    ROW = Row("My method", tasks=("seg",), order=90)

    @register(METHOD)
    class MyMethod(Reducer): ...

`METHOD` is what the jobs of the method act upon, and part of its class. `ROW` is what tables say of it: no job reads
it, so another word there repeats no training.

Settings are checked, runs listed and tables built in processes that must start at once, while a file of `tap/reducers`
imports torch, which takes seconds. So the literals are taken from the files' syntax trees; for that they hold plain
values only. The folder is the list: a file with a `METHOD` is a method, whose name is the file's.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tap.errors import UserError
from tap.task_facts import TASKS

FOLDER: Final = Path(__file__).parent / "reducers"

Readout = Literal["complete", "own", "common", "learned"]
READOUTS: Final = ("complete", "own", "common", "learned")


@dataclass(frozen=True)
class Method:
    """What the jobs of a method act upon.

    Attributes:
        readout: how a dense head gets a feature at every position: `complete` (all of them stay in the sequence),
            `own` (the class says how, in `read`), `common` (the parameter-free recovery, with the task's endpoint),
            `learned` (the same recovery with the method's own scale, Eq. 3); None where classification is all it can.
        taught: whether it also learns from the no-pruning checkpoint of its seed.
        calibrated: whether the number of patches varies from image to image, by a buffer `threshold` that the
            calibration split decides, so that its mean is K; otherwise every image ends with exactly K.
        frozen: whether the backbone is frozen and shared by all tasks, which are then trained jointly (TAP-F).
    """

    readout: Readout | None = None
    taught: bool = False
    calibrated: bool = False
    frozen: bool = False


@dataclass(frozen=True)
class Origin:
    """Where a published method comes from, and what this project does otherwise than its public code.

    The code here is written anew after the papers and the behaviour of the public implementations, whose outputs the
    tests reproduce; none of it is copied, so no licence of these is inherited. They are named for the reader.

    Attributes:
        repository: public code, as owner/name on GitHub.
        commit: the state whose outputs the tests reproduce.
        licence: of that code; empty where it states none.
        path: what the method does in classification; empty for a method of dense tasks alone.
        readout: how a dense head gets a feature at every position; empty for a method of classification alone.
        adapted: differences from the public code.
        adapted_dense: differences in dense tasks alone.
    """

    repository: str
    commit: str
    licence: str = ""
    path: str = ""
    readout: str = ""
    adapted: tuple[str, ...] = ()
    adapted_dense: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Repository, state and licence in words."""
        return f"own code after {self.repository} at {self.commit}, {self.licence or 'no licence stated'}"


@dataclass(frozen=True)
class Row:
    """What tables say of a method.

    Attributes:
        title: how a table calls it.
        tasks: tasks that it is measured on, by name, or `all` where it fits any, also one that is added.
        order: its place among the rows; equal ones stand in the order of their names.
        in_paper: whether the paper's tables have the row.
        origin: public code that it follows; None for what is the paper's or this project's own.
    """

    title: str
    tasks: tuple[str, ...] | Literal["all"]
    order: int = 150
    in_paper: bool = False
    origin: Origin | None = None


@dataclass(frozen=True)
class MethodFacts:
    """A method as its file declares it."""

    name: str
    method: Method = field(repr=False)
    row: Row = field(repr=False)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks that it is measured on."""
        return tuple(TASKS) if isinstance(self.row.tasks, str) else self.row.tasks


def read_methods(folder: Path = FOLDER) -> Mapping[str, MethodFacts]:
    """All methods of a folder by name, in the order of the tables' rows.

    Raises:
        UserError: a declaration is no literal, names what does not exist, or leaves open what a dense head would read.
    """
    found = [read_method(file) for file in sorted(folder.glob("*.py")) if "\nMETHOD = " in file.read_text("utf-8")]
    return {facts.name: facts for facts in sorted(found, key=lambda facts: (facts.row.order, facts.name))}


def read_method(file: Path) -> MethodFacts:
    """The method that a file declares; errors as `read_methods`."""
    declared = {
        statement.targets[0].id: statement.value
        for statement in ast.parse(file.read_text("utf-8"), filename=str(file)).body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    where = "/".join(file.parts[-3:])
    if "ROW" not in declared:
        raise UserError(f"{where}: declares METHOD without ROW; add `ROW = Row(title, tasks=(...))`")
    method, row = (_made(declared[name], kind, where) for name, kind in (("METHOD", Method), ("ROW", Row)))
    facts = MethodFacts(file.stem, method, row)
    _check(facts, where)
    return facts


def _made(node: ast.expr, kind: type, where: str) -> Any:
    """The object of a call `Kind(...)` whose arguments are literals, or another such call for `origin`."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != kind.__name__:
        raise UserError(f"{where}:{node.lineno}: write {kind.__name__}(...) itself here; the file is read, not run")
    try:
        keywords = {
            str(keyword.arg): _made(keyword.value, Origin, where)
            if keyword.arg == "origin" and isinstance(keyword.value, ast.Call)
            else ast.literal_eval(keyword.value)
            for keyword in node.keywords
        }
        return kind(*(ast.literal_eval(argument) for argument in node.args), **keywords)
    except (TypeError, ValueError) as error:  # not a literal; a wrong or missing name
        raise UserError(
            f"{where}:{node.lineno}: {kind.__name__} takes plain values by its own names ({error})"
        ) from error


def _check(facts: MethodFacts, where: str) -> None:
    """Says what cannot be.

    Raises:
        UserError: an unknown task or readout, or tasks and readout that do not fit.
    """
    if isinstance(facts.row.tasks, str) and facts.row.tasks != "all":
        raise UserError(f"{where}: ROW.tasks: write a tuple of tasks, such as ('{facts.row.tasks}',), or 'all'")
    unknown = [task for task in facts.tasks if task not in TASKS]
    if unknown or not facts.tasks:
        raise UserError(f"{where}: ROW.tasks: {unknown[:1] or 'empty'} is no task; known are {', '.join(TASKS)}")
    readout, dense = facts.method.readout, [task for task in facts.tasks if TASKS[task].dense]
    if readout is not None and readout not in READOUTS:
        raise UserError(f"{where}: METHOD.readout: '{readout}' is none; choose from {', '.join(READOUTS)}, or None")
    if dense and readout is None:
        raise UserError(
            f"{where}: METHOD.readout: {dense[0]} is a dense task, so say what its head reads at removed positions: "
            "'own' where the class has a `read`, 'common' for the parameter-free recovery"
        )
