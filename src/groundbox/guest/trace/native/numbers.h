/* Integers as JSON text. */
#ifndef GROUNDBOX_NUMBERS_H
#define GROUNDBOX_NUMBERS_H

#include <Python.h>

/* An int, or an instance of a subclass, written as the plain number. */
void write_integer(PyObject *value);

#endif
