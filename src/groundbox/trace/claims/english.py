# ruff: noqa: E501  one wording a line
"""English about runs: a table of wordings, and what makes claims of them.

A new wording is one line of `WORDINGS`. `{place}` is a name or an expression of the program, `{test}` an expression that
compares or asks, `{equation}` one with `==`, `{value}` a literal, `{values}` one or several, `{times}` how often, `{call}`
a call, `{truth}` true or false, `{error}` the name of an exception, `{nth}` a place in a row, `{x}` and `{y}` any
expression or literal; `(one|other)`, `(…)?` and the like are those of `re`. Case and the amount of white space do not
matter. Of two wordings that fit at the same place the longer one counts.
"""

from __future__ import annotations

import ast
import bisect
import dataclasses
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.claims import items, markup
from groundbox.trace.claims.items import Item
from groundbox.trace.claims.model import Claim, Kind
from groundbox.trace.claims.run import Run
from groundbox.values.numbers import TIMES, UNITS
from groundbox.values.parsing import expression_of

MOST_SENTENCES: Final = 10_000

_MODAL: Final = r"(will |would |should |must |can )?"
_BE: Final = (
    rf"({_MODAL}(be|become|equal|remain|stay|have the value|hold|contain|look like|read)|is|are|was|becomes?|became|equals"
    r"|remains?|stays|holds|contains|has the value|takes( on)? the value|looks like|reads|gets|evaluates to|starts (as|at|with|out as)"
    r"|(starts|begins) (as|at|with)|ends (up )?(as|at|with)|ended up as|would then be|has become|is now)"
)
_IS: Final = (
    rf"((which|that|it|and it|so it) )?({_MODAL}be|is|are|was|isn't|aren't|wasn't|is indeed) (?P<not>not|never)? ?"
)
_NOW: Final = (
    r"((now|then|initially|still|also|just|simply|thus|therefore|again|currently|indeed|finally|always|only|exactly|actually"
    r"|already|originally|both|first|next|back|at) ){0,2}"
)
_TO: Final = (
    r"(equal to|(re)?set (back )?to|updated (to|as|with)|initiali[sz]ed (to|as|with)|(re)?assigned( (to|as|the value( of)?))?"
    r"|changed to|increased to|incremented to|decremented to|decreased to|reduced to|reset to|defined as|given as|computed as"
    r"|calculated (as|to be)|turned into|converted to|stored as|bound to|bumped to)?"
)
_THING: Final = (
    r"((the|a|an) ((final|new|updated|resulting|modified|single|same|original|input|corresponding|expected) )?"
    r"(value|string|number|list|array|dictionary|dict|tuple|set|character|integer|float|digit|letter|word|boolean( value)?|result)"
    r"( of)?:? )?"
)
_OUT: Final = (
    r"((comes?|came|turns?|turned|works?|worked) out|proves?|proved|(is|was) found|evaluate[sd]? as|remains|stays)"
    r"( to be| as| to)?"
)
_TEST: Final = r"{test},? ?(which )?"
_DOES_NOT: Final = r"((do|does|did|will|would) (not|never) |(doesn't|didn't|don't|won't) )"
_SO: Final = r"( (also|still|now|indeed|again|always|therefore|thus|then|clearly|obviously|immediately))?"
_GIVES: Final = (
    rf"({_MODAL}(be|return|give|give us|evaluate to|result in|yield|produce|become|equal|output|leave( us with)?)|is|was"
    r"|returns?|returned|gives( us)?|gave|evaluates to|evaluated to|results in|yields|yielded|produces|produced|becomes|equals"
    r"|comes (out )?to|turns into|outputs|leaves( us with)?|resolves to|simplifies to)"
)
_OF: Final = r"(of(?! (this|that|the|each|an?) (expression|condition|operation|comparison|check|test|division|loop|iteration|calculation|step|sum|multiplication|addition|subtraction|slice|split|join))|for|when|after|from|by|on|with|is called)"
_GAP: Final = r"([^.:,\n]|,(?=\s?(and\s)?[\ue000-\uffff]))"
_OUTPUT: Final = r"((final|expected|actual|overall|correct|predicted|function|function's|program's) ){0,2}(output|result|return(ed)?( value)?|answer|value returned)"
_ARROW: Final = r"(->|-->|→|=>|⇒|⟶|➜|➞)"
_NTH: Final = r"(?<!-)(?P<nth>first|second|third|fourth|fifth|last|next to last|second to last)"
_PART: Final = (
    r"(element|item|character|char|letter|number|value|digit|word|entry|key|bit|symbol|integer|string|part|term)"
)
_PARTS: Final = rf"{_PART}s?"
_LOOP: Final = r"(the |this |our )?((for|while|outer|inner|main|first|second|entire|whole|nested) |`?for`? |`?while`? ){0,2}loop('s body| body)?"
_RUN: Final = r"(runs?|iterates?|executes?|is executed|repeats?|loops|goes (around|through)|completes?|performs?|ran|iterated|executed|is run|is performed)"
_ADDS: Final = (
    r"((re)?(append|add|insert|push|concatenate|prepend|attach|include|put|place)(s|ed|ing)?|puts|putting|pushes)"
)
_ADDED: Final = r"(appended|added|inserted|pushed|concatenated|prepended|put|placed|attached)"
_REMOVES: Final = r"((remove|delete|pop|drop|discard|subtract|strip|eliminate)(s|d|ed|ing)?|pops|popped|popping|drops|dropped|stripped|subtracted)"


_FALSE: Final = frozenset({"false", "no", "fail", "fails", "failed", "violated", "skipped"})
"""Words for how a test came out that say it did not hold."""


class Wording(NamedTuple):
    """A way to say something.

    Attributes:
        certain: It can only be meant of a moment of this run.
        subject: The expression that is spoken of, made of `{x}` and `{y}`, where it does not stand in the text as it is.
    """

    pattern: str
    kind: Kind
    certain: bool = False
    subject: str = ""


