/* The interpreter's events, and the boundary between them and the recorder. */
#ifndef GROUNDBOX_TRACER_H
#define GROUNDBOX_TRACER_H

#include "frames.h"

/* Traces this thread from now on, and on 3.12 and later all other threads that there are. */
void tracer_start(void);
/* Traces no more. False: somebody else has stopped it before. */
bool tracer_stop(void);
/* What a new thread calls as its first trace function: puts the native one in its place. */
void tracer_adopt(PyFrameObject *frame);

#endif
