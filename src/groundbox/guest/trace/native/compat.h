/* Functions that CPython 3.13 still exports, but no longer declares in its public headers. */
#ifndef GROUNDBOX_COMPAT_H
#define GROUNDBOX_COMPAT_H

#include <Python.h>

#if PY_VERSION_HEX >= 0x030D0000
PyAPI_FUNC(int) _PySet_NextEntry(PyObject *set, Py_ssize_t *position, PyObject **key, Py_hash_t *hash);
PyAPI_FUNC(PyObject *) _PyLong_Format(PyObject *value, int base);
#endif

#endif
