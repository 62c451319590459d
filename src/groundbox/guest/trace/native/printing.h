/* Printed text on its way into `out` records. */
#ifndef GROUNDBOX_PRINTING_H
#define GROUNDBOX_PRINTING_H

#include <Python.h>

/* Text was written to a stream. Writes to one stream are put together until the next record. */
void printed_add(int stream, PyObject *text);
/* Gathers the `out` record, if there is one to come. */
void printed_flush(void);
void printed_reset(void);

#endif
