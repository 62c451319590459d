/* Names of frames and what was last told of them. */
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