WORDINGS: Final = (
    # values of names and expressions
    Wording(rf"{{place}} ?(=|:=|==|{_ARROW}) ?{{value}}", Kind.VALUE, certain=True),
    Wording(r"{place} ?: {value}", Kind.VALUE),
    Wording(r"{place} ?(=|in|:|takes( on)?( the)? values|is|are|goes (over|through)|over|values) {values}", Kind.VALUE),
    Wording(rf"{{place}},? {_BE} {_NOW}{_TO} ?{_THING}{{value}}", Kind.VALUE),
    Wording(rf"{{place}},? {_GIVES} {_NOW}{_THING}{{value}}", Kind.VALUE),
    Wording(r"{place} \((which |that |now |currently |still |value |length )?(is )?{value}", Kind.VALUE),
    Wording(rf"{{place}},? \(?which {_BE} {_NOW}{_TO} ?{_THING}{{value}}", Kind.VALUE),
    Wording(rf"value (of|for|in) {{place}} {_BE} {_NOW}{_TO} ?{{value}}", Kind.VALUE, certain=True),
    Wording(rf"{{place}}'s value {_BE} {_NOW}{_TO} ?{{value}}", Kind.VALUE, certain=True),
    Wording(r"((re)?sets?|(re)?setting|initiali[sz]es?|initiali[sz]ing|updates?|updating|defin(es?|ing)|(re)?assign(s|ing)?) (the )?(variable |list |string |counter )?{place} (back )?(to|as|with|=|to be|equal to) {value}", Kind.VALUE),
    Wording(r"(set|initiali[sz]e|assign|let|update|with|have|where|so|now|for|when|at|then|and|since|as|because) {place} ?(=|:=) ?{value}", Kind.VALUE, certain=True),
    Wording(r"(assigns?|assigning|stores?|storing|puts?) {value} (to|in|into) {place}", Kind.VALUE),
    Wording(r"{value} (is|gets|was) (assigned|stored|saved|put) (to|in|into|as) (the )?(variable )?{place}", Kind.VALUE),
    Wording(r"(increment|decrement|increase|decrease|reduce|bump)(s|es|d|ed|ing)? {place} (by {z} )?to {value}", Kind.VALUE),
    Wording(r"{place} (is |gets |was )?((increment|decrement|increas|decreas|reduc|bump|updat|chang)e?(s|d|ed|ing)?|goes) (by {z} )?(to|becoming) {value}", Kind.VALUE),
    Wording(r"(length|size|len|number of (characters|elements|items|words|letters|digits|entries|keys)) (of|in) (the )?([\w\ue000-\ue7ff-]+ ){0,3}?{x},? ?(\(?which )?(is|=|equals|was|will be|has|:)( also| now| still| therefore| then)? {value}", Kind.VALUE, subject="len(x)"),
    Wording(r"{x} has (a |the )?(length|size)( of)? {value}", Kind.VALUE, subject="len(x)"),
    Wording(r"{x} (has|have|contains?|consists of|is|holds|with)( only| exactly| a total of| now)? {value} (distinct |unique )?(elements?|items?|characters?|entries|entry|keys?|letters?|numbers?|pairs?|digits?|words?|chars?)( long| in length)?", Kind.VALUE, subject="len(x)"),
    Wording(r"{x} is of (length|size) {value}", Kind.VALUE, subject="len(x)"),
    Wording(r"sum of (the )?([\w-]+ ){0,3}?{x},? (\(?which )?(is|=|equals|gives) {value}", Kind.VALUE, subject="sum(x)"),
    Wording(r"(maximum|max|largest|biggest)( \w+){0,2} (of|in) {x} is {value}", Kind.VALUE, subject="max(x)"),
    Wording(r"(minimum|min|smallest)( \w+){0,2} (of|in) {x} is {value}", Kind.VALUE, subject="min(x)"),
    Wording(r"{y} (appears|occurs|is (found|present)) {times} in {x}", Kind.VALUE, subject="x.count(y)"),
    Wording(r"(count|number|number of occurrences) of {y}('s)? in {x},? (which )?(is|=|:|equals) {value}", Kind.VALUE, subject="x.count(y)"),
    Wording(r"{x} (contains|has) {value} (occurrences?|instances?|copies) of {y}", Kind.VALUE, subject="x.count(y)"),
    Wording(r"{y} (appears|occurs|is (found|present)) {times}", Kind.VALUE, subject="ANYTHING.count(y)"),
    Wording(r"(count|number|number of occurrences) of {y}('s)?,? (is|=|:) {value}", Kind.VALUE, subject="ANYTHING.count(y)"),
    Wording(r"(there are|with|contains|has|and|are) {value} {y}('s|s)", Kind.VALUE, subject="ANYTHING.count(y)"),
    Wording(r"index of {y} in {x} is {value}", Kind.VALUE, subject="x.index(y)"),
    Wording(r"{x} (divided by|/|÷) {y} (is|equals|gives|=) {value}", Kind.VALUE, subject="x / y"),
    Wording(r"remainder (of|when) {x} (is )?(divided by|/|÷) {y} (is|equals|=) {value}", Kind.VALUE, subject="x % y"),
    Wording(r"{x} (mod|modulo) {y} (is|equals|gives|=|≡) {value}", Kind.VALUE, subject="x % y"),
    Wording(r"{x} (plus|added to) {y} (is|equals|gives|makes|=) {value}", Kind.VALUE, subject="x + y"),
    Wording(r"{x} minus {y} (is|equals|gives|=) {value}", Kind.VALUE, subject="x - y"),
    Wording(r"{x} (times|multiplied by) {y} (is|equals|gives|=) {value}", Kind.VALUE, subject="x * y"),
    Wording(r"{x} (squared|\^2|²) (is|equals|gives|=) {value}", Kind.VALUE, subject="x ** 2"),
    Wording(r"{x} (raised )?to the power (of )?{y} (is|equals|gives|=) {value}", Kind.VALUE, subject="x ** y"),
    Wording(r"{x} (reversed|in reverse|backwards) (is|gives|becomes) {value}", Kind.VALUE, subject="x[::-1]"),
    # tests
    Wording(rf"{{test}} ?({_GIVES}|{_ARROW}|:|=|,) ?{{value}}", Kind.TEST),
    Wording(rf"{_TEST}({_GIVES}|{_OUT}|isn't|wasn't|{_ARROW}|:|=|,|\(|\?){_SO}(?P<not> (not|never|no longer)( to be)?)? ?{{truth}}", Kind.TEST),
    Wording(rf"{_TEST}(?P<not>{_DOES_NOT})(evaluate|come out|turn out|return|give|yield|prove|become|equal|result in)( to be| to| as)? ?{{truth}}", Kind.TEST),
    Wording(rf"{_TEST}(?P<not>{_DOES_NOT}|(is|was) (not|never) |(isn't|wasn't) |((is|was) )?no longer |never )?((also|still|now|indeed|always|again) )?((is|was) )?(?P<truth>holds?( true)?|held|fails?|failed|met|satisfied|fulfilled|violated|(?<=(is|as|'t|ot|er) )the case)(?!\w)", Kind.TEST),
    Wording(rf"{_TEST}(?P<not>{_DOES_NOT}|no longer |never )?((also|still|now|indeed|always|again) )?(?P<truth>pass|passes|passed|succeeds?|succeeded)(?!\w| (on|along|control|[\ue000-\uf7ff]))", Kind.TEST),
    Wording(r"{test} (branch|block|body|case|path) (is|was|gets) (?P<not>(not|never) )?(?P<truth>taken|entered|executed|followed|skipped)(?!\w)", Kind.TEST, certain=True),
    Wording(r"{test}`? (is|was|gets) (?P<not>(not|never) )?(?P<truth>taken|entered)(?!\w)", Kind.TEST, certain=True),
    Wording(r"{x} ?(=|==) ?{y}", Kind.TEST, certain=True, subject="x == y"),
    Wording(r"{chain}", Kind.TEST, certain=True, subject="x == y"),
    Wording(r"{x} ?(≠|!=|<>) ?{y}", Kind.TEST, subject="x != y"),
    Wording(rf"{{x}},? {_IS} (evenly |exactly )?divisible by {{y}}", Kind.TEST, subject="x % y == 0"),
    Wording(rf"{{x}},? {_IS} a multiple of {{y}}", Kind.TEST, subject="x % y == 0"),
    Wording(rf"{{x}},? {_IS} (strictly )?(greater|more|larger|bigger|higher) than {{y}}", Kind.TEST, subject="x > y"),
    Wording(rf"{{x}},? {_IS} (strictly )?(less|smaller|fewer|lower) than {{y}}", Kind.TEST, subject="x < y"),
    Wording(rf"{{x}},? {_IS} (greater|more|larger|bigger) than or equal to {{y}}", Kind.TEST, subject="x >= y"),
    Wording(rf"{{x}},? {_IS} (less|smaller|fewer) than or equal to {{y}}", Kind.TEST, subject="x <= y"),
    Wording(rf"{{x}},? {_IS} (at least|no less than) {{y}}", Kind.TEST, subject="x >= y"),
    Wording(rf"{{x}},? {_IS} (at most|no more than) {{y}}", Kind.TEST, subject="x <= y"),
    Wording(rf"{{x}},? {_IS} (equal to|the same as|identical to) {{y}}", Kind.TEST, subject="x == y"),
    Wording(r"{x} (?P<not>does not|doesn't|do not|don't) (equal|match) {y}", Kind.TEST, subject="x == y"),
    Wording(r"{x} (equals|matches) {y}", Kind.TEST, subject="x == y"),
    Wording(r"{x} (is|was) not {value}", Kind.TEST, subject="x != value"),
    Wording(r"{x} (is different from|differs from) {y}", Kind.TEST, subject="x != y"),
    Wording(r"{x} and {y} are (both )?(equal|the same)", Kind.TEST, subject="x == y"),
    Wording(r"{x} and {y} are (not (equal|the same)|different)", Kind.TEST, subject="x != y"),
    Wording(rf"{{x}},? {_IS} (already |also )?(in|present in|found in|contained in|an? (key|element|member|item|substring) (in|of)|part of) (the )?([\w-]+ ){{0,2}}?{{y}}", Kind.TEST, subject="x in y"),
    Wording(rf"{{x}},? {_IS} (already |also )?between {{y}} and {{z}}", Kind.TEST, subject="y <= x <= z"),
    Wording(rf"{{x}},? {_IS} (an )?even( number)?", Kind.TEST, subject="x % 2 == 0"),
    Wording(rf"{{x}},? {_IS} (an )?odd( number)?", Kind.TEST, subject="x % 2 == 1"),
    Wording(rf"{{x}},? {_IS} positive", Kind.TEST, subject="x > 0"),
    Wording(rf"{{x}},? {_IS} negative", Kind.TEST, subject="x < 0"),
    Wording(rf"{{x}},? {_IS} empty", Kind.TEST, subject="len(x) == 0"),
    Wording(r"{x} (?P<not>does not|doesn't|do not)? ?(contains?|has|have|include) {y}", Kind.TEST, subject="y in x"),
    Wording(r"{x} (?P<not>does not|doesn't)? ?(starts?|begins?) with {y}", Kind.TEST, subject="x.startswith(y)"),
    Wording(r"{x} (?P<not>does not|doesn't)? ?ends? with {y}", Kind.TEST, subject="x.endswith(y)"),
    Wording(r"{x} (yields|produces|gives|generates|contains|includes?|has|covers|iterates over|goes over|are|is|will be|creates|=|:) (the )?([\w-]+ ){0,2}?{values}", Kind.TEST, subject="value in x"),
    Wording(r"assert {test}", Kind.TEST, certain=True),
    Wording(r"{equation}(?= ?([.;,)]|$))", Kind.TEST),
    Wording(r"(since|because|as) {test}(?= ?[,.;)]|$)", Kind.TEST),
    # results
    Wording(rf"(the )?{_OUTPUT}( {_OF} {_GAP}{{0,160}}?)? {_BE}( (therefore|thus|then|simply|just|also))?:? {{value}}", Kind.RETURN, certain=True),
    Wording(rf"(the )?{_OUTPUT}( {_OF} {_GAP}{{0,160}}?)? {_BE} (a|an|the) ([\w-]+[: ] ?){{0,16}}?{{value}}", Kind.RETURN),
    Wording(rf"\W{{0,4}}{_OUTPUT}\W{{0,4}}:\W{{0,6}}{{value}}", Kind.RETURN, certain=True),
    Wording(rf"\W{{0,4}}{_OUTPUT}\W{{0,4}}( ?{_ARROW}|=) ?{{value}}", Kind.RETURN),
    Wording(rf"{_OUTPUT}[^.:]{{0,60}}? is:?\W{{1,6}}{{value}}", Kind.RETURN),
    Wording(r"boxed: ?{value}", Kind.RETURN, certain=True),
    Wording(r"(<|\[)answer(>|\]) ?{value}", Kind.RETURN, certain=True),
    Wording(r"(returns?|return|will return|would return|returned|returning|outputs?|will output|prints?|will print|printed|gives back) ([\w-]+ ){0,4}?{value}", Kind.RETURN),
    Wording(r"return(s|ed|ing)?[^.:]{0,100}?,? which (is|will be|equals|has the value|contains) {value}", Kind.RETURN),
    Wording(rf"{{value}},? (is|are|will be|gets|being) (then |finally |therefore |what is |also )?(returned|printed|the (final )?{_OUTPUT})", Kind.RETURN),
    Wording(rf"{{call}} ?(==|=|{_ARROW}|{_GIVES}|:) ?{{value}}", Kind.RETURN, certain=True),
    Wording(rf"{{call}},? which {_GIVES} {{value}}", Kind.RETURN, certain=True),
    Wording(r"dictionary with ((the )?key )?{x} (and|with)( (the|its))?( corresponding)? value {y}", Kind.PAIR),
    # what the run was given
    Wording(r"(inputs?|arguments?|parameters?)( (string|text|list|array|dictionary|dict|number|integer|value|values|word|tuple|is|are|of|to|for|the|was|given|as|being|in|this|case|has|provided|we|have|with|an?|function)| ?[:=]){0,12} {values}", Kind.INPUT),
    Wording(r"(called|invoked|executed|run|call|invoke|calling) (it |the function |this function )?(with|on) (the )?(following )?(argument|arguments|inputs?|values?|parameters?)?:? ?{values}", Kind.INPUT),
    Wording(r"(given|for|with|on) (the )?(input|inputs|argument|arguments|case|call)?:? ?{values},", Kind.INPUT),
    # what changed
    Wording(r"{place} (is |was |gets |has been |will be )?(changes?|changed|goes|went|moves?|moved|increases?|increased|decreases?|decreased|drops?|incremented|decremented|updated|becomes?|transitions?|reduced|grows)( value)? from {x} to {y}", Kind.CHANGE),
    Wording(r"(changes?|changing|updates?|updating|increments?|incrementing|increases?|decreases?) {place} from {x} to {y}", Kind.CHANGE),
    Wording(rf"{{place}}:? ?{{x}} ?{_ARROW} ?{{y}}", Kind.CHANGE),
    Wording(rf"{_ADDS} (the )?([\w-]+ ){{0,2}}?{{x}} (at |in)?to (the )?([\w-]+ ){{0,4}}?{{place}}", Kind.ADD),
    Wording(rf"{{x}} (is|was|gets|are|will be|being) (then |also |now |therefore )?{_ADDED} (in)?to (the )?([\w-]+ ){{0,4}}?{{place}}", Kind.ADD),
    Wording(rf"{_ADDS} (the )?([\w-]+ ){{0,2}}?{{x}}", Kind.ADD),
    Wording(rf"{{x}} (is|was|gets|are|will be|being) (then |also |now |therefore )?{_ADDED}", Kind.ADD),
    Wording(r"{place} ?\+= ?{x}", Kind.ADD),
    Wording(r"(increment|increas)(e|es|ed|ing|s)? {place} by {x}", Kind.ADD),
    Wording(r"{place} (is |gets |was )?((increment|increas)(e|es|ed|ing|s)|goes up|rises|grows) by {x}", Kind.ADD),
    Wording(r"{place} ?-= ?{x}", Kind.REMOVE),
    Wording(r"(decrement|decreas|reduc)(e|es|ed|ing|s)? {place} by {x}", Kind.REMOVE),
    Wording(r"{place} (is |gets |was )?((decrement|decreas|reduc)(e|es|ed|ing|s)|goes down|falls|drops|shrinks) by {x}", Kind.REMOVE),
    Wording(rf"{_REMOVES} (the )?([\w-]+ ){{0,3}}?{{x}} from (the )?([\w-]+ ){{0,4}}?{{place}}", Kind.REMOVE),
    Wording(r"{x} (is|was|gets|are|will be) (then |also )?(removed|deleted|popped|dropped|discarded|subtracted|stripped)( from (the )?([\w-]+ ){0,4}?{place})?", Kind.REMOVE),
    Wording(rf"{_REMOVES} (the )?([\w-]+ ){{0,3}}?{{x}}", Kind.REMOVE),
    # values on the way, members, sizes
    Wording(rf"(resulting in|giving( us)?|which (gives|yields|returns|results in|produces|equals|becomes|evaluates to|is|means|leaves)( us)?|(we|I) (get|have|obtain|end up with)|to (get|give|obtain|form|produce|make)|yielding|leaving|becomes|produces|yields|gives|making( it)?|so it('s| is)( now)?|it (becomes|is now|is)|leaves( us with)?|results in|evaluates to|creates|obtaining|that's|{_ARROW}) ?{_NOW}{_THING}{{value}}", Kind.STEP),
    Wording(r"(?<![-+*/<>!:])= ?{value}", Kind.STEP),
    Wording(rf"{_NTH} (\w+ )?{_PART}( (of|in) ([\w-]+ ){{0,3}}?{{place}})?,?( \(?(is|being|which is|has the value|with value))? ?[:=(]? ?{{value}}", Kind.MEMBER),
    Wording(rf"{_PART} at (index|position) {{x}}( (of|in) {{place}})?,? ?(is|=|:|being|which is|\() ?{{value}}", Kind.MEMBER),
    Wording(r"at (index|position) {x},?( (we have|there is|is|it is|the \w+ is)|:)? {value}", Kind.MEMBER),
    Wording(r"(index|position) {x} ?(is|=|:|has|holds|contains) {value}", Kind.MEMBER),
    Wording(rf"{_PARTS}( (is|are|being|in|of|the|only|remaining|which|list|string|[\w-]+ly)){{0,3}},?:? ?\(?{{values}}", Kind.MEMBER),
    Wording(r"(for|process(ing|es)?|consider(ing)?|check(ing|s)?|take|takes|with|next is|look(ing)? at|visit(s|ing)?|encounters?|starting (from|at|with)|starts (from|at|with)|ending (at|with|in)|ends (at|with)|up to|from|to|on|is|and|contains|includes|skip(s|ping)?|count(s|ing)?|counts? (of|for)|only|both|pair) ?:? {values}", Kind.MEMBER),
    Wording(rf"{{values}} (is|are) (also )?(the |an? )?([\w-]+ )?{_PART}s?", Kind.MEMBER),
    Wording(r"{x} ?: ?{y}", Kind.PAIR),
    Wording(r"(key )?{x} (has|with|maps to|is mapped to|is associated with|to)( the| a)?( value)?( of)? {y}", Kind.PAIR),
    Wording(r"{value} (characters?|chars?|letters?)( long| in length| in total)?", Kind.SIZE),
    Wording(r"(string|text|word) (is )?of (length|size) {value}", Kind.SIZE),
    Wording(r"{value} (more |total |distinct |unique |remaining |different )?(elements?|items?|entries|numbers?|keys?|pairs?|words?|values?|digits?|parts?|rows?|columns?|tuples?|lists?)( long| in total)?", Kind.SIZE),
    Wording(r"(length|size|count|total)( of the \w+)?,? ?(is|=|:|of|becomes|equals|being)?( now| also| then)? ?{value}", Kind.SIZE),
    Wording(r"(index|position|indices|indexes|positions|indices? of)( (is|are|of|at))? ?:? ?\(?{values}", Kind.INDEX),
    Wording(r"{place} (in|goes|runs|ranges|going|ranging|iterates|varies|takes( on)?( the)? values|loops|from|=|counts|is)?( over| in| the range)?( from)? {x} (down |up )?(to|through|until|-|–) {y}", Kind.SPAN),
    Wording(r"(from|between) {x} (down |up )?(to|through|until|and|-|–) {y}", Kind.SPAN),
    # how often
    Wording(rf"{_LOOP}( (will|would|should|only|therefore|then|thus)){{0,3}} ({_RUN}|run|iterate|execute|be executed|repeat|loop)( for)?( only| exactly| a total of| just)? {{times}}", Kind.ROUNDS, certain=True),
    Wording(rf"{_LOOP}( (will|only|therefore|then|thus)){{0,3}} ({_RUN}|has|have|run|take|takes|does|makes|ends after|terminates after|stops after|finishes after|completes after)( for| in| through)?( only| exactly| a total of| all| just)? {{value}} (iterations?|rounds?|passes|times)", Kind.ROUNDS, certain=True),
    Wording(r"(iterates?|loops?|runs?|repeats?|executes?|executed|repeated|iterated|iterating|run|looping|body)( (will|is|be|are|runs|executes|executed|was)){0,2}( only| exactly| a total of| just)? {times}", Kind.ROUNDS),
    Wording(r"{value} (loop |total |more )?(iterations?|rounds|passes)", Kind.ROUNDS),
    Wording(r"(iteration|pass|round|turn|loop|iterations)( number| no\.)? ?#?:? ?\(?{values}", Kind.TURN),
    Wording(r"({f}|the function|it)( (is|was|gets|will be))? (called|invoked)( recursively)?( a total of| exactly| only)? {times}", Kind.CALLS),
    Wording(r"{value} (recursive |function )?calls", Kind.CALLS),
    # exceptions
    Wording(r"(raises?|raised|throws?|threw|raising|throwing|hits|encounters|fails with|results in|causes|gets|triggers|is)( (the|a|an|this|exception|error|with|of|type)){0,5} {error}", Kind.RAISE),
    Wording(r"{error} (is|was|will be|gets) (raised|thrown|triggered)", Kind.RAISE),
    # of the text itself, and of Python
    Wording(r"python( versions?)? {value}", Kind.REMARK),
    Wording(r"(step|point|line|case|part|example|option|phase|test|section|note|equation)s?( number)? ?#?{values}", Kind.REMARK),
    Wording(r"{value}-?(based|indexed)", Kind.REMARK),
    Wording(r"(the|function|it|f|{f}|which)( \w+)? (takes|accepts|has|receives|expects)( in)? {value} (\w+ )?(arguments?|parameters?|inputs?)", Kind.REMARK),
)  # fmt: skip

