/* The records' way out: a buffer in which a count of whole bytes stands before the data (plain/memory.py).
 *
 * Records of tests and iterations are not in `count`, which says where folding begins.
 */
#ifndef GROUNDBOX_MEMORY_H
#define GROUNDBOX_MEMORY_H

#include <Python.h>
#include <stdbool.h>

typedef struct {
    Py_buffer view;
    bool open;
    /* No more records can be taken. */
    bool closed;
    size_t max_bytes, used, gathered;
    /* `count` leaves out records of tests and iterations, `written` has them; `more` of the `parts` are such. */
    long long max_events, count, written, parts, more;
} Memory;

/* Takes a writable buffer. On failure an exception is set. */
bool memory_open(Memory *memory, PyObject *buffer, long long max_events);
/* Gathers a record, newline included. Beyond the limits a `lost` record stands instead of all that was gathered. */
void memory_add(Memory *memory, const char *record, size_t size);
/* Raises the count over what was gathered. */
void memory_commit(Memory *memory);
/* `why` is at most 200 characters. */
void memory_lost(Memory *memory, PyObject *why);
void memory_end(Memory *memory);
void memory_release(Memory *memory);

#endif
