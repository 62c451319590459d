/* What is known of the frames of user code while they live, by the address of the frame object. */
#ifndef GROUNDBOX_STATES_H
#define GROUNDBOX_STATES_H

#include "frames.h"

#include "effects.h"
#include "plan.h"

enum { SHORT_TEXT = 24 };

/* What was last told of a name. */
typedef struct {
    bool set;
    /* The value, if it is held: the very same object need not be written again. */
    PyObject *held;
    size_t size;
    /* Its text, if that is short, or where it is. */
    union {
        char here[SHORT_TEXT];
        char *there;
    } text;
} Told;

typedef struct State {
    struct State *next;
    /* Only compared: the frame may be gone. */
    const PyFrameObject *frame;
    /* References of the table and of the states whose parent it is. */
    int references;
    Code *code;
    long long f;
    struct State *parent;
    int n;
    const Line *line;
    /* What user code returned to the present line. */
    Objects back;
    /* Offset at which an exception came up since the last line event. */
    int raised_at;
    /* Address of the last exception that came up. */
    const PyObject *exception;
    /* The frame under this one that was last left by an exception, or 0, and that. */
    long long left;
    const PyObject *left_by;
    /* Number of the generator that its present line made go on last, if no other user code has run since; or 0. */
    long long drives;
    /* Of a generator: how often the line that drives it has done so. */
    int resumes;
    /* By loop of the code object: how often its header was come to. */
    int *visits;
    /* By counted loop: iterations that have begun since it was entered last. */
    int *counts;
    /* The loop that has taken an item, while no line after its header was come to; or -1. */
    int begins;
    /* Of the loops that share the head that it jumps to: how many go on within their iteration. */
    int source;
    /* On 3.11: the conditional jump that was the last one, or NULL. */
    const Branch *jump;
    /* How many folds had ended when all its names were last known. */
    int folds;
    Told told[];
} State;

bool states_open(void);
void states_close(void);
/* The state of a frame of this code object, or NULL. */
State *state_of(const PyFrameObject *frame, const Code *code);
/* A new state takes the place of one that the frame object's address had before. NULL without memory. */
State *state_add(const PyFrameObject *frame, Code *code);
/* What the table had keeps alive who else refers to it. */
void state_remove(const PyFrameObject *frame);
void state_set_parent(State *state, State *parent);
void states_clear(void);

const char *told_text(const Told *told);
/* Remembers a text; `held` may be NULL. */
void told_set(Told *told, PyObject *held, const char *text, size_t size);
void told_clear(Told *told);

#endif
