/* Objects with an identity (heap.py): labels, shadows, descriptions and changes. */
#ifndef GROUNDBOX_HEAP_H
#define GROUNDBOX_HEAP_H

#include <Python.h>
#include <stdbool.h>

#include "contents.h"
#include "kinds.h"

typedef struct {
    PyObject *value;
    const Kind *kind;
    long long label;
    unsigned long long stamp;
    /* NULL while it is being described. */
    Contents *shadow;
} Entry;

typedef struct {
    /* By address of the object. */
    Entry **table;
    size_t mask, used;
    /* In the order of labels. */
    Entry **entries;
    size_t count, room;
    long long labels;
    int new_ones;
    unsigned long long stamp;
    size_t sweep_at;
} Heap;

bool heap_open(Heap *heap);
void heap_close(Heap *heap);
/* An event begins: 2,000 objects may be described. */
void heap_begin(void);
Entry *heap_find(PyObject *value);
/* Writes `{"ref":n}` at the end of core.text, after describing the object if it is new. */
void heap_write_ref(PyObject *value, const Kind *kind);
/* Tell what changed in one object, if it is labelled. */
void heap_check(PyObject *value);
/* Tell what changed in anything that can be reached from the roots, which the caller keeps alive. */
void heap_walk(PyObject *const *roots, Py_ssize_t count);
/* Tell what changed in any labelled object. */
void heap_check_all(void);

#endif
