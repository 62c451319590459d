/* What events of the program become which records (recorder.py). */
#ifndef GROUNDBOX_RECORDER_H
#define GROUNDBOX_RECORDER_H

#include "frames.h"

#include "states.h"

bool recorder_open(long long soft_events);
void recorder_close(void);

void recorder_called(PyFrameObject *frame, Code *code);
void recorder_resumed(PyFrameObject *frame, State *state);
/* `offset` is that of the line's first instruction. */
void recorder_line(PyFrameObject *frame, State *state, int number, int offset);
/* A conditional jump went one way. */
void recorder_branched(PyFrameObject *frame, State *state, const Branch *branch, bool jumped);
/* A line event of a frame while a fold lasts, at an offset. */
void recorder_pass_line(const PyFrameObject *frame, const Code *code, int offset);
void recorder_raised(PyFrameObject *frame, State *state, PyObject *exception, int offset);
void recorder_returned(PyFrameObject *frame, State *state, PyObject *value);
void recorder_yielded(PyFrameObject *frame, State *state, PyObject *value);
void recorder_unwound(PyFrameObject *frame, State *state);
void recorder_finish(bool ended);
void recorder_lost(PyObject *why);

/* The fold is over: tells it, and the difference it made. */
void recorder_end_fold(PyFrameObject *frame, State *state);
/* The generator whose loop runs unrecorded gives a value and waits: the fold rests, or is over. */
void recorder_gives(PyFrameObject *frame, State *state, PyObject *value);

#endif
