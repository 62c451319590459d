"""Looking for the moment of a claim."""

from groundbox.trace.proof.claims import Printed
from groundbox.trace.proof.moments.finder import Finder
from groundbox.trace.proof.records.ledger import Ledger


def test_what_was_found_for_a_claim_is_not_said_of_a_later_one_at_its_place_in_memory(stored):
    finder = Finder(Ledger(stored("fizz")))

    found = [
        finder.find(Printed(start=0, end=0, sentence=0, text=text), 0, 0, -1) is not None
        for text in ("Fizz", "Nothing", "Buzz") * 20
    ]

    assert found == [True, False, True] * 20