_GENERAL: Final = re.compile(
    r"\b(if(?!(-| )(condition|statement|block|branch|clause|check|part|test|body|else))(?<!the if)(?<!the `if)|whenever|whether|otherwise|for (each|every|any)\b(?! of the [\ue000-\uffff])|until|unless|suppose"
    r"|in case|while(?! loop)(?!-)|as long as|each time|either|would(?! be|n't)|could|might|may|for example|for instance|e\.g\.)",
    re.I,
)
"""Words of what a program does in a case, rather than of what happened."""
_MOMENT: Final = re.compile(
    r"\b(when|at|once|after|if|while)\b ?[\ue000-\ue7ff]|\bwhen\b|\b(wait|hmm|actually|perhaps|maybe|suppose|assum\w+|say|let'?s say|instead"
    r"|rather than|should|expected|hypothetical\w*|otherwise|not sure|mistake\w*|correct(ed|ion)|wrong|error|no,|but|imagine|consider)\b",
    re.I,
)
"""Words after which what is said may be of another moment, or taken back: it is not refuted."""
_IN_FORMULA: Final = re.compile(r"!|[-+*/%^×·÷√²³] ?[\w(\ue000-\uf7ff]")
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)|\n+|;(?= )")
_SIGN: Final = re.compile(r"\s+|\S")
# Code and values of a text are replaced by one character each of the private use area, in rows by their kind, so that a
# wording is a regular expression over kinds and words. `markup.plain` has taken such characters out of the text.
_KINDS: Final = {"name": 0xE000, "expression": 0xE800, "value": 0xF000, "code": 0xF800}
_MOST_ITEMS: Final = 0x700
_NAME, _EXPRESSION, _VALUE = "[\ue000-\ue7ff]", "[\ue800-\uefff]", "[\uf000-\uf7ff]"
_ANY: Final = "[\ue000-\uf7ff]"
_COUNTS: Final = {word: count for word, count in {**UNITS, **TIMES}.items() if count <= 10 and word != "never"}
_PLACES_IN_ROW: Final = {
    "first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1, "next to last": -2,
    "second to last": -2,
}  # fmt: skip
_PLACES: Final = {
    "{place}": f"(?P<place>{_NAME}|{_EXPRESSION})",
    "{f}": f"(?P<f>{_NAME})",
    "{test}": f"(?P<test>{_NAME}|{_EXPRESSION})",
    "{call}": f"(?P<call>{_EXPRESSION})",
    "{equation}": f"(?P<equation>{_EXPRESSION})",
    "{values}": f"(?P<values>{_VALUE}(?:,?(?:\\s(?:and|or|&))?\\s?{_VALUE}){{0,40}})",
    "{value}": f"(?P<value>{_VALUE})",
    "{truth}": f"(?:(?P<truth>true|false|yes|no)(?!\\w)|(?P<value>{_VALUE}))",
    "{chain}": f"(?P<chain>{_ANY}(?:\\s?(?:=|==|≈)\\s?{_ANY}){{2,12}})",
    "{times}": (
        f"(?:(?P<value>{_VALUE}) times?|(?P<times>once|twice|thrice|(?:{'|'.join(_COUNTS)})(?: times?| iterations?)))"
    ),
    "{error}": r"`?(?P<error>(?-i:[A-Z])\w{0,40}(?:Error|Exception|Interrupt|Iteration|Exit))\b",
    **{f"{{{name}}}": f"(?P<{name}>{_NAME}|{_EXPRESSION}|{_VALUE})" for name in "xyzw"},
}
_SPOKEN: Final = ("place", "f", "test", "equation", "call", "x", "y", "z", "w")


