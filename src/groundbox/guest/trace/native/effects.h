/* Which objects a line may have changed by code that is not the program's (effects.py). */
#ifndef GROUNDBOX_EFFECTS_H
#define GROUNDBOX_EFFECTS_H

#include "frames.h"

#include "plan.h"

/* A growing array of strong references. */
typedef struct {
    PyObject **items;
    Py_ssize_t count, room;
} Objects;

/* Takes a reference. */
void objects_add(Objects *objects, PyObject *object);
/* Drops what was added after the first `count`. */
void objects_cut(Objects *objects, Py_ssize_t count);

/* The value that a name of a frame has now, or NULL. Borrowed. */
PyObject *value_of(const Name *name, const Code *code, PyFrameObject *frame);
/* Whether the namespace of a class body can be read now. */
bool space_is_readable(PyFrameObject *frame);
/* Adds the objects that the line can have changed, in the order of its effects. False: that cannot be said. */
bool effects_touched(const Line *line, const Code *code, PyFrameObject *frame, Objects *found);

/* Library functions that change nothing, or their first argument: from a dict of id to "none" or "first". */
bool known_open(PyObject *known);
void known_close(void);

#endif
