/* A loop or a body that runs without records (folding.py). */
#ifndef GROUNDBOX_FOLDING_H
#define GROUNDBOX_FOLDING_H

#include "frames.h"

#include "states.h"

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
} Fold;

/* The one that is going on: nothing is recorded while it lasts. */
extern Fold fold;

/* `loop` is the line of the loop's header, or NULL for a body. */
void fold_begin(const PyFrameObject *frame, State *state, int header, const Line *loop);
/* Its frame comes to a line; whether that is still inside. */
bool fold_goes_on(int number);
/* An exception came up in its frame. */
void fold_raised(PyObject *exception, int offset);
void fold_drop(void);
/* Writes the `fold` record. */
void tell_fold(void);
/* Whether an exception only ends a loop. */
bool is_quiet(const Code *code, PyObject *exception, int offset);

#endif