class Reading(NamedTuple):
    """A text as it was read.

    Attributes:
        plain: The text without markup, in which its numbers are.
    """

    items: Sequence[Item]
    sentences: Sequence[tuple[int, int]]
    claims: Sequence[Claim]
    plain: markup.Plain


def compiled(pattern: str) -> re.Pattern[str]:
    """The expression over text with items replaced that a wording is."""
    for name, place in _PLACES.items():
        pattern = pattern.replace(name, place)
    # runs of white space are one character where it is used
    return re.compile(r"(?<!\w)" + pattern.replace(" ?", r"\s?").replace(" ", r"\s"), re.I)


_COMPILED: Final = [(compiled(wording.pattern), wording) for wording in WORDINGS]


def read(text: str, run: Run) -> Reading:
    """The claims of a text about a run, in the text's order."""
    found = _Text(markup.plain(text), run)
    sentences = [found.span(*each) for each in found.sentences]
    claims: list[Claim] = []
    for number, (start, end) in enumerate(found.sentences):
        claims += found.claims(number, start, end)
    claims += _tabled(text, sentences, run.names)
    claims += _assigned(found.items_of_text(), sentences, run)
    claims.sort(key=lambda claim: (claim.sentence, claim.start))
    return Reading(found.items_of_text(), sentences, claims, found.plain)


