/* The state of the recording, and how it fails and calls Python. */
#include "frames.h"

#include "core.h"

enum { ROOM_FOR_PYTHON = 100 };

Core core;

void core_fail(const char *why)
{
    if (!core.failure)
        core.failure = why;
    if (!PyErr_Occurred())
        return;
    if (PyErr_ExceptionMatches(PyExc_Exception) || core.foreign) {
        PyErr_Clear();
        return;
    }
    PyObject *type, *traceback;
    PyErr_Fetch(&type, &core.foreign, &traceback);
    PyErr_NormalizeException(&type, &core.foreign, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
}

PyObject *core_call(PyObject *function, PyObject *const *arguments, size_t count)
{
    add_recursion(ROOM_FOR_PYTHON);
    PyObject *result = PyObject_Vectorcall(function, arguments, count, NULL);
    add_recursion(-ROOM_FOR_PYTHON);
    return result;
}
