"""The static witness: executes source text abstractly, without ever importing it."""

from __future__ import annotations

from gradlint.events import (
    Backward,
    BackwardAsked,
    Cleared,
    ConvertedToNumpy,
    DataRead,
    DataWritten,
    DeprecatedUsed,
    DropoutCalled,
    Event,
    GradientRead,
    InputDone,
    InputFed,
    LogTaken,
    LossCalled,
    ModuleBuilt,
    SetsLayer,
    SoftmaxCalled,
    Step,
    SuperCalled,
    SuperInit,
)

EVENTS: frozenset[type[Event]] = frozenset(
    {
        Backward,
        BackwardAsked,
        Cleared,
        ConvertedToNumpy,
        DataRead,
        DataWritten,
        DeprecatedUsed,
        DropoutCalled,
        GradientRead,
        InputDone,
        InputFed,
        LogTaken,
        LossCalled,
        ModuleBuilt,
        SetsLayer,
        SoftmaxCalled,
        Step,
        SuperCalled,
        SuperInit,
    }
)
"""The types of the events this witness sends."""
