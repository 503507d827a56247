"""Short ids: as short as they can be, and each fits one thread alone."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from rollout.home.threads import shorten

A = "019d0001-0000-7000-8000-00000000000a"


def test_an_id_that_is_alone_is_shortened_to_its_first_group() -> None:
    assert shorten([A], [A]) == {A: "019d0001"}
    assert shorten([A], []) == {A: "019d0001"}
    assert shorten([], [A]) == {}


def test_an_id_of_the_same_hour_keeps_as_many_groups_as_tell_it_apart() -> None:
    near, nearest = A.replace("-0000-", "-0001-"), A[:-1] + "b"
    assert shorten([A], [A, near]) == {A: "019d0001-0000"}
    assert shorten([A], [A, near, nearest]) == {A: A}


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=30), st.sampled_from([0, 20, 60, 100]))
def test_a_short_id_is_the_beginning_of_one_id_only(numbers: list[int], shift: int) -> None:
    ids = {str(uuid.UUID(int=number << shift)) for number in numbers}
    for thread, short in shorten(ids, ids).items():
        assert [other for other in ids if other.startswith(short)] == [thread]
        assert len(short) in {8, 13, 18, 23, 36}
