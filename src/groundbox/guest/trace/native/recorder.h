/* What events of the program become which records.
 *
 * A frame of user code that is known has a `State`, found by the address of the frame and checked by its code object. An
 * entry into a frame that has none is a `call`, whatever the interpreter calls it. The parent of a frame is the nearest
 * frame outside it that has a state.
 *
 * **Order within an event.** Text printed since the last record; then the event's own. For an event of frame F that ends
 * (a part of) its present line: changed objects, then names, then the record of the event. A `call` or `resume` first
 * looks at the objects of the line that the parent is on, unless that is in a class body that has inlined comprehensions
 * (3.12 writes the variables of a namespace that was looked at then back into the frame).
 *
 * **Objects** are looked at by the line's effects (effects.h): each touched object is checked, in the order of labels; if
 * anything may have changed, the heap is walked from: the values of the line's roots in their order, then the objects that names
 * which the line stores were last told to hold, then what user code returned to this line. Then names are (names.h).
 *
 * **Lines.** `n` of every record but `call` is the line last told of the frame (of a call: the first line of its code
 * object).
 *
 * **From.** A `raise` is `from` the frame that was left last by an exception under this line, if it is the same
 * exception.
 *
 * **Tests and iterations.** `recorder_branched` is called for each planned jump. A test is told at once, in the middle of
 * its line. The iteration of a `while` is told with the test that began it; that of a `for` before the next line, when its
 * item has been assigned; if the body is on the header's line, at once and without the item. While a fold lasts, iterations
 * are only counted, so that numbers are right when something is recorded again.
 */
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
