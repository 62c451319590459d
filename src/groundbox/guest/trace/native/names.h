/* Names of frames and what was last told of them. */
#ifndef GROUNDBOX_NAMES_H
#define GROUNDBOX_NAMES_H

#include "frames.h"

#include "states.h"

bool names_open(void);
void names_close(void);
/* Where the last told value of a name is kept, or NULL if it is no name that is told. */
Told *told_of(State *state, const Name *name);
/* Tells those of the names that took a new value, or have none any more. */
void look_at_names(State *state, PyFrameObject *frame, const Names *names);
/* Writes the arguments of a call as the members of a JSON object, and remembers them as told. */
void write_arguments(State *state, PyFrameObject *frame);

#endif
