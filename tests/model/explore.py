# SPDX-License-Identifier: GPL-2.0
"""Explores all states of a model, breadth first, so that a failure comes with a shortest trace.

Two things are checked: no step and no state breaks anything; and from each state a settled one can be reached
without a further fault, so that nothing hangs for ever.
"""

from array import array
from dataclasses import dataclass, field
from typing import Any, Hashable, Iterable, Optional, Protocol

Label = tuple[Any, ...]		# what happens, and to whom
Step = tuple[Label, Any, bool]
STATES_MAX = 4_000_000
STUCK = "stuck: without a further fault it stays as it is"


class Model(Protocol):
    """What explore() needs. A state is any value that can be hashed."""

    initial: Hashable

    def steps(self, state: Any) -> Iterable[Step]:
        """All steps from @state: label, state afterwards, and whether the step is a fault of the environment.

        A string in the place of the state says what the step itself breaks.
        """

    def broken(self, state: Any) -> Optional[str]:
        """What @state breaks."""

    def settled(self, state: Any) -> bool:
        """Is it well if nothing more happens?"""


@dataclass
class Found:
    """The result: @states were seen; @wrong is what was broken, at the end of @trace."""

    states: int
    wrong: Optional[str] = None
    trace: list[Label] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)		# of all steps that were taken


class Explorer:
    """One exploration, of one model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._states: list[Hashable] = [model.initial]
        self._came: list[tuple[int, Label]] = [(0, ())]		# number of the state before, and the step
        self._sources, self._targets = array("I"), array("I")	# of the steps that are no faults
        self._labels: set[str] = set()

    def run(self) -> Found:
        """Explores until something is broken, or to the end."""
        model, states = self._model, self._states
        numbers: dict[Hashable, int] = {model.initial: 0}
        number = 0
        while number < len(states):
            for label, after, fault in model.steps(states[number]):
                self._labels.add(label[0])
                if isinstance(after, str):
                    return self._found(after, number, label)
                there = numbers.get(after)
                if there is None:
                    there = numbers[after] = len(states)
                    states.append(after)
                    self._came.append((number, label))
                    wrong = model.broken(after)
                    if wrong:
                        return self._found(wrong, there)
                    if there >= STATES_MAX:
                        raise RuntimeError(f"more than {STATES_MAX} states: narrow the bounds")
                if not fault:
                    self._sources.append(number)
                    self._targets.append(there)
            number += 1
        stuck = self._first_stuck()
        return self._found(None, 0) if stuck < 0 else self._found(STUCK, stuck)

    def _found(self, wrong: Optional[str], number: int, *more: Label) -> Found:
        trace = list(more)
        while number:
            number, label = self._came[number]
            trace.insert(0, label)
        return Found(len(self._states), wrong, trace, self._labels)

    def _first_stuck(self) -> int:
        """The first state from which no settled one can be reached, or -1."""
        good = bytearray(map(self._model.settled, self._states))
        grew = True
        while grew:
            grew = False
            # Most steps lead to a later state: from behind, one round does nearly all.
            for at in range(len(self._sources) - 1, -1, -1):
                if good[self._targets[at]] and not good[self._sources[at]]:
                    good[self._sources[at]] = 1
                    grew = True
        return good.find(0)


def explore(model: Model) -> Found:
    """Explores @model."""
    return Explorer(model).run()
