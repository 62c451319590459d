/* Values as JSON text (../values.py), written at the end of core.text. */
#ifndef GROUNDBOX_VALUES_H
#define GROUNDBOX_VALUES_H

#include <Python.h>

#include "kinds.h"

/* `depth`: how many tuples, frozensets and methods it stands inside. */
void write_value(PyObject *value, int depth);
void write_values(PyObject *const *values, Py_ssize_t count, int depth);
/* The texts of some values, sorted, in brackets; over `many` of them: `head` of them, and `tail` beside them. */
void write_sorted(PyObject *const *values, Py_ssize_t count, int depth, Py_ssize_t many, Py_ssize_t head, Py_ssize_t tail);
/* JSON of the qualified name of a class. */
void write_class_name(PyTypeObject *type);

/* What the text of a tuple, frozenset or bound method refers to, but for other tuples: `each` in order, not unique. */
void inner_objects(PyObject *value, const Kind *kind, void (*each)(PyObject *));
/* What a tuple or frozenset shows, or the owner of a bound method. Borrowed; a new array. False without memory. */
bool parts_of(PyObject *value, const Kind *kind, PyObject ***parts, Py_ssize_t *count);

#endif