def _tabled(text: str, sentences: Sequence[tuple[int, int]], names: Collection[str]) -> Iterator[Claim]:
    """Yield what tables of states say: a row's names, under their heads, have the values of its cells."""
    starts = [start for start, _ in sentences]
    for cell in markup.cells(text):
        head = items.parsed(cell.head) if len(cell.head) < items.MOST_CODE else None
        # A column of numbers of iterations, of which each has to be one.
        turn = re.fullmatch(r"(iteration|step|pass|round|#|no\.?|index|line)s?", cell.head, re.I)
        used = {node.id for node in ast.walk(head) if isinstance(node, ast.Name)} if head else set()
        number = bisect.bisect_right(starts, cell.start) - 1
        literal, value = items.literal_of(node) if (node := items.parsed(cell.text)) else (False, None)
        if number < 0 or (not turn and not used & set(names)) or not literal:
            continue
        kind = Kind.TURN if turn else Kind.TEST if _asks(head) and isinstance(value, bool) else Kind.VALUE
        yield Claim(
            kind=kind, subject=None if turn else head, value=value, shown=cell.head, decimals=items.decimals(cell.text),
            start=cell.start, end=cell.end, parts=[(cell.start, cell.end)], sentence=number, certain=False,
        )  # fmt: skip


def _assigned(found: Sequence[Item], sentences: Sequence[tuple[int, int]], run: Run) -> Iterator[Claim]:
    """Yield what quoted assignments of literals say; code that stands in the program claims nothing."""
    starts = [start for start, _ in sentences]
    for item in found:
        number = bisect.bisect_right(starts, item.start) - 1
        if item.kind != "code" or number < 0 or run.has_code(item.value):
            continue
        for target, value in items.assignments(item.value):
            literal, told = items.literal_of(value)
            if literal and {node.id for node in ast.walk(target) if isinstance(node, ast.Name)} & run.names:
                yield Claim(
                    kind=Kind.VALUE, subject=target, value=told, shown=ast.unparse(target), start=item.start,
                    end=item.end, parts=[(item.start, item.end)], sentence=number, certain=True,
                )  # fmt: skip


