/* What an object with an identity holds at one moment (plain/contents.py says what of which type): arrays of strong references. */
#ifndef GROUNDBOX_CONTENTS_H
#define GROUNDBOX_CONTENTS_H

#include <Python.h>
#include <stdbool.h>

#include "kinds.h"

typedef struct Contents {
    Py_ssize_t count, room;
    PyObject **items;
    /* Of dicts: keys. Of attributes: names. Else NULL. */
    PyObject **keys;
    struct Contents *extra;
    /* Nothing in it is told as an object, so walks stop here. */
    bool plain;
} Contents;

/* NULL, with core.failure set, if that cannot be done. */
Contents *contents_take(PyObject *value, const Kind *kind);
/* Whether `value` still holds what `shadow` says; never takes memory for lists, dicts, sets and instances. */
bool contents_hold(PyObject *value, const Kind *kind, const Contents *shadow);
bool contents_same(const Contents *one, const Contents *other, const Kind *kind);
/* Makes place for `count` items in all. Without memory nothing changes, and core.failure is set. */
bool contents_reserve(Contents *contents, Py_ssize_t count);
void contents_free(Contents *contents);

/* The true `__dict__` of an instance whose kind has one, or NULL. Borrowed. */
PyObject *instance_dictionary(PyObject *value);

#endif
