/* The interpreter's events, and the boundary between them and the recorder. */
#ifndef GROUNDBOX_TRACER_H
#define GROUNDBOX_TRACER_H

#include "frames.h"

typedef struct {
    bool running;
    /* The recorder is at work, in the thread `owner`. */
    bool busy;
    unsigned long owner;
} Tracer;

extern Tracer tracer;

/* Records from now on: what this thread does on 3.11, and from 3.12 on what sys.monitoring tells. */
void tracer_start(void);
/* Records no more. False: somebody has taken the trace function away before, or changed what events are asked for. */
bool tracer_stop(void);
/* Waits while another thread is in the recorder. False: the recorder itself led here, or recording is over. */
bool tracer_enter(void);
/* What follows a true `tracer_enter`. Below 0: an exception is set that the program must see. */
int tracer_end_of_event(void);

/* Of what makes the events: settrace.c, or monitoring.c. */
void events_begin(void);
bool events_are_ours(void);
void events_end(void);

#if PY_VERSION_HEX >= 0x030C0000
/* What sys.monitoring calls, by the names of its events in small letters. */
extern PyMethodDef monitoring_methods[];
/* False: an exception is set. */
bool monitoring_init(void);
#else
/* What a new thread calls as its first trace function: puts the native one in its place. */
void tracer_adopt(PyFrameObject *frame);
#endif

#endif