class _Text:
    """A text with its items replaced by one character each, and the way back."""

    def __init__(self, plain: markup.Plain, run: Run) -> None:
        self.plain = plain
        self._functions = run.functions
        text = plain.text
        self._items = items.find(text, run.names, uses_xor=run.uses_xor)[:_MOST_ITEMS]
        signs: list[str] = []
        self._starts: list[int] = []
        self._item_at: dict[int, Item] = {}
        at = 0

        def put(start: int, end: int) -> None:
            for found in _SIGN.finditer(text, start, end):
                # Wordings are written with single spaces; that a line ends there is kept.
                blank = "\n" if "\n" in found[0] else " "
                signs.append(blank if found[0].isspace() else found[0])
                self._starts.append(found.start())

        for number, item in enumerate(self._items):
            put(at, item.start)
            self._item_at[len(signs)] = item
            signs.append(chr(_KINDS[item.kind] + number))
            self._starts.append(item.start)
            at = item.end
        put(at, len(text))
        self._starts.append(len(text))
        self._signs = "".join(signs)
        self.sentences = list(items.pieces(self._signs, _SENTENCE_END, 0, len(self._signs)))[:MOST_SENTENCES]

    def items_of_text(self) -> list[Item]:
        """The items, where they stand in the text with its markup."""
        placed = []
        for item in self._items:
            start, end = self.plain.span(item.start, item.end)
            placed.append(item._replace(start=start, end=end))
        return placed

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Characters of the text that signs stand for."""
        last = self._item_at.get(end - 1)
        return self.plain.span(self._starts[start], last.end if last else self._starts[end - 1] + 1)

    def claims(self, number: int, start: int, end: int) -> Iterator[Claim]:
        """Of one sentence; of wordings that overlap the longest."""
        # A question claims nothing of the run.
        asks = self._signs[end - 1] == "?"
        general = asks or _GENERAL.search(self._signs, start, end) is not None
        hedged = _MOMENT.search(self._signs, start, end) is not None
        found = [
            (match, wording)
            for pattern, wording in _COMPILED
            for match in pattern.finditer(self._signs, start, end)
        ]  # fmt: skip
        # Longest first: `x is not in xs` holds `x is` as well.
        found.sort(key=lambda pair: (-(pair[0].end() - pair[0].start()), pair[0].start()))
        taken = bytearray(end - start)  # the last sign of a wording may begin another one
        made: list[Claim] = []
        for match, wording in found:
            begin, stop = match.start() - start, match.end() - start - 1
            # Some of its words belong to a longer wording.
            if taken.find(1, begin, max(stop, begin + 1)) >= 0:
                continue
            claims = list(self._claims(match, wording, number))
            # A wording that makes no claim here leaves its words to shorter ones.
            if claims:
                taken[begin:stop] = b"\1" * (stop - begin)
                unsure = hedged or self._goes_on(match)
                made += [
                    dataclasses.replace(claim, general=general, certain=claim.certain and not unsure)
                    for claim in claims
                ]
        yield from sorted(made, key=lambda claim: claim.start)

    def _goes_on(self, match: re.Match[str]) -> bool:
        """Return whether a formula may go on before a wording's first sign or after its last: "√n = 2", "x = 4!"."""
        before = self._signs[max(0, match.start() - 3) : match.start()].rstrip()
        after = self._signs[match.end() : match.end() + 6].lstrip()
        return (
            _IN_FORMULA.match(after) is not None
            or before[-1:] in tuple("-+*/%^×·÷√∑∏|")
            or re.search(f"{_NAME},$|{_EXPRESSION},$", before) is not None
        )

    def _claims(self, match: re.Match[str], wording: Wording, number: int) -> Iterator[Claim]:
        if "chain" in match.groupdict():
            links = [self._item_at[at] for at in range(*match.span("chain")) if at in self._item_at]
            # `a + b = 3 + 5 = 8` says each equation, and the first of the last.
            for x, y in itertools.pairwise(links):
                yield self._equation(x, y, number, wording)
            if links[0].kind != "value" and links[-1].kind == "value":
                yield self._equation(links[0], links[-1], number, wording)
            return
        told: Sequence[Item | None] = (None,)
        if "values" in match.groupdict():
            told = [item for at in range(*match.span("values")) if (item := self._item_at.get(at))]
            if wording.subject and len(told) < 2:  # of one value alone other wordings tell more
                return
        for item in told:
            if claim := self._claim(match, wording, number, item):
                yield claim

    def _claim(self, match: re.Match[str], wording: Wording, number: int, value: Item | None) -> Claim | None:
        groups = match.groupdict()
        spoken = {name: self._item(match, name) for name in _SPOKEN if groups.get(name)}
        value = self._item(match, "value") if groups.get("value") else value
        node = next((item.node for item in spoken.values()), None)
        if wording.subject:
            node = _filled(wording.subject, spoken if value is None else {**spoken, "value": value})
        kind, certain = wording.kind, wording.certain or any(item.quoted for item in spoken.values())
        is_call = self._is_call(node)
        if "call" in groups and not is_call:
            return None
        # `f(3) is 6` tells what the call gave, and no value of a name.
        if kind is Kind.VALUE and is_call:
            kind = Kind.RETURN
        if kind is Kind.VALUE and isinstance(node, ast.Name) and node.id in self._functions:
            return None
        told = value.value if value else None
        if kind is Kind.VALUE and _asks(node) and isinstance(told, bool):
            kind = Kind.TEST  # "`a < b` is False"
        if kind is Kind.TEST and (value is None or "value" in wording.subject):
            negated = groups.get("not") or "n't" in match[0]
            told = ((groups.get("truth") or "true").lower() not in _FALSE) != bool(negated)
        elif kind is Kind.TEST and isinstance(told, bool) and (groups.get("not") or "n't" in match[0]):
            told = not told  # "`a < b` is not True"
        if kind is Kind.TEST and (not _asks(node) or not isinstance(told, bool)):
            return None
        equation = _equation(node)
        if "equation" in groups and equation is None:
            return None
        # `f(3) == 6` of a text is what the call gave.
        if kind is Kind.TEST and told and equation is not None and self._is_call(equation[0]):
            kind, certain, node, told = Kind.RETURN, True, *equation
        if groups.get("times"):
            told = _COUNTS[groups["times"].split()[0].lower()]
        elif groups.get("error"):
            told = groups["error"]
        elif kind in _OF_VALUES:
            values = [spoken[name] for name in _OF_VALUES[kind]]
            if any(item.kind != "value" for item in values):
                return None
            told = tuple(item.value for item in values) if len(values) > 1 else values[0].value
            node = spoken["place"].node if "place" in spoken else None
        elif kind is Kind.MEMBER:
            place = spoken["x"].value if "x" in spoken else None
            if groups.get("nth"):
                place = _PLACES_IN_ROW[groups["nth"].lower()]
            if place is not None and not isinstance(place, int):
                return None
            node = None if place is None else ast.Constant(place)
        elif kind is Kind.REMARK:
            node = None
        start, end = self.span(*match.span())
        all_items = [item for item in (*spoken.values(), value) if item is not None]
        parts = [self.plain.span(item.start, item.end) for item in all_items]
        return Claim(
            kind=kind, subject=node, value=told, shown=_without_values(node),
            decimals=items.decimals(self._text_of(value)) if value else None,
            start=start, end=end, parts=parts, sentence=number, certain=certain,
        )  # fmt: skip

    def _equation(self, x: Item, y: Item, number: int, wording: Wording) -> Claim:
        """Of two links of a chain of equations."""
        node = _filled(wording.subject, {"x": x, "y": y})
        kind, told = Kind.TEST, True
        equation = _equation(node)
        if equation is not None:
            kind, (node, told) = Kind.VALUE, equation
            kind = Kind.RETURN if self._is_call(node) else kind
        parts = [self.plain.span(item.start, item.end) for item in (x, y)]
        return Claim(
            kind=kind, subject=node, value=told, shown=_without_values(node), decimals=items.decimals(self._text_of(y)),
            start=parts[0][0], end=parts[1][1], parts=parts, sentence=number, certain=wording.certain,
        )  # fmt: skip

    def _is_call(self, node: ast.expr | None) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._functions

    def _item(self, match: re.Match[str], name: str) -> Item:
        return self._item_at[match.start(name)]

    def _text_of(self, item: Item) -> str:
        return repr(item.value) if isinstance(item.value, float) else ""


