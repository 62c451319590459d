/* Names of frames: which values they were last told to have, and what is new.
 *
 * A name is told when the text of its value is not the text last told for it. The value is held together with its text
 * if it is an atom, or is labelled and may be kept alive, so that the same object need not be written again.
 *
 * What is global is last told for the whole program. What is `nonlocal` is told by the frame that stores it, and from
 * then on is last told for the variable of its owner: the nearest frame outside, on the chain of parents, whose code
 * object has the variable. So the owner does not tell it again, and if the variable belonged to another activation, both
 * tell it when they look at it next. Namespaces that are no dict (of a class body with `__prepare__`) are not looked at.
 */
#ifndef GROUNDBOX_NAMES_H
#define GROUNDBOX_NAMES_H

#include "frames.h"

#include "folding.h"
#include "states.h"

bool names_open(void);
void names_close(void);
/* Where the last told value of a name is kept, or NULL if it is no name that is told. */
Told *told_of(State *state, const Name *name);
/* Tells those of the names that took a new value, or have none any more. */
void look_at_names(State *state, PyFrameObject *frame, const Names *names);
/* As look_at_names, of the variables of a generator that waits. */
void look_at_kept(State *state, const Kept *kept);
/* As look_at_names, of what the program stores globally; less what the line `but` stores, if it is not NULL. */
void look_at_globals(State *state, PyFrameObject *frame, const Line *but);
/* Writes the arguments of a call as the members of a JSON object, and remembers them as told. */
void write_arguments(State *state, PyFrameObject *frame);

#endif
