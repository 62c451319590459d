/* A loop or a body that runs without records.
 *
 * From `soft_events` records on, a loop whose header was come to twice already in this activation is folded when its
 * header is come to again (that line event is the first one folded); a body, when its function has been recorded twice
 * already in the run. Coroutines and the bodies of generators are not folded, and nothing is once user code has run in a
 * second thread.
 *
 * While a fold lasts, line events of all user code are counted as steps and calls as calls; nothing is looked at. A
 * loop's fold is over at the first line event of its frame outside the loop's lines, or when the frame is left; a
 * body's, when its frame is left. If an exception came up in the frame and then led out of the loop, its `raise` follows
 * the fold.
 *
 * A loop's iterations are the visits to its header, less one if the header was the last line that ran: that visit found
 * the loop exhausted or its condition false.
 *
 * **Generators.** The fold of a generator's loop rests while the generator waits, if what it gave and its variables can be
 * held without a trace: atoms, objects with a label, and tuples of these. Nothing but library code can run then:
 * the next event of user code is either the generator's, and the fold goes on, or somebody else's, and the fold is over.
 * Then the iteration that the generator waits in is not counted, and a `yield` of what it gave last follows the fold; the
 * rest of this iteration is recorded. So a loop that yields is only folded if one line of the caller has made the
 * generator go on twice already, with no other user code between: then the caller is library code that goes through it.
 */
#ifndef GROUNDBOX_FOLDING_H
#define GROUNDBOX_FOLDING_H

#include "frames.h"

#include "states.h"

/* A variable of a generator that waits. Strong, or NULL. */
typedef struct {
    PyObject *value;
    /* It has the text last told for it. */
    bool same;
} Kept;

typedef struct {
    bool going;
    /* Only compared. */
    const PyFrameObject *frame;
    State *state;
    long long steps, calls, visits;
    /* The line that its frame is on. */
    int at;
    int header, first, last;
    bool is_call;
    /* What came up in its frame last, or NULL. Strong. */
    PyObject *exception;
    /* While it rests: its generator's frame, which is only compared, and what was given last. Strong. A generator may go
     * away without an event, and then its slots must not be read, so `kept` has the values of `Code.variables`. */
    PyFrameObject *rests;
    Kept *kept;
    PyObject *value;
    /* Its frame is in the middle of an iteration. */
    bool waits;
    /* Something was given since the last line event, so the last visit to the header has begun an iteration. */
    bool began;
    /* Of the frame's counted loops: 1 more than the folded one, once it is over by itself; or 0. */
    int ended;
} Fold;

/* The one that is going on: nothing is recorded while it lasts, unless it rests; then `going` is false. */
extern Fold fold;

/* `loop` is the line of the loop's header, or NULL for a body. */
void fold_begin(const PyFrameObject *frame, State *state, int header, const Line *loop);
/* Its frame comes to a line; whether that is still inside. */
bool fold_goes_on(int number);
/* An exception came up in its frame. */
void fold_raised(PyObject *exception, int offset);
void fold_drop(void);
/* Its frame, a generator's, gives a value and waits; whether the fold can rest, since all may be held. */
bool fold_rest(PyFrameObject *frame, PyObject *value);
/* Its frame goes on. */
void fold_wake(void);
/* Writes the `fold` record. */
void tell_fold(void);
/* Whether an exception only ends a loop. */
bool is_quiet(const Code *code, PyObject *exception, int offset);

#endif
