/* All state of the one recording that a process can have. */
#ifndef GROUNDBOX_CORE_H
#define GROUNDBOX_CORE_H

#include <Python.h>

#include "heap.h"
#include "kinds.h"
#include "memory.h"
#include "plan.h"
#include "text.h"

enum { MOST_CONTAINERS = 12 };

/* What is left to Python, and types that are not part of the interpreter's interface. Strong references. */
typedef struct {
    PyObject *kinds, *kind_of, *leaf, *array, *shown_items, *length, *thread_name;
    PyTypeObject *deque, *cached, *method_wrapper;
    /* _CONTAINERS of bridge.py; the first `dict_count` are dicts. */
    PyTypeObject *containers[MOST_CONTAINERS];
    int container_count, dict_count;
    PyObject *standard_reprs;
    PyGetSetDef *deque_maxlen;
} Helpers;

typedef struct {
    Plan plan;
    KindTable kinds;
    Heap heap;
    Memory memory;
    Helpers helpers;
    /* Texts being made; a stack: what is made in the middle of another text is cut off again when it is written. */
    Text text;
    /* `__name__` of the program's module. Strong. */
    PyObject *module_name;
    /* Why recording cannot go on, or NULL. */
    const char *failure;
    /* What a signal's handler raised in Python that we called: the program must see it. */
    PyObject *foreign;
} Core;

extern Core core;

/* Remembers the first failure, and clears the exception. Recording ends with the event. */
void core_fail(const char *why);
/* Calls into Python with room on its stack, whatever the program has used up. */
PyObject *core_call(PyObject *function, PyObject *const *arguments, size_t count);

#endif
