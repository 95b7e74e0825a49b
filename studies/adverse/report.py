"""The page docs/adverse.md: each promise, what it was attacked with, how often it was false."""

from collections.abc import Mapping

from studies.adverse.search import EACH, Count, Promise
from studies.page import markdown

Counts = Mapping[str, Mapping[str, Mapping[int, Count]]]

_HEAD = """# Promises under attack

Laws searched to break each promise, not laws that keep it: `python -m studies.adverse` draws forty random laws a
promise (ties, lumps, rare events, tiny groups, heavy tails, weights, dependence, copies, selection, refits; the files
of `studies/adverse/` say which). The first twenty were looked at while the library was developed. The other twenty
were not, until the figures below were counted; nothing was chosen on them. (Twenty laws that were drawn for this
before showed a fault in one promise. It was mended, and they were replaced by twenty others, for all promises.)
One thing was changed after these had been looked at: where a stream is sorted so that the safe samples come first, what
`Online.certify` says before the others come is true of what came, and no test can know better. Counted as false it was so
in 50 of 500 attempts, all on two such laws; now it counts whether the certificate is withdrawn when the others have come.
The last but one was counted again after errors had been widened where rows share something over a tenth of the file: on
law 0 of the first half it had been false in 32 of 400.
An attempt is a fresh sample of a law. It is *false* if the library promised something of it that the truth, which is
known, belies. Shares are of all attempts, with exact 95 % intervals: that is the probability which a confidence level
bounds. *Promised* says in how many attempts there was a promise at all: a library that says nothing breaks nothing.
"""

_WORST = """
## The worst laws

The ten laws of the first half that broke a promise most often, attacked again with fresh samples.
"""


def together(counts: Mapping[int, Count]) -> Count:
    """All laws in one count."""
    return sum(counts.values(), Count())


def page(promises: Mapping[str, Promise], counts: Counts) -> str:
    """The page in Markdown."""
    rows, again = [], []
    for name, promise in promises.items():
        unseen, worst = together(counts[name]["unseen"]), counts[name]["again"]
        rows.append([promise.said, f"{len(counts[name]['unseen'])}", f"{unseen.promised:,}", unseen])
        if worst:
            law, most = max(worst.items(), key=lambda pair: pair[1].share)
            again.append([name, together(worst).promised, together(worst), f"{most}, law {law}"])
    heads = ["said", "laws", "promised", "false, on laws that nobody had looked at"]
    lines = [_HEAD, *markdown(heads, rows), _WORST]
    return "\n".join([*lines, *markdown(["promise", "promised", "false, all ten", "false, the worst one"], again), ""])


def failures(promises: Mapping[str, Promise], counts: Counts) -> list[str]:
    """The promises that are broken more often than they may be, by the counts themselves."""
    said = []
    for name, promise in promises.items():
        unseen = together(counts[name]["unseen"])
        said += [f"{name}: {unseen} on unseen laws"] if unseen.share > promise.allowed else []
        each = EACH * promise.allowed / 0.05
        said += [f"{name}, law {k} again: {count}" for k, count in counts[name]["again"].items() if count.share > each]
    return said