_OF_VALUES: Final = {Kind.CHANGE: "xy", Kind.PAIR: "xy", Kind.SPAN: "xy", Kind.ADD: "x", Kind.REMOVE: "x"}
"""Kinds that say one value, or two, which stand at these places of a wording."""


def _filled(subject: str, spoken: Mapping[str, Item]) -> ast.expr:
    """A wording's expression with what the text has at its places; `ANYTHING` is any sequence of the run."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id == "ANYTHING":
                return ast.Name("any sequence", ast.Load())
            return (spoken[node.id].node if node.id in spoken else None) or node

    if subject == "x == y" and isinstance(spoken["y"].node, ast.Compare):  # "len(xs) = 3 < 4"
        y = spoken["y"].node
        x = spoken["x"].node or ast.Constant(None)
        return ast.Compare(x, [ast.Eq(), *y.ops], [y.left, *y.comparators])
    filled: ast.expr = Fill().visit(expression_of(subject))
    return ast.fix_missing_locations(filled)


def _equation(node: ast.expr | None) -> tuple[ast.expr, Any] | None:
    """Both sides of `expression == literal`."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        literal, value = items.literal_of(node.comparators[0])
        return (node.left, value) if literal else None
    return None


def _without_values(node: ast.expr | None) -> str:
    """An expression as it is told back: of a comparison with a value only the other side."""
    if isinstance(node, ast.Compare):
        left, right = node.left, node.comparators[-1]
        node = right if items.literal_of(left)[0] and not items.literal_of(right)[0] else left
    return ast.unparse(node) if node is not None else ""


def _asks(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call)
