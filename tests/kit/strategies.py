"""Hypothesis strategies for values of the evidence format."""

from __future__ import annotations

from hypothesis import strategies as st

from docket.ledger.events import CallNumber, Hold, ModelDenied, ModelError, ModelRequest, ModelResponse, Note
from docket.ledger.usage import Estimate, Item, Usage
from docket.primitives.canonical import MAX_INT, MAX_NAME
from docket.primitives.money import Usd

texts = st.text(st.characters(exclude_categories=["Cs"]))
names = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=MAX_NAME)
integers = st.integers(-MAX_INT, MAX_INT)
scalars = st.none() | st.booleans() | integers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
objects = st.dictionaries(names, values, max_size=5)
public_objects = objects.filter(lambda value: "private" not in repr(value))
"""Without a member that would have to be sealed."""
privates = st.dictionaries(names.filter(lambda name: name != "private"), values, max_size=3)
amounts = st.builds(Usd, st.integers(0, 10**27 - 1))
calls = st.integers(1, MAX_INT).map(CallNumber)
items = st.builds(Item, kind=names, quantity=st.integers(0, 10**9)) | st.builds(
    Item, kind=names, quantity=st.integers(0, 10**9), unit_usd=amounts, per=st.just(1_000_000)
)
estimates = st.builds(
    Estimate, items=st.lists(items, max_size=2).map(tuple), cost_usd=st.none() | amounts, method=names
)
usages = st.builds(
    Usage,
    source=st.sampled_from(["reported", "partial", "none"]),
    items=st.lists(items, max_size=3).map(tuple),
    cost_usd=st.none() | amounts,
    estimate=st.none() | estimates,
    inconsistent=st.booleans(),
)
_counts = st.integers(0, 10**9)
_maybe = st.none() | _counts
requests = st.builds(
    ModelRequest,
    call=calls,
    upstream=names,
    provider=names,
    protocol=names,
    endpoint=names,
    model=names,
    stream=st.booleans(),
    bytes=_counts,
    hold=st.builds(Hold, tokens=_counts, usd=st.none() | amounts),
    waited_us=_counts,
    max_output=_maybe,
    amended=st.none() | st.booleans(),
    private=privates,
)


def _ends(kind: type[ModelResponse] | type[ModelError]) -> st.SearchStrategy[ModelResponse | ModelError]:
    return st.builds(
        kind,
        call=calls,
        status=_maybe,
        reason=names,
        provider=names,
        model=names,
        tier=names,
        upstream=names,
        finish=st.none() | names,
        first_byte_us=_maybe,
        duration_us=_maybe,
        usage=st.none() | usages,
        private=privates,
    )


events = st.one_of(
    requests,
    _ends(ModelResponse),
    _ends(ModelError),
    st.builds(ModelDenied, code=names, final=st.booleans(), count=_counts, retry_after=_maybe),
    st.builds(Note, by=st.just("agent"), private=privates),
)
