/* Which objects a line may have changed by code that is not the program's.
 *
 * `effects_touched` looks at the values that names have now, at the end of the line, and gives the objects to be checked,
 * in the order of the effects; or false: anything may have changed, walk from the roots.
 *
 * A path is followed without running code of the program. An attribute: a data descriptor in the type's MRO makes it
 * unknown, but for slots; else the true `__dict__` of the instance, else a plain value in the MRO. `__class__` is the
 * type. Of a class: its MRO; of a module: its `__dict__`. An item: of a list, tuple or deque by an int (a bool is none),
 * of a dict by an atom if all its keys are atoms; only of the exact types list, tuple, dict, deque, OrderedDict,
 * defaultdict, Counter. ANY: all items of a list, tuple or deque, or all values of a dict. A path that comes upon
 * anything else is unknown, and so are all effects of the line; so are those whose root has no value: it is a builtin, or
 * the line has deleted it. A path that ends (a missing key or attribute) touches nothing. If a path leads through what
 * another effect touches, or through something small that has changed, it may have led elsewhere when its effect came
 * about (`a.next.next, a.next = a, None`; `a.next.next = b` where `a.next` was `a`): then all is unknown. The last step of
 * `x[i] += v` leads to what the line itself has put there.
 *
 * STORE touches what the path leads to. CALL, by what is called, f:
 * - a function of the program, or an `lru_cache` around anything, or a class: nothing
 * - a library function taken before the run (`bridge.py`): nothing, or its first argument
 * - a method of x, found as above but not called: x of the types str, int, float, bool, None, bytes, tuple, range,
 *   frozenset, complex: nothing; of list, dict, set, deque, bytearray or a library subclass of these: x; an instance of
 *   a class of the program: as for f if a function of the program is found in the MRO; x if f is found in a built-in
 *   container base; nothing if it is found in `object`; a generator: nothing
 * - a bound method: as for its function, or a method of its owner
 * - anything else: unknown
 */
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
