/* What changed in an object, as `mutate` records: `Change` of plain/contents.py says which. */
#ifndef GROUNDBOX_CHANGES_H
#define GROUNDBOX_CHANGES_H

#include "contents.h"
#include "heap.h"

/* Tells the difference between the entry's shadow and its contents now. */
void tell_change(const Entry *entry, const Contents *now);

/* The records that this is told with. */
void tell_places(const Entry *entry, const Py_ssize_t *places, PyObject *const *items, Py_ssize_t count);
void tell_splice(const Entry *entry, Py_ssize_t start, Py_ssize_t removed, PyObject *const *items, Py_ssize_t count);
void tell_pairs_set(const Entry *entry, PyObject *const *keys, PyObject *const *items, Py_ssize_t count);
void tell_added(const Entry *entry, PyObject *const *items, Py_ssize_t count);
void tell_discarded(const Entry *entry, PyObject *const *items, Py_ssize_t count);

#endif
