"""What a check found, in sentences."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was probed."""

    what: str
    ok: bool
    sentence: str


@dataclasses.dataclass(frozen=True)
class Report:
    """What `check_problem` found; prints as sentences."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing suspicious was found."""
        return all(f.ok for f in self.findings)

    def __str__(self) -> str:
        return "\n".join(f"{'ok   ' if f.ok else 'CHECK'}  {f.what}: {f.sentence}" for f in self.findings)

    __repr__ = __str__
