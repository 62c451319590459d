"""Keys of a dict that Python could not hash as what they are read as: the dict is read anew after each change."""

import groundbox
from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove

SOURCE = """\
class Path(list):
    def __hash__(self):
        return len(self)

def work(n):
    table = {Path([1]): 0, "a": [0], "b": 1, "c": 2}
    for i in range(n):
        table["a"].append(i)
        table["b"] = i
    return table["b"], table["a"]
"""


def test_a_dict_with_lists_for_keys_is_proven_through_its_changes():
    trace = groundbox.run(SOURCE, mode="call", call="work", args=[4], trace=True).trace

    assert prove(narrate(trace, detail="full").text, trace).faithful
    assert not prove("`table['b']` becomes 7.", trace).faithful
